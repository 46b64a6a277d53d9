"""The kept documents of clusters: by preference, with exempt and protected sources."""

import datetime
import itertools
import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_corpus import (
    Corpus,
    build_here,
    contents,
    edited,
    kept_names,
    prose,
    rows,
    table_of,
    write_rows,
    zyda_here,
)

from zyda_flows.tasks.dedup import by_documents, contested
from zyda_flows.tasks.dedup.preference import Preference, comparable
from zyda_flows.tasks.errors import BadInput, BadRecipe
from zyda_flows.tasks.ids import MAX_SOURCES, first_id
from zyda_flows.tasks.sources.columns import JSON_TEXT
from zyda_flows.tasks.storage import parts as parts_module

TEXT = prose("who stays", 200)


def with_dates(folder):
    """Return a corpus of a single cluster, whose documents differ in date, score and length."""
    corpus = Corpus(folder)
    made = {
        "best": [("b_old", "2020-01-01", 3.5, TEXT), ("b_new", "2024-05-01", 1.0, edited(TEXT))],
        "middle": [("m_newest", "2025-01-01", None, f"{TEXT} and more"), ("m_none", None, 9.0, TEXT)],
        "worst": [
            ("w_long", "2021-01-01", 2.0, f"{TEXT} and very much more"),
            ("w_high", "2022-01-01", 9.0, TEXT),
        ],
    }
    for name, documents in made.items():
        write_rows(
            folder / f"in/{name}-7.parquet",
            [
                {"name": one, "date": date, "score": score, "stars": i, "text": text}
                for i, (one, date, score, text) in enumerate(documents)
            ],
        )
    corpus.recipe["sources"] = [{"name": name, "files": f"in/{name}-7.parquet"} for name in made]
    return corpus


@pytest.fixture
def dated(tmp_path):
    return with_dates(tmp_path)


def kept(recipe):
    return {row["name"] for source in recipe.sources for row in table_of(recipe, source.name)}


@pytest.mark.slow
@pytest.mark.parametrize("rule", [None, {"containment": 0.8}], ids=["alone", "verified"])
@pytest.mark.parametrize(
    ("prefer", "expected"),
    [
        ("source", "b_old"),
        ("longest", "w_long"),
        (["date desc"], "m_newest"),
        (["date asc"], "b_old"),
        (["score desc", "source"], "m_none"),
        (["score desc", "date desc"], "w_high"),
        (["score asc"], "b_new"),
        (["stars desc", "longest"], "b_new"),
        (["n_tokens asc", "source"], "b_old"),
    ],
    ids=str,
)
def test_preferred_document_is_kept(dated, prefer, expected, rule):
    dedup = {"scope": "global", "prefer": prefer}
    recipe = dated.load(dedup={**dedup, "verify": rule} if rule else dedup)
    build_here(recipe)
    if rule is None:
        assert kept(recipe) == {expected}
    else:  # a document that is longer than the kept one may not be contained in it
        assert expected in kept(recipe)
        assert len(kept(recipe)) < 4


@pytest.mark.parametrize(
    ("prefer", "said"),
    [
        (["source"], "was kept, a document of the best-ranked source."),
        (["date desc", "longest"], "was kept: the first by `date desc`, then `longest`."),
    ],
    ids=str,
)
def test_card_names_the_preference(dated, prefer, said):
    recipe = dated.load(dedup={"scope": "global", "prefer": prefer})
    build_here(recipe)
    assert f"One document of each cluster {said}" in recipe.folder.read("published/README.md").decode()


def test_best_source_keeps_all_and_among_them_the_preferred_is_named(dated):
    recipe = dated.load(dedup={"scope": "across", "prefer": ["source", "date desc"]})
    build_here(recipe)
    assert kept(recipe) == {"b_old", "b_new"}
    names = {row["doc_id"]: row["name"] for row in table_of(recipe, "best")}
    assert {names[row["kept_doc_id"]] for row in table_of(recipe, "removed")} == {"b_new"}


VALUES = {
    "numbers": st.none() | st.integers(-5, 5),
    "floats": st.none() | st.sampled_from([-1.5, 0.0, 2.0, float("nan"), float("inf")]),
    "texts": st.none() | st.text("ab", max_size=2),
    "times": st.none() | st.dates(datetime.date(1999, 1, 1), datetime.date(2030, 1, 1)),
}


@settings(deadline=None)
@given(st.data(), st.sampled_from(sorted(VALUES)), st.sampled_from(["asc", "desc"]), st.integers(0, 3))
def test_order_equals_plain_sorting(data, kind, direction, protected_source):
    values = data.draw(st.lists(VALUES[kind], min_size=1, max_size=12))
    sources = data.draw(st.lists(st.integers(0, 2), min_size=len(values), max_size=len(values)))
    ids = [first_id(source, 0) + row for row, source in enumerate(sources)]
    protected = np.zeros(MAX_SOURCES, np.bool_)
    protected[protected_source] = True
    rank = np.arange(MAX_SOURCES).astype(np.uint64)
    order = Preference(
        rank, protected, {n: np.zeros(1, np.uint64) for n in range(4)}, (f"x {direction}", "source")
    )
    types = {"numbers": pa.int32(), "floats": pa.float64(), "texts": pa.large_string(), "times": pa.date32()}
    table = pa.table({"doc_id": pa.array(ids, pa.uint64()), "x": pa.array(values, types[kind])})
    found = order.order(order.values(table).append_column("doc_id", table.column("doc_id")), [])

    def place(i):
        value = values[i]
        is_nothing = value is None or value != value
        return protected[sources[i]], is_nothing, value

    def before(i, j):
        """Compare as the README describes, without null values of a library."""
        (first, no_first, a), (second, no_second, b) = place(i), place(j)
        if first != second:
            return first
        if no_first != no_second:
            return no_second
        if not no_first and a != b:
            return (a < b) == (direction == "asc")
        return ids[i] < ids[j]

    for i, j in itertools.pairwise(found.tolist()):
        assert before(i, j)


def compared(values, kind, *, as_json=False):
    """Return the order of values: the positions of an ascending order, ties by position."""
    field = pa.field("x", kind, metadata=JSON_TEXT if as_json else None)
    kinds = comparable(pa.chunked_array([pa.array(values, kind)]), field)
    rows = list(zip(*(kinds[name].to_pylist() for name in ("number", "fine", "text")), strict=True))
    return sorted(range(len(rows)), key=lambda i: tuple((v is None, v) for v in rows[i])), rows


def test_values_without_an_order_are_null():
    _, found = compared([[1], None], pa.list_(pa.int64()))
    assert found == [(None, None, None)] * 2


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), [2**53, 2**53 + 1, 2**63 - 1]),
        (pa.uint64(), [0, 2**63, 2**63 + 1, 2**64 - 1]),
        (pa.duration("s"), [datetime.timedelta(seconds=9), datetime.timedelta(seconds=10)]),
        (pa.timestamp("us"), [datetime.datetime(1969, 12, 31, 23, 59, 59, 5), datetime.datetime(1970, 1, 1)]),
        (pa.timestamp("s", "Asia/Tokyo"), [0, 9 * 3600]),
        (pa.date32(), [datetime.date(1960, 1, 1), datetime.date(9999, 12, 31)]),
        (pa.time32("ms"), [datetime.time(1), datetime.time(1, 0, 0, 1000)]),
        (pa.bool_(), [False, True]),
        (pa.float32(), [float("-inf"), 1.5, float("inf"), float("nan"), None]),
        (pa.large_string(), ["10", "9"]),
    ],
    ids=str,
)
def test_values_of_different_types_are_compared_exactly(kind, values):
    assert compared(values, kind)[0] == list(range(len(values)))
    assert compared(values[::-1], kind)[0] == list(range(len(values)))[::-1] or values[-1] is None


def test_instant_is_equal_in_any_unit_and_zone():
    instant = datetime.datetime(2024, 5, 31, 12, tzinfo=datetime.UTC)
    zones = [
        pa.timestamp("s", "UTC"),
        pa.timestamp("ns", "Europe/Berlin"),
        pa.timestamp("ms", "America/New_York"),
    ]
    assert len({compared([instant], zone)[1][0] for zone in zones}) == 1
    assert compared([datetime.date(1970, 1, 2)], pa.date64())[1] == compared([86_400], pa.int64())[1]


def test_number_is_equal_as_integer_float_and_json():
    found = [compared(["9"], pa.string(), as_json=True), compared(["9.0"], pa.string(), as_json=True)]
    found += [compared([9], kind) for kind in (pa.int8(), pa.float32(), pa.decimal128(5, 2))]
    assert len({kinds[0] for _, kinds in found}) == 1


def test_json_values_are_parsed():
    texts = ["10", '"abc"', "9", None, "[1]", "true", str(10**400), str(2**53 + 1), str(2**53)]
    order, _ = compared(texts, pa.string(), as_json=True)
    assert [texts[i] for i in order[:7]] == [
        "true",
        "9",
        "10",
        str(2**53),
        str(2**53 + 1),
        str(10**400),
        '"abc"',
    ]


@pytest.mark.slow
def test_preference_does_not_depend_on_the_size_of_parts(dated, monkeypatch):
    dedup = {"scope": "global", "prefer": ["score desc", "date asc"]}
    for i in range(12):
        text = prose(f"further {i}", 100)
        extra = [
            {"name": f"{i}{j}", "date": None, "score": float(j % 3), "stars": 0, "text": text}
            for j in range(4)
        ]
        write_rows(dated.folder / f"in/more-{i}.parquet", extra)
    sources = [*dated.recipe["sources"], {"name": "more", "files": "in/more-*.parquet"}]
    whole = dated.load(dedup=dedup, sources=sources)
    build_here(whole)
    monkeypatch.setattr(by_documents, "PART_BYTES", 1000)
    monkeypatch.setattr(parts_module, "GROUP_ROWS", 2)
    monkeypatch.setattr(contested, "FILE_BYTES", 3000)
    for bits in (12, 2):
        monkeypatch.setattr(by_documents, "MOST_BITS", bits)
        place = str(dated.folder / f"cut-{bits}")
        cut = dated.load(dedup=dedup, sources=sources, shard_mib=0.001, storage=place)
        build_here(cut)
        assert kept(cut) == kept(whole)
        assert sorted(map(str, table_of(cut, "removed"))) == sorted(map(str, table_of(whole, "removed")))
    assert len(kept(whole)) == 13


def change(corpus, place, **fields):
    corpus.recipe["sources"][place] |= fields
    return corpus


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["across", "global"])
@pytest.mark.parametrize("further", [{}, {"verify": {"containment": 0.8}}, {"exact": "normalised"}], ids=str)
def test_exempt_source_neither_loses_documents_nor_removes_others(corpus, scope, further):
    recipe = change(corpus, 0, exempt=True).load(dedup={"scope": scope, **further})
    ledger = build_here(recipe)
    assert ledger.removed("removals", "best").documents == 0
    assert {"best_of_all", "its_internal_copy"} <= kept_names(recipe)
    removed = table_of(recipe, "removed")
    assert all((row["kept_doc_id"] or 1 << 60) >> 54 > 0 for row in removed)
    assert {"middle_copy"} <= kept_names(recipe)  # its best document is now the best of the cluster
    assert all(row["doc_id"] >> 54 > 0 for row in table_of(recipe, "clusters"))
    assert any(
        row["doc_id"] >> 54 == 0 for row in table_of(recipe, "bands")
    )  # for other corpora, which may deduplicate against it
    for row in table_of(recipe, "best"):
        assert (row["cluster_id"], row["cluster_size"]) == (row["doc_id"], 1)


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["across", "global"])
@pytest.mark.parametrize("rule", [None, {"containment": 0.8}], ids=["alone", "verified"])
def test_protected_documents_are_kept_and_others_removed_for_them(corpus, scope, rule):
    dedup = {"scope": scope, **({"verify": rule} if rule else {})}
    recipe = change(corpus, 2, protect=True).load(dedup=dedup)
    build_here(recipe)
    names = kept_names(recipe)
    assert {"worst_copy", "worst_alone", "exact_copy_of_middle_alone", "last_alone"} <= names
    assert not {"best_of_all", "its_internal_copy", "middle_copy"} & names
    worst = {row["doc_id"] for row in table_of(recipe, "worst")}
    gone = [
        row for row in table_of(recipe, "removed") if row["stage"] == "removals" and row["cluster_id"] == 0
    ]
    assert {row["kept_doc_id"] for row in gone} <= worst


def test_documents_have_the_size_of_their_cluster(corpus):
    recipe = corpus.load()
    build_here(recipe)
    members = {}
    for row in table_of(recipe, "clusters"):
        members.setdefault(row["cluster_id"], set()).add(row["doc_id"])
    for source in recipe.sources:
        for row in table_of(recipe, source.name):
            cluster = members.get(row["cluster_id"], {row["doc_id"]})
            assert row["cluster_size"] == len(cluster)
            assert row["cluster_sources"] == len({doc_id >> 54 for doc_id in cluster})


def test_missing_preferred_column_is_reported_before_any_work(dated):
    dated.recipe["dedup"] = {"scope": "global", "prefer": ["year desc"]}
    said = zyda_here("check", dated.write())
    assert said.returncode == 1
    lines = re.findall(
        r"recipe\.yaml:\d+: dedup\.prefer: source (\w+): year desc: column year is missing", said.stderr
    )
    assert lines == ["best", "middle", "worst"]
    assert said.stderr.count("\n") == 3
    with pytest.raises((BadInput, BadRecipe), match="column year is missing; use one of doc_id, "):
        build_here(dated.load())
    rounds = [{"exact": "text"}, {"scope": "global", "prefer": "year asc"}]
    said = zyda_here("check", dated.write(dedup=rounds))
    assert "dedup[1].prefer: source best: year asc: column year is missing" in said.stderr


@pytest.mark.parametrize(
    ("change_to", "said"),
    [
        ({"dedup": {"prefer": []}}, "dedup.prefer: expected at least 1 item"),
        (
            {"dedup": {"prefer": "newest"}},
            "dedup.prefer[0]: `source`, `longest`, or a column with `asc` or `desc`",
        ),
        ({"dedup": {"prefer": ["date down"]}}, "dedup.prefer[0]: `source`, `longest`, or a column with"),
        ({"dedup": {"prefer": [" desc"]}}, "dedup.prefer[0]: `source`, `longest`, or a column with"),
        ({"dedup": {"prefer": ["source", "source"]}}, "dedup.prefer: an entry is given twice"),
        (
            {"dedup": {"prefer": ["longest"]}},
            "dedup: prefer: scope across keeps all documents of a cluster's best",
        ),
        ({"max_loss": 1}, "max_loss: expected less than 1"),
        ({"max_loss": "half"}, "max_loss: a number is expected"),
        ({"max_loss": {"rules": 2}}, "max_loss.rules: expected less than 1"),
        ({"max_loss": {"ingest": 0.1}}, "max_loss.ingest: unknown field"),
    ],
    ids=str,
)
def test_invalid_preference_is_a_one_line_error(corpus, change_to, said):
    with pytest.raises(BadRecipe) as caught:
        corpus.load(**change_to)
    (line,) = str(caught.value).splitlines()
    assert said in line


def test_exempt_and_protected_source_raises(corpus):
    with pytest.raises(BadRecipe, match=r"sources\[0\]: exempt and protect: give one of them"):
        change(corpus, 0, exempt=True, protect=True).load()


def test_build_with_an_added_file_equals_a_fresh_build(dated):
    dedup = {"scope": "global", "prefer": ["date desc"], "verify": {"jaccard": 0.7}}
    build_here(dated.load(dedup=dedup))
    late = {"name": "late", "date": "2026-01-01", "score": 0.0, "stars": 1, "text": TEXT}
    write_rows(dated.folder / "in/worst-8.parquet", [late])
    dated.recipe["sources"][2]["files"] = "in/worst-*.parquet"
    grown = dated.load(dedup=dedup)
    build_here(grown)
    fresh = dated.load(dedup=dedup, storage=str(dated.folder / "fresh"))
    build_here(fresh)
    assert contents(grown) == contents(fresh)
    assert "late" in kept(grown)


def test_recipe_with_only_exempt_sources_raises(corpus):
    for source in corpus.recipe["sources"]:
        source["exempt"] = True
    recipe = corpus.load()
    ledger = build_here(recipe)
    assert ledger.removed("removals").documents == 0
    assert len(rows()) == 0
