"""Test document steps in a build: cleaned and removed documents, and their counts in the ledger."""

import gzip
import importlib
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from raw_corpus import DIGITS, RUNS, XML, removed
from small_corpus import build_here, contents, kept_names, prose, rows, table_of, write_rows, zyda_here

from zyda_flows.flows.command.explain import decision, print_explanation
from zyda_flows.flows.dashboard.report_artifact import write_report
from zyda_flows.tasks import pipeline
from zyda_flows.tasks.documents.planning import DocumentPlan
from zyda_flows.tasks.documents.run_steps import run_steps
from zyda_flows.tasks.ingest import file_pieces
from zyda_flows.tasks.ingest import ingest as ingesting
from zyda_flows.tasks.lookup.explain import explain
from zyda_flows.tasks.lookup.report_data import findings_of
from zyda_flows.tasks.planning.prepare import prepare
from zyda_flows.tasks.planning.try_rules import try_steps
from zyda_flows.tasks.recipe.rule_sets import RULE_SETS
from zyda_flows.tasks.storage.tables import read_table


def test_rules_remove_documents_with_evidence(raw):
    recipe = raw.load()
    ledger = build_here(recipe)
    assert {"runs"} <= kept_names(recipe)
    assert not {"digits", "short", "xml", "xml_again", "dashes"} & kept_names(recipe)
    reasons = [row["reason"] for row in removed(recipe).values()]
    assert reasons.count("zyda1.digits") == 2
    assert reasons.count("zyda1.xml") == 2
    for row in removed(recipe).values():
        low, high = {
            "length": (100, None), "mean_word_length": (3, 12), "digits": (None, 0.2), "xml": (None, 10),
        }[row["reason"].removeprefix("zyda1.")]  # fmt: skip
        assert row["threshold"] in (low, high)
        assert (row["value"] < low) if row["threshold"] == low else (row["value"] > high)
    per_rule = {row["reason"]: 0 for row in removed(recipe).values()}
    for row in ledger.reasons().to_pylist():
        if row["stage"] == "rules":
            per_rule[row["reason"]] += row["documents"]
    assert per_rule == {reason: reasons.count(reason) for reason in reasons}
    # Tokens in = tokens out + the tokens that each rule removed.
    assert ledger.of("ingest").tokens - ledger.of("rules").tokens == sum(
        counts.tokens for counts in ledger.removed_by("rules").values()
    )


def test_cleaned_text_is_published_and_its_tokens_are_counted(raw):
    recipe = raw.load()
    ledger = build_here(recipe)
    (runs,) = [row for row in table_of(recipe, "best") if row["name"] == "runs"]
    assert runs["text"] == "a- " + prose("runs")
    uncleaned = raw.load(name="never", documents=[])
    build_here(uncleaned)
    (original,) = [row for row in table_of(uncleaned, "best") if row["name"] == "runs"]
    assert original["text"] == RUNS
    assert runs["n_tokens"] < original["n_tokens"]
    (cleaned,) = [row for row in ledger.cleaned().to_pylist() if row["source"] == "best"]
    assert (cleaned["cleaning"], cleaned["documents"]) == ("zyda1", 1)
    assert cleaned["characters_before"] - cleaned["characters_after"] == len(RUNS) - len(runs["text"])
    with recipe.folder.open("published/cleaned.parquet") as file:
        assert pq.read_table(file) == ledger.cleaned()
    with recipe.folder.open("published/reasons.parquet") as file:
        assert pq.read_table(file) == ledger.reasons()


def test_text_of_removed_documents_is_not_stored(raw):
    recipe = raw.load()
    build_here(recipe)
    for path in recipe.folder.files("work/ingest/best"):
        if path.endswith(".parquet"):
            with recipe.folder.open(path) as file:
                texts = pq.read_table(file, columns=["text"]).column("text").to_pylist()
            assert DIGITS not in texts
    row = next(row for row in removed(recipe).values() if row["reason"] == "zyda1.digits")
    explanation = explain(recipe, str(row["doc_id"]))
    assert explanation.text == DIGITS
    assert re.search(r"reason zyda1\.\w+: .*\(value .*, threshold ", decision(explanation))


def test_explanation_shows_the_text_of_a_removed_document(raw, capsys):
    recipe = raw.load()
    build_here(recipe)
    doc_id = next(doc_id for doc_id, row in removed(recipe).items() if row["reason"] == "zyda1.xml")
    print_explanation(explain(recipe, str(doc_id)))
    shown = capsys.readouterr().out
    assert 'it contains "xml" too often' in shown
    assert "text, unchanged from its source:\n  xml xml xml" in shown


def test_documents_removed_by_rules_do_not_change_deduplication(raw):
    recipe = raw.load()
    build_here(recipe)
    removed_ids = set(removed(recipe))
    assert not removed_ids & {row["doc_id"] for row in table_of(recipe, "clusters")}
    for name in ("best-5.parquet", "worst-5.jsonl.zst"):
        (raw.folder / "in" / name).unlink()
    write_rows(raw.folder / "in/best-5.parquet", rows(runs=RUNS))
    never = raw.load(name="never")
    build_here(never)
    assert kept_names(recipe) == kept_names(never)
    assert len(table_of(recipe, "clusters")) == len(table_of(never, "clusters")) > 0


def test_reason_is_the_first_rule_in_recipe_order_and_also_lists_the_others(raw):
    gopher = {"filter": {"zyda1": {"xml": None, "mean_word_length": [3.5, None]}}}
    own_rule = {"filter": {"mine": {"zyda1.digits": [None, 0.1]}}}
    recipe = raw.load(
        documents=[own_rule, gopher], keep_text=True
    )  # otherwise later rules skip removed documents
    build_here(recipe)
    digits = [row for row in removed(recipe).values() if row["value"] > 0.2 and "digits" in row["reason"]]
    assert [(row["reason"], row["also"]) for row in digits] == [("mine.zyda1.digits", ["zyda1.digits"])] * 2
    recipe = raw.load(documents=[gopher, own_rule], keep_text=True)
    build_here(recipe)
    digits = [row for row in removed(recipe).values() if row["reason"] == "zyda1.digits"]
    assert [row["also"] for row in digits] == [["mine.zyda1.digits"]] * 2


def test_document_emptied_by_cleaning_is_removed_as_emptied(raw):
    raw.recipe["sources"][2]["documents"] = [{"clean": {"runs": {"\n": 1}}}, {"clean": {"unicode": True}}]
    recipe = raw.load(documents=[{"clean": "refinedweb-lines"}])
    write_rows(raw.folder / "in/best-6.parquet", rows(menu="HOME\nABOUT\nLOGIN", empty=""))
    build_here(recipe)
    assert "empty" in kept_names(recipe)  # its text was empty before cleaning
    (row,) = [row for row in removed(recipe).values() if row["reason"] == "refinedweb-lines.emptied"]
    assert row["source"] == "best"


def spy_on_reads(monkeypatch):
    """Return a list that collects the columns which the rules read. Ingesting a file raises AssertionError."""
    columns_read, rules = [], importlib.import_module("zyda_flows.tasks.documents.rules")

    def note(folder, shard, columns=None):
        columns_read.append(tuple(columns))
        return read_table(folder, shard, columns)

    def refuse(*_):
        raise AssertionError("a source is read again")

    monkeypatch.setattr(rules, "read_table", note)
    monkeypatch.setattr(file_pieces, "ingest_piece", refuse)
    return columns_read


def test_changed_rule_values_do_not_read_texts_if_keep_text_is_set(raw, monkeypatch):
    recipe = raw.load(keep_text=True)
    build_here(recipe)
    kept_before = kept_names(recipe)
    columns_read = spy_on_reads(monkeypatch)
    looser = raw.load(
        keep_text=True, documents=[{"clean": "zyda1"}, {"filter": {"zyda1": {"xml": 1000, "length": 5}}}]
    )
    build_here(looser)
    assert set(columns_read) == {("doc_id", "document_steps")}
    assert kept_names(looser) == kept_before | {
        "xml",
        "best_short",
    }  # the other documents break a second rule or are duplicates
    texts = {row["name"]: row["text"] for row in table_of(looser, "best")}
    assert texts["xml"] == XML


def test_keep_text_changes_only_the_column_also(raw):
    recipe = raw.load(name="without")
    build_here(recipe)
    kept = raw.load(name="with", keep_text=True)
    build_here(kept)
    for name in ("best", "middle", "worst", "clusters"):
        assert table_of(recipe, name) == table_of(kept, name)
    removed_with, removed_without = removed(kept), removed(recipe)
    assert {i: row | {"also": 0} for i, row in removed_with.items()} == {
        i: row | {"also": 0} for i, row in removed_without.items()
    }
    assert all(set(removed_without[i]["also"]) <= set(removed_with[i]["also"]) for i in removed_without)


def test_changed_rule_values_ingest_again_if_keep_text_is_not_set(raw):
    recipe = raw.load()
    build_here(recipe)
    looser = raw.load(documents=[{"clean": "zyda1"}, {"filter": {"zyda1": {"xml": 1000}}}])
    build_here(looser)
    assert {"xml"} <= kept_names(looser)
    restored = raw.load()
    build_here(restored)
    assert "xml" not in kept_names(restored)


def test_source_without_steps_has_the_same_shards_as_in_a_recipe_without_steps(raw):
    raw.recipe["sources"][2]["documents"] = []
    recipe = raw.load()
    ledger = build_here(recipe)
    assert not ledger.removed("rules", "worst").documents
    plain = raw.load(name="plain", documents=[])
    raw.recipe["sources"][2].pop("documents")
    build_here(plain)
    ingested = [
        {path.partition("/worst/")[2] for path in built.folder.files("work/ingest/worst")}
        for built in (recipe, plain)
    ]
    assert ingested[0] == ingested[1]


def test_recipe_without_steps_has_no_rules_stage(corpus):
    recipe = corpus.load()
    ledger = build_here(recipe)
    assert "rules" not in ledger.stages
    assert "rules" not in pipeline.reasons(recipe)


def test_measured_statistics_are_published_columns(raw):
    recipe = raw.load(documents=[{"measure": "zyda1"}, {"filter": {"zyda1": {"xml": 1000}}}])
    build_here(recipe)
    for source in recipe.sources:
        for row in table_of(recipe, source.name):
            assert row["zyda1_length"] == len(row["text"])
            assert row["zyda1_xml"] == row["text"].count("xml")
            assert "document_steps" not in row
    assert "zyda1_length" in table_of(recipe, "removed")[0]


def test_columns_of_the_source_keep_their_names(raw):
    write_rows(
        raw.folder / "in/best-6.parquet", [{"name": "x", "text": prose("x"), "document_steps": 3, "value": 1}]
    )
    recipe = raw.load()
    build_here(recipe)
    (row,) = [row for row in table_of(recipe, "best") if row["name"] == "x"]
    assert (row["source_document_steps"], row["value"]) == (3, 1)


def test_steps_accept_zero_documents():
    result = run_steps(DocumentPlan(), pa.array([], pa.large_string()))
    assert len(result.text) == 0


# `zyda try`


def test_try_shows_the_removals_of_each_rule_and_writes_no_file(raw):
    completed = zyda_here("try", raw.write(), "--documents", "1000", "--examples", "1")
    assert completed.returncode == 0, completed.stderr
    assert re.search(r"\d+ documents of 3 sources, .* MB; \d+ kept", completed.stdout)
    assert re.search(r"zyda1\.digits +│ +2 ", completed.stdout)
    assert "zyda1.xml: at most 10 is kept" in completed.stdout
    assert not (raw.folder / "out").exists()
    kept = int(re.search(r"([\d,]+) kept", completed.stdout)[1].replace(",", ""))
    assert kept == build_here(raw.load()).of("rules").documents


@pytest.mark.parametrize("ending", ["jsonl.gz", "parquet", "arrow"])
def test_try_skips_unreadable_files(corpus, ending):
    for name in ("best-8", "best-9"):
        (corpus.folder / f"in/{name}.{ending}").write_bytes(gzip.compress(b"broken")[:-9])
    best = {**corpus.recipe["sources"][0], "files": "in/best-*"}
    recipe = corpus.load(sources=[best], on_bad_rows="set_aside", documents=[{"measure": "code"}])
    trial = try_steps(recipe, 1000, 1)
    assert trial.documents == {"best": trial.remaining}
    assert trial.remaining > 0


def test_try_without_steps_fails_with_a_message(corpus):
    completed = zyda_here("try", corpus.write())
    assert completed.returncode == 1
    assert completed.stderr == (
        "zyda: the recipe has no steps on documents and no passages to try; give it some: documents: [{filter: gopher-quality}]\n"
    )


def test_shard_size_does_not_change_the_corpus(raw):
    recipe = raw.load(name="large")
    build_here(recipe)
    small = raw.load(name="small", shard_mib=0.002, published_mib=0.002)
    build_here(small)
    assert contents(recipe).keys() != contents(small).keys()
    assert removed(recipe) == removed(small)
    assert kept_names(recipe) == kept_names(small)


@pytest.mark.slow
def test_report_shows_the_removals_by_rules(raw):
    recipe = raw.load()
    build_here(recipe)
    page = Path(write_report(recipe)).read_text(encoding="utf-8")
    assert "Removals by rules" in page
    assert "zyda1.digits" in page
    findings = findings_of(recipe).rules
    assert {rule.rule: sum(rule.documents.values()) for rule in findings} == {
        reason: counts.documents for reason, counts in build_here(recipe).removed_by("rules").items()
    }
    assert findings[0].rule == "zyda1.length"
    also = sum(1 for row in removed(recipe).values() if row["also"])
    assert sum(rule.also for rule in findings) == also > 0
    card = recipe.folder.read("published/README.md").decode()
    assert "| `zyda1.digits`: too many of its characters are digits | 2 (" in card
    assert "- `zyda1` changed 1 document of `best`" in card


def test_source_whose_documents_are_all_removed_is_published_empty(raw):
    recipe = raw.load(documents=[{"filter": {"zyda1": {"length": 10**9}}}])
    ledger = build_here(recipe)
    assert ledger.of("publish").documents == 0
    assert ledger.of("ingest").documents == ledger.removed("rules").documents == len(removed(recipe))
    assert kept_names(recipe) == set()


def test_steps_with_the_same_name_list_the_reasons_of_all(raw):
    steps = [
        {"filter": {"code": {"alphanumeric": None}}},
        {"measure": "code"},
        {"filter": {"code": {"max_line_length": None}}},
    ]
    reasons = pipeline.reasons(raw.load(documents=steps))["rules"]
    assert list(reasons) == [f"code.{name}" for name in RULE_SETS["code"].rules]


@pytest.mark.slow
@pytest.mark.parametrize("steps", [{"documents": [{"measure": "fineweb"}]},
                                   {"documents": [{"filter": "fineweb"}], "keep_text": True},
                                   {"documents": [{"filter": "fineweb"}]}])  # fmt: skip
def test_rule_added_to_a_set_ingests_again(corpus, monkeypatch, steps):
    rules = RULE_SETS["fineweb"].rules
    with monkeypatch.context() as patch:
        patch.delitem(rules, "new_lines")
        build_here(corpus.load(**steps))
        key_before = ingest_key(corpus.load(**steps))
    recipe = corpus.load(**steps)
    assert ingest_key(recipe) != key_before
    build_here(recipe)
    assert ingest_key(recipe) == ingest_key(corpus.load(**steps))


def ingest_key(recipe):
    plan = prepare.fn(recipe)[0]
    return ingesting.key(recipe, plan)


def test_gopher_repetition_removes_empty_texts_like_datatrove(corpus):
    recipe = corpus.load(documents=[{"filter": {"gopher-repetition": {}}}])
    build_here(recipe)
    reasons = [row["reason"] for row in removed(recipe).values()]
    assert reasons.count("gopher-repetition.empty") == 2
    assert not {"best_empty", "worst_empty"} & kept_names(recipe)
