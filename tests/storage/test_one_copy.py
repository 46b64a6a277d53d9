"""On an object store what is published is there once, however builds end, change and come back."""

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
    """Return what loads the recipe of a corpus of several shards on a store, its last source without a document."""
    corpus = corpus_of_many_files(tmp_path, 3)

    def load(work_copies=False, lacks="nothing"):
        sources = copy.deepcopy(corpus.recipe["sources"])
        sources[2]["keep"] = f"name <> '{lacks}'"
        storage = f"{s3}/{request.node.name}"
        return corpus.load(storage=storage, shard_mib=0.01, work_copies=work_copies, sources=sources)

    return load


@pytest.fixture
def written(monkeypatch):
    """Count the shards whose texts are written to be published."""
    calls, publish_shard = Counter(), published_shards.publish_shard

    def counted(job):
        calls[job.source, job.name] += 1
        return publish_shard(job)

    monkeypatch.setattr(published_shards, "publish_shard", counted)
    return calls


def copies_of(recipe):
    """Return how often the bytes of each published text and of each file of band keys lie on storage."""
    digests = {path: sha256(recipe.folder.read(path)).hexdigest() for path in recipe.folder.files("")}
    often = Counter(digests.values())
    places = [tuple(path.split("/")[:2]) for path in digests]
    assert {place for top, place in places if top == "published"} >= set(TEXTS_AND_KEYS)
    return {
        path: often[digest]
        for path, digest in digests.items()
        if path.startswith(tuple(f"published/{place}/" for place in TEXTS_AND_KEYS))
    }


def faults(recipe):
    items, found = files_to_check(recipe)
    return found + faults_of(recipe, items, lambda _: None)


def test_what_is_published_is_there_once_or_where_the_recipe_says_so_twice(on_store, written):
    build_here(on_store(work_copies=True))
    before = contents(on_store())
    assert set(copies_of(on_store()).values()) == {2}
    build_here(on_store(work_copies=True, lacks="n2_1"), replace=True)
    written.clear()
    build_here(on_store(work_copies=True), replace=True)
    assert not written
    build_here(on_store())  # which has nothing to do but to let go of copies
    assert set(copies_of(on_store()).values()) == {1}
    assert contents(on_store()) == before
    assert faults(on_store()) == []
    listed = {*on_store().folder.files("")}
    build_here(on_store())
    assert {*on_store().folder.files("")} == listed


def test_only_what_changed_is_written_again_and_a_recipe_changed_back_is_published_in_silence(
    on_store, written, caplog
):
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


def test_published_files_that_are_damaged_are_made_again(on_store, written):
    recipe = on_store()
    build_here(recipe)
    before, folder = contents(recipe), recipe.folder
    cut, changed, gone, *_ = sorted(path for path in copies_of(recipe) if path.startswith("published/worst/"))
    content = folder.read(changed)
    for path, other in ((cut, folder.read(cut)[:-9]), (changed, content[:60] + b"?" + content[61:])):
        folder.remove(path)
        folder.write(path, other)
    folder.remove(gone)
    written.clear()
    build_here(recipe)
    assert len(written) == 3
    assert contents(recipe) == before
    assert set(copies_of(recipe).values()) == {1}


@pytest.mark.parametrize("after", [3, "records"])
def test_build_that_dies_while_it_lets_go_of_copies_goes_on_there(on_store, written, monkeypatch, after):
    died, call, write = [], one_copy.Handover.__call__, one_copy.write_record

    def dies(job):
        died.append(job)
        if len(died) > after:
            raise KeyboardInterrupt
        call(job)

    def dies_at_the_manifest(folder, path, record):
        if path.startswith("work/manifests/"):
            raise KeyboardInterrupt
        write(folder, path, record)

    with monkeypatch.context() as patch:
        if after == "records":
            patch.setattr(one_copy, "write_record", dies_at_the_manifest)
        else:
            patch.setattr(one_copy.Handover, "__call__", dies)
        with pytest.raises(KeyboardInterrupt):
            build_here(on_store())
    written.clear()
    build_here(on_store())
    assert not written
    assert set(copies_of(on_store()).values()) == {1}
    assert faults(on_store()) == []
