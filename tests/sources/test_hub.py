"""Sources on the hub: the same commit is listed and read, although the repository changes."""

import io
import json
import random
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub import HfFileSystem
from small_corpus import SOURCES, Corpus, build_here, contents, prose, published, rows
from stand_in_hub import StandInHub, point_client_at

from zyda_flows.tasks.errors import BadInput, BadRecipe, Unavailable
from zyda_flows.tasks.planning.last_build import ledger_if_complete
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.sources import footers
from zyda_flows.tasks.sources.formats import parquet
from zyda_flows.tasks.sources.listing import list_files
from zyda_flows.tasks.sources.reading import inspect, read
from zyda_flows.tasks.sources.selection import Selection
from zyda_flows.tasks.storage import stores

DOCUMENTS = rows(**{f"n{i}": prose(f"n{i}", 60) for i in range(40)})


def as_lines(documents):
    return b"".join(json.dumps(row).encode() + b"\n" for row in documents)


def as_parquet(documents, row_group_size=10):
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(documents), file, row_group_size=row_group_size)
    return file.getvalue()


FILES = {
    **{f"data/{i}/part.jsonl": as_lines(DOCUMENTS[i::5]) for i in range(5)},
    "data/small.jsonl": as_lines(DOCUMENTS[:1]),
    "data/all.parquet": as_parquet(DOCUMENTS),
    "README.md": b"# a card",
}


@pytest.fixture
def hub(monkeypatch):
    made = StandInHub()
    point_client_at(made, monkeypatch)
    monkeypatch.setattr(stores, "SECONDS_BEFORE_ASKING_AGAIN", ())
    monkeypatch.setattr(stores, "LEAST_WAIT", 0.0)
    yield made
    made.close()
    HfFileSystem.clear_instance_cache()


def listed(*patterns, **fields):
    return list_files(Source(name="far", files=patterns or ("hf://datasets/lab/web/data/**",), **fields))


def texts_in(file, name="far"):
    looked_at = inspect(name, file, "text", 10_000, may_be_bad=False).file
    chunks = [chunk for piece in looked_at.pieces for chunk in read(name, looked_at, piece, "text")]
    assert not [chunk.bad for chunk in chunks if chunk.bad]
    return [text for chunk in chunks for text in chunk.table.column("text").to_pylist() if len(chunk.rows)]


def test_repository_is_read_at_the_commit_that_was_listed(hub):
    first = hub.commit("lab/web", FILES)
    files = listed()
    assert [file.url for file in files] == sorted(
        f"hf://datasets/lab/web/{path}" for path in FILES if path.startswith("data/")
    )
    assert {file.location.commit for file in files} == {first}
    hub.commit("lab/web", {path: as_lines(rows(other=prose("other"))) for path in FILES})
    by_path = {file.url.removeprefix("hf://datasets/lab/web/"): file for file in files}
    for path, content in FILES.items():
        if path.endswith(".jsonl"):
            wanted = [json.loads(line)["text"] for line in content.splitlines()]
            assert texts_in(by_path[path]) == wanted
    assert texts_in(by_path["data/all.parquet"]) == [row["text"] for row in DOCUMENTS]


def test_workers_ask_for_no_listing(hub):
    hub.commit("lab/web", FILES)
    files = listed()
    hub.requests.clear()
    for file in files:
        texts_in(file)
    assert hub.requests["api"] == 0


def test_revision_may_be_a_branch_tag_or_commit_with_the_same_file_identity(hub):
    old = hub.commit("lab/web", {"data/a.jsonl": as_lines(DOCUMENTS[:4])}, branch="v1")
    hub.commit("lab/web", {"data/a.jsonl": as_lines(DOCUMENTS[4:])})
    (main,), (tagged,), (commit,) = listed(), listed(revision="v1"), listed(revision=old)
    assert main.version != tagged.version == commit.version
    assert {main.url, tagged.url, commit.url} == {"hf://datasets/lab/web/data/a.jsonl"}
    assert tagged.identity == commit.identity
    assert len(texts_in(tagged)) == 4
    (at_sign,) = listed("hf://datasets/lab/web@v1/data/*.jsonl")
    assert (at_sign.url, at_sign.version) == ("hf://datasets/lab/web@v1/data/a.jsonl", tagged.version)


def test_commit_that_changes_no_file_of_a_source_changes_nothing(hub):
    hub.commit("lab/web", FILES)
    before = listed()
    hub.commit("lab/web", {**FILES, "README.md": b"# another card"})
    assert [file.identity for file in listed()] == [file.identity for file in before]


def test_revision_that_is_not_there_is_named(hub):
    hub.commit("lab/web", FILES)
    with pytest.raises(BadInput, match="lab/web has no branch, tag or commit 'v9'"):
        listed(revision="v9")


def test_rewritten_repository_raises_for_a_missing_file(hub):
    sha = hub.commit("lab/web", FILES)
    files = listed()
    del hub.commits["lab/web", sha]
    with pytest.raises(BadInput, match=r"is missing, although .*; build again"):
        texts_in(files[0])


def test_requests_grow_with_bytes_and_not_with_row_groups(hub):
    many = as_parquet([{**row, "number": i} for i, row in enumerate(DOCUMENTS * 50)], row_group_size=5)
    hub.commit("lab/web", {"data/many.parquet": many})
    (file,) = listed()
    looked_at = inspect("far", file, "text", 1 << 30, may_be_bad=False).file
    assert len(looked_at.pieces[0].row_groups) == 400
    hub.requests.clear()
    (piece,) = looked_at.pieces
    chunks = read("far", looked_at, piece, "text")
    texts = [text for chunk in chunks for text in chunk.table.column("text").to_pylist()]
    assert texts == [row["text"] for row in DOCUMENTS * 50]
    assert hub.requests["store"] <= 3  # its footer, in two, and all its rows


def test_large_file_is_asked_for_its_footer_and_for_runs_of_its_row_groups(hub, monkeypatch):
    monkeypatch.setattr(parquet, "GAP_BYTES", 1 << 10)
    monkeypatch.setattr(parquet, "REQUEST_BYTES", 1 << 16)
    words = [
        {**row, "text": f"{row['text']} {random.Random(i).randbytes(500).hex()}"}
        for i, row in enumerate(DOCUMENTS * 10)
    ]
    hub.commit("lab/web", {"data/many.parquet": as_parquet(words, row_group_size=10)})
    (file,) = listed()
    looked_at = inspect("far", file, "text", 1 << 30, may_be_bad=False).file
    (piece,) = looked_at.pieces
    assert len(piece.row_groups) == 40
    hub.requests.clear()
    chunks = read("far", looked_at, piece, "text")
    assert [text for chunk in chunks for text in chunk.table.column("text").to_pylist()] == [
        row["text"] for row in words
    ]
    assert 3 <= hub.requests["store"] <= 4 + 1.5 * file.size / parquet.REQUEST_BYTES


def test_unselected_columns_are_not_requested(hub):
    ballast = [{**row, "ballast": random.Random(i).randbytes(200_000)} for i, row in enumerate(DOCUMENTS)]
    hub.commit("lab/web", {"data/wide.parquet": as_parquet(ballast, row_group_size=10)})
    (file,) = listed()
    hub.sent = 0
    looked_at = inspect("far", file, "text", 1 << 30, may_be_bad=False).file
    selection = Selection(without=("ballast",))
    (piece,) = looked_at.pieces
    chunks = [*read("far", looked_at, piece, "text", selection=selection)]
    assert {name for chunk in chunks for name in chunk.table.column_names} == {*DOCUMENTS[0]}
    assert hub.sent < file.size / 10


def test_file_here_is_not_asked_where_its_columns_lie(monkeypatch, tmp_path):
    """Of a damaged footer, pyarrow ends the process where it is asked about a column."""
    path = tmp_path / "a.parquet"
    path.write_bytes(as_parquet(DOCUMENTS * 4000, row_group_size=1000))
    monkeypatch.setattr(parquet, "chunks_of", lambda *_: pytest.fail("asked"))
    (file,) = list_files(Source(name="here", files=(str(path),)))
    assert file.size > parquet.GAP_BYTES
    assert len(texts_in(file)) == 4000 * len(DOCUMENTS)


def test_file_far_away_whose_footer_ends_the_process_that_looks_at_it_is_a_bad_file(hub, monkeypatch):
    monkeypatch.setattr(parquet, "GAP_BYTES", 1 << 10)
    hub.commit("lab/web", {"data/all.parquet": FILES["data/all.parquet"]})
    (file,) = listed()
    looked_at = inspect("far", file, "text", 10_000, may_be_bad=False).file
    monkeypatch.setattr(footers, "CHECK_COLUMNS", "import os; os.abort()")
    monkeypatch.setattr(parquet, "FOOTER_CHECKER", footers.FooterChecker())
    monkeypatch.setattr(parquet, "chunks_of", lambda *_: pytest.fail("asked"))
    chunks = [chunk for piece in looked_at.pieces for chunk in read("far", looked_at, piece, "text")]
    assert not any(len(chunk.rows) for chunk in chunks)
    assert all(bad.is_rest and "its footer is damaged" in bad.reason for chunk in chunks for bad in chunk.bad)
    assert sum(len(chunk.bad) for chunk in chunks) == len(looked_at.pieces)
    with pytest.raises(BadInput, match="its footer is damaged"):
        inspect("far", file, "text", 10_000, may_be_bad=False)


@pytest.fixture
def waits(monkeypatch):
    """Give the seconds that are waited for, which pass at once."""
    seconds = []
    monkeypatch.setattr(stores.time, "sleep", seconds.append)
    return seconds


@pytest.mark.parametrize("kind", ["resolve", "store"])
@pytest.mark.parametrize(
    ("status", "headers", "seconds"),
    [
        (
            429,
            {"RateLimit": '"resolvers";r=0;t=77', "RateLimit-Policy": '"fixed window";"resolvers";q=9;w=300'},
            77,
        ),
        (429, {"Retry-After": "4000"}, 4000),
        (503, {"Retry-After": "5"}, 5),
        (429, {}, 30),
    ],
)
def test_requested_wait_of_the_hub_is_respected(hub, waits, kind, status, headers, seconds):
    hub.commit("lab/web", FILES)
    (file,) = listed("hf://datasets/lab/web/data/all.parquet")
    hub.refusal, hub.busy[kind] = (status, headers), 3
    assert len(texts_in(file)) == len(DOCUMENTS)
    assert waits == [seconds] * 2


def test_hub_that_fails_otherwise_is_not_waited_for(hub, waits):
    hub.commit("lab/web", FILES)
    (file,) = listed("hf://datasets/lab/web/data/all.parquet")
    hub.refusal, hub.busy["store"] = (500, {"Retry-After": "5"}), 2
    with pytest.raises(Unavailable):
        texts_in(file)
    assert waits == []


def test_wait_is_logged_with_its_host(hub, waits, caplog):
    hub.commit("lab/web", FILES)
    (file,) = listed("hf://datasets/lab/web/data/all.parquet")
    hub.refusal, hub.busy["store"] = (429, {"Retry-After": "3600"}), 2
    with caplog.at_level("INFO", "zyda"):
        texts_in(file)
    assert [record.getMessage() for record in caplog.records if record.name == "zyda"] == [
        "127.0.0.1 limits its requests; it is asked again in 3600 s"
    ]


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"files": ["a.jsonl"], "revision": "v1"}, "applies to files on the hub .*; a.jsonl"),
        (
            {"files": ["hf://datasets/a/b@v2/x.jsonl"], "revision": "v1"},
            "contain a revision already, after @",
        ),
        ({"files": ["hf://buckets/a/b/x.jsonl"], "revision": "v1"}, "applies to files on the hub"),
    ],
)
def test_revision_that_means_nothing_is_a_fault(fields, fault):
    with pytest.raises((BadRecipe, ValueError), match=fault):
        Source(name="far", **fields)


@pytest.fixture
def on_hub(hub, tmp_path):
    """Give the small corpus with its files on the hub, with its recipe, and the same on disk."""
    corpus = Corpus(tmp_path)
    hub.commit("lab/web", {path.name: path.read_bytes() for path in sorted((tmp_path / "in").iterdir())})
    local = corpus.load(name="small")
    sources = [
        {**source, "files": [f"hf://datasets/lab/web/{one.removeprefix('in/')}" for one in files]}
        for source in corpus.recipe["sources"]
        for files in [[source["files"]] if isinstance(source["files"], str) else source["files"]]
    ]
    return corpus.load(storage=str(tmp_path / "from-hub"), sources=sources), local


def data_of(recipe):
    """Return the digests of the published and of the removed documents."""
    names = [*(source.name for source in recipe.sources), "removed", "clusters"]
    return {path: digest for path, digest in contents(recipe).items() if path.split("/")[0] in names}


def test_corpus_from_a_hub_that_moves_and_limits_requests_is_that_from_disk(hub, on_hub, waits):
    recipe, local = on_hub
    commit, asked = hub.branches["lab/web", "main"], Counter()

    def disturb(kind, path):
        asked[kind] += 1
        if kind == "resolve" and asked[kind] == 3:
            hub.commit("lab/web", {name: as_lines(rows(other=prose("other"))) for name in SOURCES})
        if asked[kind] % 4 == 0:
            hub.refusal, hub.busy[kind] = (429, {"RateLimit": '"resolvers";r=0;t=40'}), 2

    hub.before = disturb
    build_here(recipe)
    build_here(local)
    assert data_of(recipe) == data_of(local)
    assert set(waits) == {40.0, 41.0}  # the hub's own client waits a second more
    assert {row["commit"] for row in table_of_sources(recipe)} == {commit}
    assert {row["commit"] for row in table_of_sources(local)} == {None}


def table_of_sources(recipe):
    return pq.read_table(io.BytesIO(published(recipe).read("sources.parquet"))).to_pylist()


def test_commit_that_changes_no_file_makes_nothing_anew(hub, on_hub):
    recipe, _ = on_hub
    build_here(recipe)
    before = data_of(recipe)
    tree = {
        path: hub.blobs[digest]
        for path, digest in hub.commits["lab/web", hub.branches["lab/web", "main"]].items()
    }
    hub.commit("lab/web", {**tree, "README.md": b"# a card"})
    hub.requests.clear()
    build_here(recipe)
    assert data_of(recipe) == before
    assert hub.requests["resolve"] <= len(recipe.sources)  # a request for one file of each


def test_look_at_a_hub_on_which_nothing_came_asks_for_its_commit_alone(hub, on_hub):
    recipe, _ = on_hub
    build_here(recipe)
    assert ledger_if_complete(recipe) is not None
    hub.requests.clear()
    assert ledger_if_complete(recipe) is not None
    assert hub.requests == {"api": sum(len(source.files) for source in recipe.sources)}
    tree = {
        path: hub.blobs[digest]
        for path, digest in hub.commits["lab/web", hub.branches["lab/web", "main"]].items()
    }
    hub.commit("lab/web", {**tree, "README.md": b"# a card"})
    assert ledger_if_complete(recipe) is not None
    hub.commit("lab/web", {**tree, "best-1.parquet": as_parquet(rows(new=prose("new")))})
    assert ledger_if_complete(recipe) is None
