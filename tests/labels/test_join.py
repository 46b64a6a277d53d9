"""Labels of others, joined to the documents of a source by their address, id or hash."""

import gzip
import hashlib
import json
import random
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from small_corpus import Corpus, build_here, contents, prose, table_of, write_rows

from zyda_flows.flows.command.ledger import show_corpus
from zyda_flows.tasks.accounts.published import published_manifest
from zyda_flows.tasks.errors import BadRecipe, ZydaError
from zyda_flows.tasks.labels import join_jobs, label_jobs
from zyda_flows.tasks.labels.join import JoinOfSource
from zyda_flows.tasks.labels.label_tables import find_labels
from zyda_flows.tasks.planning.last_build import ledger_if_complete
from zyda_flows.tasks.planning.prepare import planned_labels
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.stage.jobs import Job

DOCUMENTS = 300
KEYS = {"url": lambda i: f"https://a.example/{i}", "id": lambda i: i, "sha256": lambda i: text_of(i)}


def text_of(number):
    return f"{number} {prose('a page', 6)}"


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def key_of(on, number):
    """Return the key of a document as a table of labels has it."""
    return sha256(text_of(number)) if on == "sha256" else KEYS[on](number)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A source of DOCUMENTS pages in three files, in a recipe without deduplication."""
    corpus = Corpus(tmp_path_factory.mktemp("pages"))
    pages = [{"url": KEYS["url"](i), "id": i, "text": text_of(i)} for i in range(DOCUMENTS)]
    for number in range(3):
        write_rows(corpus.folder / f"in/pages-{number}.parquet", pages[number::3])
    corpus.recipe["sources"] = [{"name": "pages", "files": "in/pages-*.parquet", "exempt": True}]
    return corpus


def labels_for(on, seed, count=200):
    """Return labels of some documents, some of them several times, and of other documents."""
    draw = random.Random(seed)
    numbers = [draw.randrange(2 * DOCUMENTS) for _ in range(count)]
    grades = [draw.choice([None, *range(1000)]) for _ in numbers]
    return [
        {on: key_of(on, number), "grade": grade, "name": f"é {grade}", "inner": {"part": number / 8}}
        for number, grade in zip(numbers, grades, strict=True)
    ]


def write_labels(path, labels):
    if path.name.endswith(".jsonl.zst"):
        path.write_bytes(zstandard.compress(b"".join(json.dumps(row).encode() + b"\n" for row in labels)))
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(labels), path, row_group_size=30)
    else:
        write_rows(path, labels)


def with_join(corpus, storage="out", source=None, **join):
    """Return the recipe of a corpus whose first source has a join."""
    first, *others = corpus.recipe["sources"]
    sources = [first | {"join": [{"from": "in/labels*", **join}]} | (source or {}), *others]
    return corpus.load(sources=sources, storage=str(corpus.folder / storage))


def by_key(labels, on):
    """Group labels by key, in their order."""
    found = {}
    for row in labels:
        if row[on] is not None:
            found.setdefault(row[on], []).append(row)
    return found


def largest(values):
    return max((value for value in values if value is not None), default=None)


@pytest.fixture(autouse=True)
def without_labels(pages):
    yield
    for path in (pages.folder / "in").glob("labels*"):
        path.unlink()


@pytest.mark.parametrize(
    ("on", "many"), [("url", "first"), ("id", "max"), ("sha256", "first"), ("sha256", "max")]
)
def test_labels_are_those_of_a_dictionary(pages, on, many, monkeypatch):
    monkeypatch.setattr(label_jobs, "BATCH_BYTES", 2000)
    monkeypatch.setattr(label_jobs, "PIECE_BYTES", 3000)
    monkeypatch.setattr(join_jobs, "RANGE_BYTES", 8000)
    monkeypatch.setattr("zyda_flows.tasks.labels.join.RANGE_BYTES", 16_000)
    labels = [labels_for(on, seed) for seed in range(3)]
    write_labels(pages.folder / "in/labels-0.parquet", labels[0])
    write_labels(pages.folder / "in/labels-1.jsonl.gz", labels[1])
    write_labels(pages.folder / "in/labels-2.jsonl.zst", [*labels[2], {on: None, "grade": 1}])
    recipe = with_join(
        pages,
        f"out-{on}-{many}",
        on=on,
        many=many,
        take={"grade": "grade", "name_of": "name", "part": "inner.part"},
    )
    build_here(recipe)
    known = by_key([row for some in labels for row in some], on)
    published = {row["id"]: row for row in table_of(recipe, "pages")}
    assert len(published) == DOCUMENTS
    often = 0
    for number, row in published.items():
        found = known.get(key_of(on, number), [])
        often += len(found) > 1
        columns = [[label["grade"] for label in found], [label["name"] for label in found]]
        columns.append([label["inner"]["part"] for label in found])
        expected = [largest(values) if many == "max" else next(iter(values), None) for values in columns]
        assert [row["grade"], row["name_of"], row["part"]] == expected
    pieces = {path.rpartition("/")[2] for path in recipe.folder.files("work/join") if "/labels-" in path}
    assert len([name for name in pieces if name.endswith(".parquet")]) >= 5
    (account,) = published_manifest(recipe.folder).joins
    matched = [number for number in published if key_of(on, number) in known]
    used = sum(len(known[key_of(on, number)]) for number in matched)
    assert account.documents == DOCUMENTS
    assert (account.matched, account.matched_often) == (len(matched), often)
    assert (account.rows, account.unused) == (601, 601 - used)
    assert account.columns == {"grade": "int64", "name_of": "string", "part": "double"}
    card = recipe.folder.folder("published").read("README.md").decode()
    assert f"{len(matched)} of 300 documents of `pages` have labels of `in/labels*` by `{on}`" in card


def test_files_of_labels_are_gathered_and_a_frequent_key_takes_no_more_memory(pages, monkeypatch):
    monkeypatch.setattr("zyda_flows.tasks.dedup.exchange.MOST_FILES", 2)
    monkeypatch.setattr("zyda_flows.tasks.labels.join.RANGE_BYTES", 4000)
    for number in range(5):
        labels = [{"id": 7, "grade": number * 1000 + i} for i in range(300)]
        write_labels(
            pages.folder / f"in/labels-{number}.parquet", [{"id": 3 + number, "grade": number}, *labels]
        )
    recipe = with_join(pages, "gathered", on="id", many="first", take="grade")
    build_here(recipe)
    grades = {row["id"]: row["grade"] for row in table_of(recipe, "pages") if row["grade"] is not None}
    assert grades == {3: 0, 4: 1, 5: 2, 6: 3, 7: 0}
    parts = [
        path for path in recipe.folder.files("work/join") if "/labels-" in path and path.endswith(".parquet")
    ]
    assert len(parts) == 5
    tables = [pq.read_table(f"{recipe.folder.url}/{path}") for path in parts]
    assert sorted(map(len, tables)) == [1, 2, 2, 2, 2]
    (account,) = published_manifest(recipe.folder).joins
    assert (account.matched, account.matched_often, account.rows, account.unused) == (5, 1, 1505, 0)


def test_binary_hashes_and_texts_of_a_published_corpus_are_keys(pages, tmp_path):
    numbers = range(0, DOCUMENTS, 3)
    labels = pa.table(
        {"sha": [bytes.fromhex(sha256(text_of(i))) for i in numbers], "grade": [*map(str, numbers)]}
    )
    pq.write_table(labels, pages.folder / "in/labels.parquet")
    other = Corpus(tmp_path)
    write_rows(tmp_path / "in/web.parquet", [{"text": text_of(i), "rank": i} for i in numbers])
    web = other.load(sources=[{"name": "web", "files": "in/web.parquet", "exempt": True}])
    build_here(web)
    joins = [
        {"from": "in/labels*", "on": "sha256", "key": "sha", "take": "grade"},
        {"from": web.folder.url, "on": "sha256", "take": ["rank"]},
    ]
    recipe = with_join(
        pages, "hashes", {"join": joins, "keep": "rank >= 0 AND grade <> '3'"}, on="id", take="a"
    )
    build_here(recipe)
    published = {row["id"]: (row["rank"], row["grade"]) for row in table_of(recipe, "pages")}
    assert published == {i: (i, str(i)) for i in numbers if i != 3}


def test_judges_use_the_labels(pages):
    labels = [{"id": i, "grade": i % 7} for i in range(0, DOCUMENTS, 2)]
    write_labels(pages.folder / "in/labels.jsonl", labels)
    keep = {"keep": "grade >= 3 AND grade < 6"}
    recipe = with_join(pages, "kept", keep, on="id", take="grade")
    ledger = build_here(recipe)
    assert {row["id"] for row in table_of(recipe, "pages")} == {
        row["id"] for row in labels if 3 <= row["grade"] < 6
    }
    assert ledger.of("join", "pages") == ledger.of("ingest", "pages")
    with pytest.raises(ZydaError, match='keep: grad >= 3: unable to find column "grad"'):
        build_here(with_join(pages, "kept", {"keep": "grad >= 3"}, on="id", take="grade"))


def test_changed_labels_run_only_the_join_and_later_stages(pages, monkeypatch):
    made = []
    counted = Job.counted
    monkeypatch.setattr(Job, "counted", lambda job: (made.append(job), counted(job))[1])
    write_labels(pages.folder / "in/labels.parquet", labels_for("id", 1))
    recipe = with_join(pages, "changed", on="id", many="first", take="grade")
    build_here(recipe)
    assert {job.stage for job in made} >= {"ingest", "join", "publish"}
    assert ledger_if_complete(recipe)
    made.clear()
    build_here(recipe)
    assert not made
    write_labels(pages.folder / "in/labels.parquet", labels_for("id", 2))
    assert not ledger_if_complete(recipe)
    build_here(recipe)
    assert {job.stage for job in made} == {"join", "removals", "publish"}
    fresh = with_join(pages, "fresh", on="id", many="first", take="grade")
    build_here(fresh)
    assert contents(fresh) == contents(recipe)


def test_killed_and_resumed_build_has_the_same_bytes(pages, monkeypatch):
    labels = [labels_for("url", seed) for seed in range(2)]
    for number, some in enumerate(labels):
        write_labels(pages.folder / f"in/labels-{number}.parquet", some)
    whole = with_join(pages, "whole", on="url", many="max", take=["grade"])
    build_here(whole)
    cut = with_join(pages, "cut", on="url", many="max", take=["grade"])
    for _ in range(4):  # each build makes two more files
        jobs = 0

        def counted(job, real=Job.counted):
            nonlocal jobs
            jobs += job.stage == "join"
            if jobs == 3:
                raise KeyboardInterrupt
            return real(job)

        monkeypatch.setattr(Job, "counted", counted)
        with pytest.raises(KeyboardInterrupt):
            build_here(cut)
        monkeypatch.undo()
    build_here(cut)
    assert contents(cut) == contents(whole)


@pytest.mark.parametrize(
    ("join", "message"),
    [
        ({"on": "hash", "take": "a"}, r"join\[0\]\.on: expected 'url', 'id' or 'sha256'"),
        ({"on": "url", "take": []}, r"join\[0\]\.take: expected at least 1 item"),
        ({"on": "url", "take": {"b": "a", "B": "c"}}, "two columns with the name b are taken"),
        ({"on": "url", "take": "a", "many": "last"}, r"join\[0\]\.many: expected 'first', 'max' or 'error'"),
        ({"on": "url", "tak": "a"}, r"join\[0\]\.take: this field is required"),
    ],
)
def test_invalid_joins_raise_an_error_with_their_line(pages, join, message):
    with pytest.raises(BadRecipe, match=rf"recipe\.yaml:\d+: .*{message}"):
        with_join(pages, **join)


def test_two_joins_that_take_one_column_are_refused(pages):
    join = {"from": "in/labels.parquet", "on": "id", "take": "grade"}
    with pytest.raises(BadRecipe, match="two columns with the name grade are taken; rename one"):
        with_join(pages, source={"join": [join, join]}, on="id", take="a")


@pytest.mark.parametrize(
    ("labels", "join", "message"),
    [
        ([{"id": 1, "a": 2}], {"take": "b"}, r"file \S+labels.parquet: join.take: no column 'b'; there are 'id', 'a'"),
        ([{"ident": 1, "a": 2}], {"take": "a"}, r"join.key: no column 'id'; there are 'ident', 'a'"),
        ([{"id": 1, "url": 2}], {"take": "url"}, "the documents have a column 'url' already; rename it: take: {new_"),
        ([{"id": 1, "n_tokens": 2}], {"take": "n_tokens"}, "the documents have a column 'n_tokens' already"),
        ([{"id": 1, "a": [2]}], {"take": "a", "many": "max"}, "'a' is list<.*>, which has no largest value"),
        ([{"id": 1, "a": timedelta(2)}], {"take": "a", "many": "max"}, "'a' is duration.*, which has no largest value"),
        ([{"id": 1, "a": 2}, {"id": 1, "a": 3}], {"take": "a"}, r"file \S+pages-1.parquet, row 0: join: 2 labels have "
         r"its key, the first is row 0 of \S+labels.parquet; choose with `many: first` or `many: max`"),
        ([{"id": {"a": 1}, "a": 2}], {"take": "a"}, "column 'id' is struct.*, which names no key"),
        ([{"sha256": "ab", "a": 2}], {"take": "a", "on": "sha256"}, r"labels.parquet, row 0: join.key: 'ab' is no SHA-256"),
    ],
)  # fmt: skip
def test_faults_of_labels_raise_a_single_line(pages, labels, join, message):
    write_labels(pages.folder / "in/labels.parquet", labels)
    with pytest.raises(ZydaError) as raised:
        build_here(with_join(pages, "faults", **{"on": "id", **join}))
    (fault,) = getattr(raised.value, "faults", [str(raised.value)])
    assert re.search(message, fault)
    assert fault.count("source pages") == 1
    assert "\n" not in fault


def test_error_of_several_labels_names_the_file_of_the_first(pages, monkeypatch):
    monkeypatch.setattr(label_jobs, "PIECE_BYTES", 1000)
    (pages.folder / "in/labels-0.jsonl").write_bytes(b"")
    write_labels(pages.folder / "in/labels-1.parquet", [{"id": 1000 + i, "a": i} for i in range(90)])
    write_labels(
        pages.folder / "in/labels-2.parquet",
        [{"id": 2000 + i // 2, "a": i} for i in range(90)] + [{"id": 7, "a": 1}],
    )
    write_labels(pages.folder / "in/labels-3.parquet", [{"id": 7, "a": 2}])
    with pytest.raises(
        ZydaError, match=r"2 labels have its key, the first is row 90 of \S+labels-2\.parquet"
    ):
        build_here(with_join(pages, "first", on="id", take="a"))


def test_files_of_labels_can_be_empty(pages):
    """Programs write a part of a table without rows as a file without lines."""
    (pages.folder / "in/labels-0.jsonl.gz").write_bytes(gzip.compress(b""))
    recipe = with_join(pages, "empty", on="id", take="a")
    with pytest.raises(ZydaError, match=r"labels-0.jsonl.gz: join: its labels have no row"):
        build_here(recipe)
    write_labels(pages.folder / "in/labels-1.parquet", [{"id": 1, "a": 2}])
    build_here(recipe)
    assert {row["id"] for row in table_of(recipe, "pages") if row["a"] == 2} == {1}


def test_nan_and_null_are_no_id(tmp_path, capsys):
    """A reader of tables makes whole numbers with nulls to floats with NaN."""
    corpus = Corpus(tmp_path)
    ids = [1.0, float("nan"), float("nan"), None, float("inf"), 2.0]
    write_rows(tmp_path / "in/pages.parquet", [{"id": key, "text": text_of(i)} for i, key in enumerate(ids)])
    write_rows(tmp_path / "in/labels.parquet", [{"id": key, "grade": i} for i, key in enumerate(ids)])
    sources = [{"name": "pages", "files": "in/pages.parquet", "exempt": True}]
    corpus.recipe["sources"] = sources
    recipe = with_join(corpus, on="id", take="grade")
    build_here(recipe)
    assert {row["grade"] for row in table_of(recipe, "pages")} == {0, 5, None}
    (account,) = published_manifest(recipe.folder).joins
    assert (account.matched, account.unmatched, account.unused) == (2, 4, 4)
    show_corpus(recipe)
    assert (
        "2 of 6 documents of pages have labels by id; 4 of 6 labels have no document"
        in capsys.readouterr().out
    )


def test_label_files_with_other_types_or_damage_are_refused(pages):
    folder = pages.folder / "in"
    write_labels(folder / "labels-0.parquet", [{"id": 1, "a": 2}])
    write_labels(folder / "labels-1.parquet", [{"id": 2, "a": "x"}])
    recipe = with_join(pages, "faults", on="id", take="a")
    with pytest.raises(
        ZydaError, match=r"join\.take: 'a' is int64 and string in several files, expected one type"
    ):
        build_here(recipe)
    (folder / "labels-1.parquet").unlink()
    write_labels(folder / "labels-1.jsonl", [{"id": 2, "a": 1}, {"id": 2, "a": "x"}])
    with pytest.raises(
        ZydaError, match=r"labels-1.jsonl: join.take: 'a' has values of several types; take a field"
    ):
        build_here(recipe)
    (folder / "labels-1.jsonl").write_text('{"id": 2, "a": 1}\n[1]\n')
    with pytest.raises(ZydaError, match=r"labels-1.jsonl, row 1 \(line 2\): a list, expected an object"):
        build_here(recipe)
    (folder / "labels-1.jsonl").unlink()
    (folder / "labels-1.jsonl.gz").write_bytes(gzip.compress(b'{"id": 2, "a": 1}\n' * 999)[:-9])
    with pytest.raises(ZydaError, match=r"labels-1.jsonl.gz: cannot be read: it ends in the middle"):
        build_here(recipe)
    (folder / "labels-1.jsonl.gz").unlink()
    (folder / "labels-1.csv").write_text("id,a\n1,2\n")
    with pytest.raises(ZydaError, match=r"labels-1.csv: its format is csv, expected parquet, jsonl, arrow"):
        build_here(recipe)


def test_documents_without_the_column_of_the_key_are_refused(pages):
    write_labels(pages.folder / "in/labels.parquet", [{"id": 1, "a": 2}])
    with pytest.raises(ZydaError, match=r"join\.on: the documents have no column 'uuid'; there are "):
        build_here(with_join(pages, "faults", {"id": "uuid"}, on="id", take="a"))


def test_key_on_is_read_as_a_text(tmp_path):
    corpus = Corpus(tmp_path)
    corpus.write()
    text = corpus.path.read_text()
    join = "  join: [{from: in/x.parquet, on: id, take: a}]\n"
    corpus.path.write_text(text.replace("sources:\n", f"sources:\n- name: first\n  files: a.parquet\n{join}"))
    assert load_recipe(str(corpus.path)).sources[0].joins[0].on == "id"


def test_joins_of_two_sources_run_at_the_same_time(pages, monkeypatch):
    """A lock that a join holds while it waits for its jobs would stop the workers of a cluster."""
    write_labels(pages.folder / "in/labels.parquet", [{"id": 1, "a": 2}])
    recipe = with_join(pages, "together", on="id", take="a")
    (source,), both = recipe.sources, threading.Barrier(2, timeout=20)

    def run_together(function, jobs, **_):
        both.wait()
        return [function(job) for job in jobs]

    monkeypatch.setattr("zyda_flows.tasks.labels.join.fan_out", run_together)
    (labels,) = planned_labels(recipe.folder, source, [find_labels(source, source.joins[0], None)])
    joins = [
        JoinOfSource(recipe.folder, source, source.joins[0], labels, (), pa.schema([])) for _ in range(2)
    ]
    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(JoinOfSource.typed, joins)
    assert first.taken == second.taken == pa.schema([("0", pa.int64())])
