"""`zyda find`: the published documents that are most similar to a text."""

import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from small_corpus import (
    COMMAND,
    REPOSITORY,
    Corpus,
    build_here,
    edited,
    prose,
    published,
    rows,
    table_of,
    write_rows,
    zyda,
    zyda_here,
)

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import BadInput, Denied
from zyda_flows.tasks.lookup.explain import explain
from zyda_flows.tasks.lookup.nearest import nearest
from zyda_flows.tasks.signatures.keys import band_keys
from zyda_flows.tasks.storage.tables import FOOTERS

WIDTH = 25


def shingles(text):
    return {text[i : i + WIDTH] for i in range(max(1, len(text) - WIDTH + 1))}


@pytest.fixture(scope="module")
def built(tmp_path_factory, compiled):
    corpus = Corpus(tmp_path_factory.mktemp("find"))
    family = {f"family{i}": edited(prose("family"), i) for i in range(1, 9)}
    write_rows(corpus.folder / "in/best-5.parquet", rows(**family))
    recipe = corpus.load()
    build_here(recipe)
    return corpus, recipe


def test_nearest_documents_have_exact_similarities(built):
    _, recipe = built
    text = edited(prose("family"), 2) + " and more"
    documents = nearest(recipe, text)
    texts = {row["doc_id"]: row["text"] for row in table_of(recipe, "best")}
    keys, _ = band_keys(pa.array([text, *texts.values()], pa.large_string()), recipe.rounds[0])
    buckets = dict(zip(texts, (keys[1:] == keys[0]).sum(axis=1).tolist(), strict=True))
    assert {near.doc_id: near.buckets for near in documents} == {i: n for i, n in buckets.items() if n}
    assert len(documents) > 3
    for near in documents:
        own, other = shingles(text), shingles(texts[near.doc_id])
        assert near.jaccard == pytest.approx(len(own & other) / len(own | other))
        assert near.containment == pytest.approx(len(own & other) / len(own))
        assert texts[near.doc_id].startswith(near.beginning)
        assert (near.source, near.file) == ("best", str(built[0].folder / "in/best-5.parquet"))
        assert near.row == near.doc_id & (2**30 - 1)
    assert [near.jaccard for near in documents] == sorted((near.jaccard for near in documents), reverse=True)
    assert len(nearest(recipe, text, 3)) == 3


def test_removed_documents_are_not_nearest(built):
    _, recipe = built
    (near,) = nearest(recipe, prose("in one source"), 1)
    assert near.source == "middle"
    assert (
        nearest(recipe, prose("middle alone")) == []
    )  # a filter removed a document, the other is its duplicate
    assert nearest(recipe, prose("nobody has this")) == []


@pytest.mark.slow
def test_command_takes_a_file_a_text_and_standard_input(built, tmp_path):
    corpus, _ = built
    text = prose("best alone")
    path = tmp_path / "a text.txt"
    path.write_text(text)
    process = zyda_here("find", str(corpus.path), text)
    assert process.returncode == 0
    assert re.search(r"│ +1\.000 │ +1\.000 │", process.stdout)
    cells = [line.split("│")[1:-1] for line in process.stdout.splitlines() if line.startswith("│")]
    in_full = ["".join(part.strip() for part in column) for column in zip(*cells, strict=True)]
    assert in_full[2:6] == ["2", "best", "2", str(corpus.folder / "in/best-0.parquet")]
    assert zyda_here("find", str(corpus.path), str(path)).stdout == process.stdout
    piped = subprocess.run(
        [*COMMAND, "find", str(corpus.path), "-"], input=text, capture_output=True, text=True, check=True
    )
    assert piped.stdout == process.stdout
    nobody = zyda_here("find", str(corpus.path), "nobody has this text")
    assert (nobody.returncode, nobody.stdout) == (
        1,
        "no published document is similar to this text as a whole; parts of documents are not searched\n",
    )
    mistyped = zyda_here("find", str(corpus.path), "no-such-file.txt")
    assert mistyped.stdout == (
        "there is no file no-such-file.txt; searched as a text: no published document is similar to this text as a whole; parts of documents are not searched\n"
    )
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with ThreadPoolExecutor() as writer:
        writer.submit(fifo.write_text, text)
        assert zyda("find", str(corpus.path), str(fifo)).stdout == process.stdout


def test_published_folder_alone_is_enough(built, tmp_path):
    corpus, recipe = built
    shutil.copytree(recipe.folder.path("published"), tmp_path / "small/published")
    alone = corpus.elsewhere(corpus.folder).load(storage=str(tmp_path))
    (near,) = nearest(alone, prose("best alone"))
    assert (near.source, near.file, near.row) == ("best", "best-0.parquet", 2)
    corpus.write()


def test_doc_ids_of_an_earlier_version_are_an_error(built, tmp_path):
    corpus, recipe = built
    shutil.copytree(recipe.folder.path("published"), tmp_path / "small/published")
    manifest = tmp_path / "small/published/manifest.json"
    before = json.loads(manifest.read_text())
    assert before["id_bits"] == [10, 24, 30]
    before["id_bits"] = [8, 24, 32]
    manifest.write_text(json.dumps(before))
    old = corpus.elsewhere(corpus.folder).load(storage=str(tmp_path))
    for look in (lambda: nearest(old, prose("best alone")), lambda: explain(old, "0")):
        with pytest.raises(Denied, match="its doc_ids are of another version of this software; build"):
            look()
    assert PublishedCorpus.of(old).manifest.ledger == PublishedCorpus.of(recipe).manifest.ledger
    corpus.write()


def test_band_keys_of_another_version_are_an_error(built, tmp_path):
    corpus, recipe = built
    shutil.copytree(recipe.folder.path("published"), tmp_path / "small/published")
    manifest = tmp_path / "small/published/manifest.json"
    published = json.loads(manifest.read_text())
    other_recipe = corpus.elsewhere(corpus.folder).load(storage=str(tmp_path))
    for changed in ({"kind": "first words"}, {"bands": -1}):
        keys = {
            place: {**of, "parameters": {**of["parameters"], **changed}}
            for place, of in published["bands"].items()
        }
        manifest.write_text(json.dumps({**published, "bands": keys}))
        with pytest.raises(Denied, match="band keys are of another version of this software or of Unicode"):
            nearest(other_recipe, prose("best alone"))
    corpus.write()


def test_nearest_document_does_not_depend_on_the_number_of_results(tmp_path):
    corpus = Corpus(tmp_path)
    family = {f"family{i}": edited(prose("family", 400), i % 25) for i in range(60)}
    write_rows(corpus.folder / "in/best-5.parquet", rows(**family))
    recipe = corpus.load(dedup={"bands": 14, "rows": 8})
    build_here(recipe)
    for edits in (0, 4, 13):
        text = edited(prose("family", 400), edits) + " with an end of its own"
        everyone = nearest(recipe, text, 100)
        assert [near.doc_id for near in nearest(recipe, text, 1)] == [everyone[0].doc_id]
        assert len(everyone) > 20


@pytest.mark.parametrize(
    ("text", "said"),
    [(b"\xfb\xfe", "byte 0 is not UTF-8; a text is expected"), (b"", "the text has no characters")],
)  # fmt: skip
def test_invalid_text_is_reported_in_one_line(built, tmp_path, text, said):
    path = tmp_path / "odd"
    path.write_bytes(text)
    process = zyda_here("find", str(built[0].path), str(path))
    assert process.returncode == 1
    assert said in process.stderr
    assert len(process.stderr.splitlines()) == 1
    folder = zyda_here("find", str(built[0].path), str(tmp_path))
    assert f"{tmp_path}: cannot be read: Is a directory" in folder.stderr


@pytest.mark.slow
def test_empty_argument_is_reported_in_one_line(built):
    assert "the text has no characters" in zyda_here("find", str(built[0].path), "").stderr
    endless = zyda("find", str(built[0].path), "/dev/zero")
    assert endless.stderr == "zyda: /dev/zero: the text exceeds 64 MiB; give a part of it\n"
    process = zyda("find", str(built[0].path), b"\xfb\xfe")
    assert process.stderr == "zyda: the text: byte 0 is not UTF-8; a text is expected\n"


def test_all_rounds_are_searched(tmp_path):
    corpus = Corpus(tmp_path)
    recipe = corpus.load(dedup=[{"exact": "normalised"}, {"scope": "global"}])
    build_here(recipe)
    (near,) = nearest(recipe, prose("best alone"))
    assert (near.buckets, near.jaccard) == (9, 1.0)
    exact = corpus.load(name="exact", dedup={"exact": "normalised"})
    build_here(exact)
    (near,) = nearest(exact, prose("best alone").upper())
    assert near.buckets == 1
    with pytest.raises(BadInput, match="the text has no characters"):
        nearest(exact, "?!")
    assert nearest(recipe, "?!") == []  # the text has characters, but no words


def test_missing_and_damaged_band_keys_are_errors(tmp_path):
    corpus = Corpus(tmp_path)
    silent = corpus.load(name="silent", publish_bands=False)
    build_here(silent)
    with pytest.raises(Denied, match="no band keys are published there"):
        nearest(silent, "a text")
    recipe = corpus.load()
    with pytest.raises(Denied, match="nothing is published there yet"):
        nearest(recipe, "a text")
    build_here(recipe)
    place = published(recipe)
    for path in place.files("bands"):
        content = bytearray(place.read(path))
        for at in range(20, len(content) - 8, 30):
            content[at] ^= 16
        place.delete(path)
        place.write(path, bytes(content))
    FOOTERS.clear()
    with pytest.raises(Denied, match="zyda verify --repair repairs it"):
        nearest(recipe, prose("best alone"))


def test_nearest_imports_neither_prefect_nor_dask(built):
    """They take a second to import."""
    code = (
        "import sys; from zyda_flows.flows.command.cli import app; from zyda_flows.flows.command.find import print_nearest; "
        "from zyda_flows.tasks.lookup.nearest import nearest; print({'prefect', 'distributed', 'dask'} & sys.modules.keys())"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY
    )
    assert process.stdout == "set()\n"
