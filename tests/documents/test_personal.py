"""Test personal data in a build: replacements, their counts by kind and source, and no copy elsewhere."""

import logging

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_corpus import build_here, kept_names, prose, rows, table_of, write_rows

from zyda_flows.flows.command.ledger import print_reasons
from zyda_flows.tasks.documents.planning import plan_documents
from zyda_flows.tasks.documents.run_steps import run_steps
from zyda_flows.tasks.planning.try_rules import try_steps
from zyda_flows.tasks.recipe.cleaning import Cleaning
from zyda_flows.tasks.storage.folder import Folder

MAILS = "Write to jo.doe@mail.test or to ann@mail.test. "
ADDRESSES, CARD = "From 8.8.4.4 to 10.0.0.1. ", "Paid by 4000 0566 5566 5556. "
SECRETS = ("jo.doe@mail", "ann@mail", "8.8.4.4", "0566 5566")
ALL = dict.fromkeys(("mail", "ip", "phone", "card", "iban"), True)


@pytest.fixture
def personal(corpus):
    """Return the small corpus with additional documents of two sources that contain personal data."""
    write_rows(
        corpus.folder / "in/best-5.parquet",
        rows(mails=MAILS + prose("mails"), many=MAILS * 3 + prose("many"), card=CARD + prose("card")),
    )
    write_rows(corpus.folder / "in/worst-5.jsonl.zst", rows(addresses=ADDRESSES + prose("addresses")))
    return corpus


def text_of(recipe, source, name):
    (row,) = [row for row in table_of(recipe, source) if row["name"] == name]
    return row["text"]


def test_replacements_are_counted_by_kind_and_source(personal, capsys):
    recipe = personal.load(documents=[{"clean": {"newlines": True, "pii": ALL | {"card": "[card]"}}}])
    ledger = build_here(recipe)
    mails = "Write to email@example.com or to firstname.lastname@example.org. "
    assert text_of(recipe, "best", "mails") == mails + prose("mails")
    assert text_of(recipe, "best", "many") == mails * 3 + prose("many")
    assert text_of(recipe, "best", "card") == "Paid by [card]. " + prose("card")
    assert text_of(recipe, "worst", "addresses") == "From 22.214.171.124 to 10.0.0.1. " + prose("addresses")
    counted = {
        (row["source"], row["cleaning"].removeprefix("newlines+pii")): row
        for row in ledger.cleaned().to_pylist()
    }
    times = {place: row["replaced"] for place, row in counted.items() if row["replaced"]}
    assert times == {("best", ".mail"): 8, ("best", ".card"): 1, ("worst", ".ip"): 1}
    mail_counts = counted["best", ".mail"]
    assert mail_counts["documents"] == 2
    assert mail_counts["characters_after"] - mail_counts["characters_before"] == 4 * (len(mails) - len(MAILS))
    assert counted["best", ""]["documents"] == 3
    with recipe.folder.open("published/cleaned.parquet") as file:
        assert pq.read_table(file) == ledger.cleaned()
    with recipe.folder.open("published/README.md") as file:
        card = file.read().decode()
    assert "`newlines+pii.mail` changed 2 documents of `best`" in card
    assert ", 8 replaced" in card
    write_rows(personal.folder / "in/best-6.parquet", rows(short="x"))
    filtered = personal.load(
        name="filtered", documents=[{"clean": "pii"}, {"filter": {"zyda1": {"length": 5}}}]
    )
    print_reasons(build_here(filtered))
    assert "pii.mail changed 2 documents of best" in " ".join(capsys.readouterr().out.split())
    trial = try_steps(personal.load(documents=[{"clean": "pii"}]), 1000)
    assert (trial.cleaned["pii.mail"].replaced, trial.cleaned["pii.ip"].replaced) == (8, 1)
    assert "pii.card" not in trial.cleaned


def test_no_stored_file_and_no_log_contains_removed_personal_data(personal, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    recipe = personal.load(documents=[{"clean": {"pii": ALL}}, {"measure": "pii"}])
    build_here(recipe)
    for path in recipe.folder.files(""):
        content = bytes_of(recipe.folder, path)
        assert not any(secret.encode() in content for secret in SECRETS), path
    output = caplog.text + "".join(capfd.readouterr())
    assert not any(secret in output for secret in SECRETS)


def bytes_of(folder: Folder, path: str) -> bytes:
    """Return the content of a file; for Parquet, the decompressed rows as text."""
    with folder.open(path) as file:
        if path.endswith(".parquet"):
            return repr(pq.read_table(file).to_pylist()).encode()
        return file.read()


def test_measured_counts_are_columns_and_counts_above_the_limit_remove_documents(personal):
    step = {"filter": {"pii": {"mail": [None, 3]}, "mine": {"pii.card": [None, 0]}}}
    recipe = personal.load(documents=[{"measure": "pii"}, step])
    build_here(recipe)
    removed = {row["reason"]: row for row in table_of(recipe, "removed") if row["stage"] == "rules"}
    assert {(reason, row["value"], row["threshold"]) for reason, row in removed.items()} == {
        ("pii.mail", 6, 3), ("mine.pii.card", 1, 0)}  # fmt: skip
    assert {"mails", "addresses"} <= kept_names(recipe)
    (mails,) = [row for row in table_of(recipe, "best") if row["name"] == "mails"]
    assert [mails[f"pii_{kind}"] for kind in ALL] == [2, 0, 0, 0, 0]
    (addresses,) = [row for row in table_of(recipe, "worst") if row["name"] == "addresses"]
    assert addresses["pii_ip"] == 1


def test_clean_pii_accepts_default_and_custom_replacements(personal):
    texts = pa.array([MAILS + ADDRESSES + CARD, "", MAILS], pa.large_string())

    def cleaned(**pii):
        plan = plan_documents(personal.load(documents=[{"clean": {"pii": pii} if pii else "pii"}]), "best")
        return run_steps(plan, texts)

    assert cleaned().text.to_pylist() == cleaned(mail=True, ip=True).text.to_pylist()
    assert CARD in cleaned().text[0].as_py()
    removed = cleaned(mail="", ip=False)
    assert removed.text.to_pylist()[2] == "Write to  or to . "
    assert list(removed.cleaned) == ["pii", "pii.mail"]
    assert removed.cleaned["pii.mail"].replaced == 4
    unchanged = cleaned(ip="8.8.4.4")
    assert (unchanged.cleaned["pii"].documents, unchanged.cleaned["pii.ip"].replaced) == (
        0,
        1,
    )  # the replacement equals the original


def test_document_of_personal_data_only_is_removed_as_emptied(personal):
    write_rows(personal.folder / "in/best-6.parquet", rows(alone="ann@mail.test"))
    recipe = personal.load(documents=[{"clean": {"pii": {"mail": ""}}}])
    build_here(recipe)
    assert [row["reason"] for row in table_of(recipe, "removed") if row["stage"] == "rules"] == [
        "pii.emptied"
    ]


def test_order_of_the_kinds_does_not_change_the_plan(personal):
    assert Cleaning(pii={"mail": "", "ip": False}).model_dump()["pii"] == {"mail": ""}
    settings = [{"ip": True, "mail": True}, {"mail": True, "ip": True, "card": False}]
    plans = [plan_documents(personal.load(documents=[{"clean": {"pii": pii}}]), "best") for pii in settings]
    assert plans[0] == plans[1]
