"""Removal requests: the documents that they match, the builds that remove them, and the certificates."""

import json
import re
import shutil
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_LE
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from disturbances import using
from forgetting import asking, forget, in_turn
from leaks import decoded, files_with, texts_in, token_ids
from small_corpus import STEPS, TOKENIZER, build_here, edited, prose, table_of, write_rows, zyda
from small_mixtures import mixed_in, mixture_file
from token_judges import random_judge

from zyda_flows.flows.command.forget import text_in
from zyda_flows.flows.dashboard.report_artifact import write_report
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.documents.deny_list import Request
from zyda_flows.tasks.erasure.certified_removal import new_lines, promise, published_files
from zyda_flows.tasks.erasure.dependent_kinds import Subject
from zyda_flows.tasks.erasure.dependents import Search
from zyda_flows.tasks.erasure.removal_certificate import Certificate, unfinished_certificates
from zyda_flows.tasks.erasure.removal_request import RemovalRequest
from zyda_flows.tasks.erasure.requested_documents import find_documents
from zyda_flows.tasks.errors import BadInput, BadRecipe, Denied
from zyda_flows.tasks.lookup.samples import SampleOptions, sample_of
from zyda_flows.tasks.planning.last_build import ledger_if_complete
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.storage.folder import Folder

ASKED = prose("asked about")
PAGE = "https://jane.example/me"
BROKEN = '{"url": "' + PAGE + '", "text": ' + json.dumps(ASKED)  # a line that ends too early


@pytest.fixture
def mine(corpus):
    """Return a corpus in which a page is in two sources, once unchanged and once edited, and in an invalid line."""
    pages = [
        {"url": f"https://site{i}.example/p", "author": f"a{i}", "text": prose(f"page {i}")}
        for i in range(12)
    ]
    pages[4] = {"url": PAGE, "author": "Jane Doe", "text": ASKED}
    for i in range(3):
        write_rows(corpus.folder / f"in/pages-{i}.jsonl", pages[i::3])
    with (corpus.folder / "in/pages-1.jsonl").open("a") as file:
        file.write(f"{BROKEN}\n")
    others = [{"address": f"https://o{i}.example/", "text": prose(f"other {i}")} for i in range(6)]
    others[2]["text"], others[5]["text"] = edited(ASKED, 3), ASKED
    required = pa.schema([pa.field("address", pa.string(), nullable=False), ("text", pa.string())])
    pq.write_table(pa.Table.from_pylist(others, required), corpus.folder / "in/others.parquet")
    corpus.recipe |= {
        "name": "mine",
        "on_bad_rows": "set_aside",
        "publish_set_aside": True,
        "sources": [
            {"name": "pages", "files": "in/pages-*.jsonl"},
            {"name": "others", "files": "in/others.parquet", "url": "address"},
        ],
    }
    return corpus


def places(found):
    return {
        (document.source, document.row, document.likeness is None, document.stage)
        for document in found.documents
    }


def published_texts(recipe):
    return [row["text"] for source in ("pages", "others") for row in table_of(recipe, source)]


def removed_by(recipe):
    rows = table_of(recipe, "removed") if recipe.folder.exists("published/removed") else []
    return sorted((row["source"], row["reason"]) for row in rows if row["stage"] == "deny")


def ids_of(recipe, text):
    return [
        row["doc_id"]
        for source in ("pages", "others")
        for row in table_of(recipe, source)
        if row["text"] == text
    ]


@pytest.fixture
def made_with_it(mine):
    """Return the folders of a corpus against mine, of a corpus made from mine, and of a mixture of both."""
    build_here(mine.load())
    write_report(mine.load())
    out = mine.folder / "out"
    write_rows(mine.folder / "in/third.jsonl", [{"text": edited(ASKED)}, {"text": prose("third")}])
    sources = {
        "later": {"name": "third", "files": "in/third.jsonl"},
        "derived": {"name": "again", "files": str(out / "mine/published/pages/*.parquet")},
    }
    for name, source in sources.items():
        against = {"dedup": {"against": str(out / "mine")}} if name == "later" else {}
        recipe = {
            "name": name,
            "storage": str(out),
            "tokenizer": str(TOKENIZER),
            "sources": [source],
            **against,
        }
        (mine.folder / f"{name}.yaml").write_text(yaml.safe_dump(recipe))
        build_here(load_recipe(str(mine.folder / f"{name}.yaml")))
    parts = [{"name": name, "corpus": name, "weight": 1} for name in ("mine", "derived")]
    path = mixture_file(
        mine.folder, [str(out / "mine"), str(out / "derived")], parts=parts, storage=str(out),
        budget={"epochs": 1}, formats=["megatron", "parquet"],
    )  # fmt: skip
    return out, mixed_in(path)[1]


@pytest.mark.slow
def test_command_removes_requested_documents_and_certifies_it(mine, made_with_it, terminal):
    out, place = made_with_it
    (mine.folder / "asked.txt").write_text(f"# from a letter\n{PAGE}\n")
    home = terminal()
    before = files_with(ASKED, out / "mine")
    for folder in (
        "published/pages/",
        "published/set_aside/",
        "work/ingest/",
        "work/set_aside/",
        "report.html",
    ):
        assert any(path.startswith(folder) for path in before), folder
    assert files_with(ASKED, place.parent)

    command = ["forget", str(mine.path), "--urls", str(mine.folder / "asked.txt"), "--among", str(out)]
    command += ["--among", str(mine.folder / "nowhere")]
    shown = zyda(*command, env=home)
    assert shown.returncode == 1
    assert "add --yes" in shown.stderr
    assert "source others, file" in shown.stdout
    assert files_with(ASKED, out / "mine") == before
    assert not list((out / "mine").glob("denied/*"))

    finished = zyda(*command, "--yes", env=home)
    assert finished.returncode == 0, finished.stderr
    assert "INFO" not in finished.stderr
    assert "derived/published has 1 document of mine" in finished.stdout
    assert "later/published has 1 document of mine" in finished.stdout
    assert "nowhere: the folder is empty or missing" in finished.stdout
    assert files_with(ASKED, out / "mine") == []
    assert files_with(ASKED, mine.folder / "home") == []
    assert not [path for path in (out / "mine").rglob("*") if path.is_file() and names_page(path)]

    recipe = mine.load()
    assert ledger_if_complete(recipe)
    assert len(published_texts(recipe)) == 11 + 4
    (path,) = (out / "mine/forgotten").glob("*.json")
    certificate = Certificate.model_validate_json(path.read_bytes())
    assert certificate.finished_at
    assert (
        certificate.before
        != certificate.after
        == sha256(recipe.folder.read("published/manifest.json")).hexdigest()
    )
    assert certificate.list_sha256 == sha256(recipe.folder.read(certificate.deny_list)).hexdigest()
    assert {(of.source, of.was, of.documents, of.by_likeness) for of in certificate.gone} == {
        ("pages", "published", 1, 0), ("pages", "set aside", 1, 0), ("others", "removed by deduplication", 2, 1),
    }  # fmt: skip
    assert {file.path.partition("/")[0] for file in certificate.removed_files} >= {"pages", "set_aside"}
    now = published_files(recipe)
    assert all(now.get(file.path) != file.sha256 for file in certificate.removed_files)
    assert all(now[file.path] == file.sha256 for file in certificate.new_files)
    assert sorted((dependent.kind, dependent.of) for dependent in certificate.dependents) == [
        ("against", "mine"), ("made from", "mine"), ("mixture", "derived"), ("mixture", "mine"),
        ("token ids", "derived"), ("token ids", "mine"),
    ]  # fmt: skip
    ids = token_ids(ASKED)
    for dependent in certificate.dependents:
        for at in dependent.positions:
            stored = np.fromfile(place / f"megatron/{at.output}.bin", np.uint16)
            assert stored[at.start : at.start + at.tokens].tolist()[: len(ids)] == ids

    again = zyda(*command, "--yes", env=home)
    assert again.returncode == 0
    assert "nothing to do: the deny lists of the corpus contain the whole request" in again.stdout


def names_page(path):
    values, content = decoded(path)
    return any(
        "jane.example" in text or "Jane Doe" in text for text in (*texts_in(values), *texts_in(content))
    )


@pytest.mark.slow
@pytest.mark.parametrize("steps", [[], [{"measure": "pii"}, *STEPS]])
def test_documents_of_all_sources_are_matched_and_counted_by_kind(mine, steps):
    build_here(mine.load(documents=steps))
    found, recipe, certificate = forget(mine, asking(domains=["jane.example"]), documents=steps)
    assert places(found) == {
        ("pages", 1, True, None), ("others", 2, False, "removals"), ("others", 5, True, "removals"),
        ("pages", 4, True, "set aside"),
    }  # fmt: skip
    (alike,) = [one for one in found.documents if one.likeness is not None]
    assert abs(alike.likeness - jaccard(ASKED, edited(ASKED, 3))) < 4 * certificate.standard_error
    assert removed_by(recipe) == [
        ("others", "requested"),
        ("others", "requested-near"),
        ("pages", "requested"),
    ]
    assert not {ASKED, edited(ASKED, 3)} & set(published_texts(recipe))
    start = recipe.folder.read("published/ledger.json")
    assert sum(line["documents"] for line in json.loads(start) if line["stage"] == "ingest") == 18


def jaccard(text, other):
    sets = [{document[i : i + 25] for i in range(len(document) - 24)} for document in (text, other)]
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def test_later_copy_at_another_address_is_removed_by_text_and_similarity(mine):
    build_here(mine.load())
    _, recipe, _ = forget(mine, asking(domains=["jane.example"]))
    rows = [
        {"address": "https://a.example/", "text": ASKED},
        {"address": "https://b.example/", "text": edited(ASKED)},
    ]
    rows += [
        {"address": PAGE, "text": prose("what is there now")},
        {"address": "x", "text": prose("innocent")},
    ]
    write_rows(mine.folder / "in/new.jsonl", rows)
    sources = [*mine.recipe["sources"], {"name": "new", "files": "in/new.jsonl", "url": "address"}]
    recipe = mine.load(sources=sources)
    build_here(recipe)
    assert [row["text"] for row in table_of(recipe, "new")] == [prose("innocent")]
    assert [reason for source, reason in removed_by(recipe) if source == "new"] == [
        "requested", "requested", "requested-near",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("dedup", [{"exact": "text"}, {"width": 9}, {"bands": 4, "rows": 32}])
def test_equal_text_is_removed_after_the_rounds_change(mine, dedup, caplog):
    build_here(mine.load())
    forget(mine, asking(domains=["jane.example"]))
    write_rows(mine.folder / "in/new.jsonl", [{"text": ASKED}, {"text": prose("innocent")}])
    sources = [*mine.recipe["sources"], {"name": "new", "files": "in/new.jsonl"}]
    recipe = mine.load(sources=sources, dedup=dedup)
    build_here(recipe)
    assert [row["text"] for row in table_of(recipe, "new")] == [prose("innocent")]
    assert ("the recipe has no round with such signatures" in caplog.text) == ("bands" not in dedup)


def test_exact_request_removes_equal_texts_only(mine):
    build_here(mine.load())
    requested, recipe, certificate = forget(mine, asking(domains=["jane.example"]), alike=False)
    assert places(requested) >= {("pages", 1, True, None), ("others", 5, True, "removals")}
    assert ASKED not in published_texts(recipe)
    assert edited(ASKED, 3) in published_texts(recipe)
    assert certificate.came_in == 1
    write_rows(mine.folder / "in/new.jsonl", [{"text": ASKED}, {"text": edited(ASKED)}])
    sources = [*mine.recipe["sources"], {"name": "new", "files": "in/new.jsonl"}]
    recipe = mine.load(sources=sources)
    build_here(recipe)
    assert [reason for source, reason in removed_by(recipe) if source == "new"] == ["requested"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "dedup", [{"exact": "text"}, {"exact": "normalised"}, [{"exact": "normalised"}, {"bands": 8, "rows": 16}]]
)
def test_duplicates_of_a_removed_document_are_not_published(mine, dedup):
    rows = [
        {"address": "https://b.example/", "text": text} for text in (ASKED, ASKED.upper(), prose("other"))
    ]
    write_rows(mine.folder / "in/loud.jsonl", rows)
    mine.recipe["sources"].append({"name": "loud", "files": "in/loud.jsonl", "url": "address"})
    build_here(mine.load(dedup=dedup))
    before = len(published_texts(mine.load())) + len(table_of(mine.load(), "loud"))
    requested, recipe, certificate = forget(mine, asking(domains=["jane.example"]), dedup=dedup)
    after = [*published_texts(recipe), *[row["text"] for row in table_of(recipe, "loud")]]
    published = [document for document in requested.documents if document.stage is None]
    assert (certificate.came_in, len(after)) == (0, before - len(published))
    assert not [text for text in after if text.lower() == ASKED.lower()] or dedup == {"exact": "text"}
    assert ASKED not in after


def test_request_to_an_outdated_corpus_is_an_error(mine):
    build_here(mine.load())
    write_rows(mine.folder / "in/pages-3.jsonl", [{"url": PAGE, "text": ASKED}])
    with pytest.raises(Denied, match="build the corpus"):
        find_documents(mine.load(), asking(domains=["jane.example"]), in_turn)
    mine.recipe["sources"].pop()
    with pytest.raises(Denied, match="build the corpus"):
        find_documents(mine.load(), asking(domains=["jane.example"]), in_turn)


@pytest.mark.slow
def test_unpublished_later_copies_are_erased_by_the_next_request(mine):
    build_here(mine.load())
    forget(mine, asking(domains=["jane.example"]))
    write_rows(mine.folder / "in/new.jsonl", [{"text": ASKED}, {"text": prose("innocent")}])
    mine.recipe["sources"].append({"name": "new", "files": "in/new.jsonl"})
    build_here(mine.load())
    assert files_with(ASKED, mine.folder / "out/mine")
    requested, recipe, _ = forget(mine, asking(domains=["jane.example"]))
    assert places(requested) == {("new", 0, True, "deny")}
    write_report(recipe)
    assert files_with(ASKED, mine.folder / "out/mine") == []


BROKEN_LINES = {
    '{"url": "https:\\/\\/JANE.example\\/me", "text": "cut': True,
    '{"url": "http://jane.example/me", "text": "cut': True,
    '{"url": "https://jane.example/menu", "text": "cut': False,
    '{"url": "https://elsewhere.example/", "text": ' + json.dumps(ASKED): True,
    '{"url": "user@JANE.example./me#top", "text": "cut': True,
    '{"author": "Jane Doe", "text": "cut': True,
    '{"author": "Jane Doering", "text": "cut': False,
}


def test_row_set_aside_is_removed_by_its_content(mine):
    with (mine.folder / "in/pages-2.jsonl").open("a") as file:
        file.writelines(f"{line}\n" for line in BROKEN_LINES)
    build_here(mine.load())
    (mine.folder / "asked.txt").write_text(f"{PAGE}\n")
    _, recipe, _ = forget(mine, asking([str(mine.folder / "asked.txt")], columns=["author=Jane Doe"]))
    remaining = {
        row["row"]: row["content"] for row in table_of(recipe, "set_aside") if "pages-2" in row["file"]
    }
    assert [not remaining[row] for row in sorted(remaining)] == [*BROKEN_LINES.values()]


def test_no_file_of_the_corpus_contains_the_removed_document(mine):
    mine.recipe["sources"][0]["component"] = {"column": "author"}
    steps = [{"license_filter": {"column": "author", "keep": ["MIT"], "names": {"a0": "MIT", "a1": "MIT"}}}]
    mine.recipe["sources"][0]["documents"] = steps
    mine.recipe["judges"] = [{"name": "own", "model": str(random_judge(mine.folder / "own"))}]
    mine.recipe["publish_vectors"] = "own"
    build_here(mine.load())
    asked_ids = {*ids_of(mine.load(), ASKED)}
    before = [*tables_with_vectors(mine.folder / "out/mine", asked_ids)]
    assert {path.relative_to(mine.folder / "out/mine").parts[0] for path in before} == {"work", "published"}
    assert [
        path
        for path in (mine.folder / "out/mine/published").rglob("*")
        if path.is_file() and names_page(path)
    ]
    _, recipe, _ = forget(mine, asking(columns=["author=Jane Doe"], domains=["jane.example"]))
    write_report(recipe)
    (asked,) = (mine.folder / "out/mine/denied").iterdir()  # a domain is written without a hash
    remaining = [
        path for path in (mine.folder / "out/mine").rglob("*") if path.is_file() and names_page(path)
    ]
    assert remaining == [asked]
    assert not [*tables_with_vectors(mine.folder / "out/mine", asked_ids)]
    assert [
        *tables_with_vectors(mine.folder / "out/mine", {row["doc_id"] for row in table_of(recipe, "others")})
    ]


def tables_with_vectors(folder, ids):
    """Yield the files with a vector of one of these documents."""
    for path in folder.rglob("*.parquet"):
        with pq.ParquetFile(path) as parquet:
            names = parquet.schema_arrow.names
            if "vector" in names and ids & {*parquet.read(["doc_id"]).column("doc_id").to_pylist()}:
                yield path


def test_text_with_editor_line_ends_matches_the_document(mine):
    rows = [{"url": "https://x.example/", "author": "x", "text": "Jane Doe lives at 5 Elm Rd.\nŁódź"}]
    write_rows(mine.folder / "in/pages-9.jsonl", rows)
    build_here(mine.load())
    content = rows[0]["text"].replace("\n", "\r\n") + "\r\n"
    file = mine.folder / "text.txt"
    marks = {
        "utf-8-sig": b"",
        "utf-16-le": BOM_UTF16_LE,
        "utf-16-be": BOM_UTF16_BE,
        "utf-32-le": BOM_UTF32_LE,
    }
    for encoding, mark in marks.items():
        file.write_bytes(mark + content.encode(encoding))
        request = asking(texts=[text_in(str(file))])
        assert [
            document.row for document in find_documents(mine.load(), request, in_turn, alike=False).documents
        ] == [0]
    requested, recipe, _ = forget(mine, asking(texts=[f"{rows[0]['text']}\n"]))
    assert [document.file.rpartition("/")[2] for document in requested.documents] == ["pages-9.jsonl"]
    assert rows[0]["text"] not in published_texts(recipe)


def test_source_without_the_requested_column_is_noted(mine):
    mine.recipe["sources"][1].pop("url")
    build_here(mine.load())
    requested = find_documents(mine.load(), asking(domains=["nobody.example"], columns=["autor=x"]), in_turn)
    assert requested.documents == []
    assert sorted(requested.notes) == [
        "source others: it has no column autor, so the request matches no document of it by that column",
        "source others: it has no column url, so the request matches no document of it by that column",
        "source pages: it has no column autor, so the request matches no document of it by that column",
    ]


def test_request_killed_before_its_list_leaves_no_trace(mine, monkeypatch):
    build_here(mine.load())
    recipe, asked = mine.load(), asking(domains=["jane.example"])
    requested = find_documents(recipe, asked, in_turn)
    write = Folder.write

    def dies_at_the_list(folder, path, *rest, **more):
        if path.startswith("denied/"):
            raise KeyboardInterrupt
        write(folder, path, *rest, **more)

    monkeypatch.setattr(Folder, "write", dies_at_the_list)
    with pytest.raises(KeyboardInterrupt):
        promise(recipe, asked, requested, Search(), new_lines(recipe, asked, requested))
    monkeypatch.undo()
    assert len(recipe.folder.files("forgotten")) == 1
    assert unfinished_certificates(recipe.folder) == recipe.folder.files("forgotten") == []
    requested, recipe, certificate = forget(mine, asked)
    assert ASKED not in published_texts(recipe)
    assert certificate.removed_files


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["the last line", "a line", "a digit"])
def test_build_with_a_damaged_deny_list_is_an_error(mine, lost):
    """Otherwise the requested documents would be published again without a warning."""
    build_here(mine.load())
    _, recipe, certificate = forget(mine, asking(domains=["jane.example"]))
    before = recipe.folder.read(certificate.deny_list)
    lines = before.splitlines(keepends=True)
    content = {
        "the last line": lines[:-1],
        "a line": lines[:3] + lines[4:],
        "a digit": [*lines[:-1], b'{"id":1}\n'],
    }
    recipe.folder.write(certificate.deny_list, b"".join(content[lost]))
    with pytest.raises(BadRecipe, match=r"deny: .*jsonl: the file was changed after"):
        build_here(mine.load())
    recipe.folder.write(certificate.deny_list, before)
    build_here(mine.load())
    recipe.folder.write(
        certificate.deny_list, b"".join(content[lost][1:])
    )  # without the first line the list is valid
    build_here(mine.load())


def test_unknown_files_next_to_the_corpus_are_ignored(mine, caplog):
    build_here(mine.load())
    for path in ("denied/.DS_Store", "forgotten/.DS_Store", "forgotten/cut.json"):
        mine.load().folder.write(path, b"\0")
    forget(mine, asking(domains=["jane.example"]))
    assert unfinished_certificates(mine.load().folder) == []
    assert "cut.json is cut or changed" in caplog.text


@pytest.mark.slow
def test_corpus_made_from_an_earlier_version_is_matched_by_ids(mine, made_with_it):
    out, _ = made_with_it
    (doc_id,) = ids_of(mine.load(), prose("page 0"))
    forget(mine, asking(domains=["site1.example"]))
    search = Search()
    search.look_into(str(out))
    search.follow(Subject(PublishedCorpus.at(mine.load().folder.url), np.array([doc_id], np.uint64)))
    assert {(dependent.kind, dependent.of, dependent.documents) for dependent in search.dependents} == {
        ("made from", "mine", 1), ("mixture", "mine", 1), ("mixture", "derived", 1), ("token ids", "mine", 1),
        ("token ids", "derived", 1),
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"columns": ["author=Jane Doe"]},
        {"texts": [ASKED]},
        {"domains": ["jane.example"]},
        {"ids": ["row 1 of pages-1"]},
    ],
    ids=lambda options: next(iter(options)),
)
def test_document_is_removed_by_any_kind_of_entry(mine, options):
    build_here(mine.load())
    if "ids" in options:
        (doc_id,) = ids_of(mine.load(), ASKED)
        options = {"ids": [f"{doc_id:#x}, {doc_id}"]}
    requested, recipe, certificate = forget(mine, asking(**options))
    assert places(requested) >= {
        ("pages", 1, True, None), ("others", 2, False, "removals"), ("others", 5, True, "removals"),
    }  # fmt: skip
    write_report(recipe)
    assert files_with(ASKED, mine.folder / "out/mine") == []
    kept = b"".join(recipe.folder.read(path) for path in (certificate.deny_list, certificate.path))
    assert b"Jane" not in kept
    assert ASKED.encode() not in kept


def test_request_rebuilds_only_affected_shards(mine):
    recipe = mine.load()
    build_here(recipe)
    before = set(recipe.folder.files("work/ingest"))
    (doc_id,) = ids_of(recipe, ASKED)
    _, recipe, _ = forget(mine, RemovalRequest((Request(id=doc_id),)))
    again = set(recipe.folder.files("work/ingest")) - before
    assert {re.sub(r"-[0-9a-f]{20}.*", "", path) for path in again} == {
        "work/ingest/pages/000001-000-000", "work/ingest/pages/000001-000", "work/ingest/others/000000-000-000",
        "work/ingest/others/000000-000",
    }  # fmt: skip
    alone = mine.load(name="alone")
    for path in recipe.folder.files("denied"):
        alone.folder.write(path, recipe.folder.read(path))
    alone = mine.load(name="alone")
    build_here(alone)
    assert shards_of(alone) == shards_of(recipe)


def shards_of(recipe):
    published = recipe.folder.folder("published")
    return {
        path: published.read(path)
        for path in published.files("")
        if path.partition("/")[0] in ("pages", "others")
    }


@pytest.mark.slow
def test_request_removes_documents_on_an_object_store(mine, s3):
    storage = f"{s3}/[forgotten]"
    build_here(mine.load(storage=storage))
    _, recipe, finished = forget(mine, asking(domains=["jane.example"]), storage=storage)
    assert {file.path.partition("/")[0] for file in finished.removed_files} >= {"pages"}
    assert ledger_if_complete(mine.load(storage=storage))
    copy = mine.folder / "copy"
    for path in recipe.folder.files(""):
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        (copy / path).write_bytes(recipe.folder.read(path))
    assert files_with(ASKED, copy) == []
    assert removed_by(recipe) == [
        ("others", "requested"),
        ("others", "requested-near"),
        ("pages", "requested"),
    ]


def test_removed_documents_are_not_in_samples(mine):
    build_here(mine.load())
    _, recipe, _ = forget(mine, asking(domains=["jane.example"]))
    with pytest.raises(BadInput, match="no document matches"):
        sample_of(recipe, SampleOptions(what="removed"))


@pytest.mark.slow
def test_interrupted_request_is_finished_by_the_next_call(mine, server):
    build_here(mine.load())
    recipe, asked = mine.load(), asking(domains=["jane.example"])
    requested = find_documents(recipe, asked, in_turn)
    promise(recipe, asked, requested, Search(), new_lines(recipe, asked, requested))
    assert len(unfinished_certificates(recipe.folder)) == 1
    finished = zyda("forget", str(mine.path), env=using(server))
    assert finished.returncode == 0, finished.stderr
    assert "removed 4 documents; certificate:" in finished.stdout
    assert unfinished_certificates(recipe.folder) == []
    assert ASKED not in published_texts(mine.load())


def test_folders_that_cannot_be_searched_are_listed(mine, tmp_path):
    build_here(mine.load())
    for name, content in (
        ("a/manifest.json", b"{}"),
        ("b/mixture.json", b"\xff"),
        ("c/published/manifest.json", b"["),
    ):
        path = tmp_path / "trees" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
    search = Search()
    for url in (str(tmp_path / "trees"), str(tmp_path / "none"), "nosuch://x"):
        search.look_into(url)
    search.follow(Subject(PublishedCorpus.at(mine.load().folder.url), np.array([1], np.uint64)))
    assert search.searched == [str(tmp_path / "trees")]
    assert len(search.not_searched) == 5
    assert search.dependents == []


def test_copy_and_another_version_are_found(mine):
    build_here(mine.load())
    shutil.copytree(mine.folder / "out", mine.folder / "copied")
    build_here(mine.load(storage=str(mine.folder / "older"), dedup={"scope": "global"}))
    (doc_id,) = ids_of(mine.load(), ASKED)
    search = Search()
    for name in ("copied", "older", "out"):
        search.look_into(str(mine.folder / name))
    search.follow(Subject(PublishedCorpus.at(mine.load().folder.url), np.array([doc_id], np.uint64)))
    assert {(dependent.kind, dependent.note, dependent.documents) for dependent in search.dependents} == {
        ("copy", "", 1), ("copy", "another version of it", 1),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "fault"),
    [
        ({}, "the request is empty"),
        ({"ids": ["x"]}, "--ids x: expected a document id"),
        ({"domains": ["not a domain"]}, "--domain not a domain: .* is not a domain"),
        ({"columns": ["author"]}, "--column author: expected name=value"),
        ({"columns": ["author="]}, "--column author=: one of url"),
        ({"texts": [" "]}, "--text: the text is empty"),
        ({"urls": [""]}, "--urls: a file is expected"),
    ],
)
def test_invalid_or_empty_request_is_an_error(asked, fault):
    with pytest.raises(BadInput, match=fault):
        asking(**asked)


def test_list_with_a_thousand_broken_lines_is_an_error_with_their_count(tmp_path):
    path = tmp_path / "asked.txt"
    path.write_text("\n".join(["example.org", *(f"broken line {i}" for i in range(1000))]))
    with pytest.raises(BadInput, match=r"--urls: .*asked.txt: 1,000 of its 1,001 lines .* line 2: "):
        asking([str(path)])
    path.write_text("# nothing\n")
    with pytest.raises(BadInput, match=r"--urls .*asked.txt: no line of the file is a request"):
        asking([str(path)])
    path.write_text("")
    with pytest.raises(BadInput, match="0 bytes"):
        asking([str(path)])
    with pytest.raises(BadInput, match="no file matches"):
        asking([str(tmp_path / "none.txt")])


def test_request_to_a_missing_corpus_is_an_error(mine):
    with pytest.raises(Denied, match="nothing is published there yet"):
        find_documents(mine.load(), asking(domains=["jane.example"]), in_turn)
