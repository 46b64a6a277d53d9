"""Test the replacement of personal data in named columns, including texts nested in lists, structs and JSON."""

import json

import pyarrow as pa
import pytest
from small_corpus import build_here, prose, table_of, write_rows

from zyda_flows.tasks.documents.personal_columns import with_clean_columns
from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.planning.prepare import prepare
from zyda_flows.tasks.sources.columns import json_field

PII = {"mail": "<M>", "ip": "<I>"}
MAIL, ADDRESS = "ann@mail.test", "2001:4860:4860::8888"
TYPED = {
    pa.string(): [MAIL, None, "", f"x {ADDRESS}"],
    pa.large_string(): [MAIL, None, "", f"x {ADDRESS}"],
    pa.string_view(): [MAIL, None, "", f"x {ADDRESS}"],
    pa.dictionary(pa.int8(), pa.string()): [MAIL, None, MAIL, f"x {ADDRESS}"],
    pa.list_(pa.string()): [[MAIL, None, "x"], None, [], [ADDRESS]],
    pa.large_list(pa.list_(pa.string())): [[[MAIL], None, []], None, [], [[ADDRESS, "y"]]],
    pa.struct([("who", pa.string()), ("n", pa.int64())]): [{"who": MAIL, "n": 1}, None, {"who": None, "n": None},
                                                         {"who": ADDRESS, "n": 2}],
    pa.list_(pa.struct([("who", pa.list_(pa.string()))])): [[{"who": [MAIL]}, None], None, [], [{"who": [ADDRESS]}]],
}  # fmt: skip


@pytest.mark.parametrize("kind", TYPED, ids=str)
def test_texts_in_columns_of_each_type_are_cleaned_and_the_type_is_kept(kind):
    expected = json.loads(json.dumps(TYPED[kind]).replace(MAIL, "<M>").replace(ADDRESS, "<I>"))
    whole = pa.table({"a": pa.array(TYPED[kind], kind), "b": [MAIL] * 4})
    for table, values in ((whole, expected), (whole.slice(1, 3), expected[1:]), (whole.slice(4), [])):
        cleaned, counts = with_clean_columns(table, {**PII, "columns": ["a"]})
        cleaned.validate(full=True)
        assert cleaned.schema == table.schema
        assert cleaned.column("a").to_pylist() == values
        assert cleaned.column("b").to_pylist() == table.column("b").to_pylist()
    _, counts = with_clean_columns(whole, {**PII, "columns": ["a"]})
    assert {name: count.replaced for name, count in counts.items()} == {
        "mail in a": json.dumps(TYPED[kind]).count(MAIL), "ip in a": 1}  # fmt: skip


def test_cleaned_json_is_valid_and_keeps_its_field_names():
    value = {"k\n": f"\n{MAIL}", "n": 1e300, "big": 2**70, MAIL: [None, True, f'"{ADDRESS}"']}
    table = pa.table([pa.array([json.dumps(value), None])], schema=pa.schema([json_field("a")]))
    cleaned, _ = with_clean_columns(table, {**PII, "columns": ["a"]})
    assert json.loads(cleaned.column("a")[0].as_py()) == {
        "k\n": "\n<M>", "n": 1e300, "big": 2**70, MAIL: [None, True, '"<I>"']}  # fmt: skip
    assert cleaned.column("a")[1].as_py() is None


@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.binary(), pa.list_(pa.float64()), pa.map_(pa.string(), pa.string())]
)
def test_column_without_texts_raises(kind):
    with pytest.raises(ValueError, match=r"column 'a' has the type .*, which contains no texts"):
        with_clean_columns(pa.table({"a": pa.array([], kind)}), {**PII, "columns": ["a"]})


def test_named_columns_are_cleaned_in_all_published_tables(corpus):
    documents = [{"name": f"doc {i}", "author_mail": f"jo{i}@mail.test", "by": [{"ip": "8.8.4.4"}], "other": f"ed{i}@mail.test",
              "text": prose(f"doc {i}") if i else "x"} for i in range(3)]  # fmt: skip
    write_rows(corpus.folder / "in/best-5.parquet", documents)
    best = [{"name": "best", "files": "in/best-*.parquet"}]
    step = {"clean": {"pii": {"mail": "<M>", "ip": True, "columns": ["author_mail", "by"]}}}
    recipe = corpus.load(documents=[step, {"filter": {"zyda1": {"length": 5}}}], sources=best)
    ledger = build_here(recipe)
    kept = [row for row in table_of(recipe, "best") if row["author_mail"]]
    assert {(row["author_mail"], row["by"][0]["ip"]) for row in kept} == {("<M>", "22.214.171.124")}
    assert {row["other"] for row in kept} == {"ed1@mail.test", "ed2@mail.test"}
    times = {row["cleaning"]: row["replaced"] for row in ledger.cleaned().to_pylist() if row["replaced"]}
    assert times == {"pii.mail in author_mail": 3, "pii.ip in by": 3}
    with pytest.raises(BadRecipe, match=r"clean.column: no column .nobody."):
        prepare.fn(corpus.load(documents=[{"clean": {"pii": {"columns": ["nobody"]}}}], sources=best))
    with pytest.raises(BadRecipe, match="column 'stars' has the type"):
        prepare.fn(corpus.load(documents=[{"clean": {"pii": {"columns": ["stars"]}}}], sources=best))
    with pytest.raises(BadRecipe, match="text is the text"):
        prepare.fn(corpus.load(documents=[{"clean": {"pii": {"columns": ["text"]}}}], sources=best))
