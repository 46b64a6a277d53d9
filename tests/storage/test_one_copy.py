"""Object stores contain a single copy of each published file after interrupted, changed and repeated builds."""

import copy
import logging
from collections import Counter
from hashlib import sha256

import pytest
from small_corpus import build_here, contents, corpus_of_many_files

from zyda_flows.tasks.lookup.verify_and_clean import faults_of, files_to_check, orphans_of, remove
from zyda_flows.tasks.publish import one_copy, published_shards

pytestmark = pytest.mark.early(6)
TEXTS_AND_KEYS = ("best", "middle", "worst", "bands")


@pytest.fixture
def on_store(tmp_path, s3, request):
    """Return a function that loads the recipe of a corpus of several shards on a store.

    lacks: name of a document that the last source does not keep.
    """
    corpus = corpus_of_many_files(tmp_path, 3)

    def load(work_copies=False, lacks="nothing"):
        sources = copy.deepcopy(corpus.recipe["sources"])
        sources[2]["keep"] = f"name <> '{lacks}'"
        storage = f"{s3}/{request.node.name}"
        return corpus.load(
            storage=storage, shard_mib=0.01, published_mib=0.01, work_copies=work_copies, sources=sources
        )

    return load


@pytest.fixture
def written(monkeypatch):
    """Count the publications of each file."""
    calls, publish_shards = Counter(), published_shards.publish_shards

    def counted(job):
        calls[job.source, job.name] += 1
        return publish_shards(job)

    monkeypatch.setattr(published_shards, "publish_shards", counted)
    return calls


def copies_of(recipe):
    """Return the number of copies in storage of each published text file and band key file, by path."""
    digests = {path: sha256(recipe.folder.read(path)).hexdigest() for path in recipe.folder.files("")}
    number_by_digest = Counter(digests.values())
    places = [tuple(path.split("/")[:2]) for path in digests]
    assert {place for top, place in places if top == "published"} >= set(TEXTS_AND_KEYS)
    return {
        path: number_by_digest[digest]
        for path, digest in digests.items()
        if path.startswith(tuple(f"published/{place}/" for place in TEXTS_AND_KEYS))
    }


def faults(recipe):
    items, file_faults = files_to_check(recipe)
    return file_faults + faults_of(recipe, items, lambda _: None)


def test_work_copies_sets_the_number_of_copies(on_store, written):
    build_here(on_store(work_copies=True))
    before = contents(on_store())
    assert set(copies_of(on_store()).values()) == {2}
    build_here(on_store(work_copies=True, lacks="n2_1"), replace=True)
    written.clear()
    build_here(on_store(work_copies=True), replace=True)
    assert not written
    build_here(on_store())  # only deletes copies
    assert set(copies_of(on_store()).values()) == {1}
    assert contents(on_store()) == before
    assert faults(on_store()) == []
    listed = {*on_store().folder.files("")}
    build_here(on_store())
    assert {*on_store().folder.files("")} == listed


def test_only_changed_shards_are_written_again(on_store, written, caplog):
    build_here(on_store())
    first, at_first = contents(on_store()), Counter(written)
    assert set(at_first.values()) == {1}
    remove(on_store(), orphans_of(on_store(), dry_run=True))
    written.clear()
    build_here(on_store(lacks="n2_1"), replace=True)
    assert 0 < len(written) < len(at_first) / 2
    assert contents(on_store()) != first
    assert set(copies_of(on_store()).values()) == {1}
    written.clear()
    with caplog.at_level(logging.WARNING):
        build_here(on_store(), replace=True)
    assert contents(on_store()) == first
    assert 0 < len(written) < len(at_first) / 2
    assert not [line for line in caplog.messages if "again" in line or "rebuilding" in line]
    assert faults(on_store()) == []


def test_damaged_published_files_are_written_again(on_store, written):
    recipe = on_store()
    build_here(recipe)
    before, folder = contents(recipe), recipe.folder
    cut, changed, deleted, *_ = sorted(
        path for path in copies_of(recipe) if path.startswith("published/worst/")
    )
    content = folder.read(changed)
    for path, damaged_content in (
        (cut, folder.read(cut)[:-9]),
        (changed, content[:60] + b"?" + content[61:]),
    ):
        folder.remove(path)
        folder.write(path, damaged_content)
    folder.remove(deleted)
    written.clear()
    build_here(recipe)
    assert len(written) == 3
    assert contents(recipe) == before
    assert set(copies_of(recipe).values()) == {1}


@pytest.mark.parametrize("after", [3, "records"])
def test_build_killed_while_it_deletes_copies_resumes(on_store, written, monkeypatch, after):
    jobs, call, write = [], one_copy.Handover.__call__, one_copy.write_record

    def run_and_die(job):
        jobs.append(job)
        if len(jobs) > after:
            raise KeyboardInterrupt
        call(job)

    def die_at_the_manifest(folder, path, record):
        if path.startswith("work/manifests/"):
            raise KeyboardInterrupt
        write(folder, path, record)

    with monkeypatch.context() as patch:
        if after == "records":
            patch.setattr(one_copy, "write_record", die_at_the_manifest)
        else:
            patch.setattr(one_copy.Handover, "__call__", run_and_die)
        with pytest.raises(KeyboardInterrupt):
            build_here(on_store())
    written.clear()
    build_here(on_store())
    assert not written
    assert set(copies_of(on_store()).values()) == {1}
    assert faults(on_store()) == []
