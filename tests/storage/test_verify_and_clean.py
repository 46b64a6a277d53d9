"""Verify, clean and the next build repair a corpus, and remove only unneeded files."""

import errno
import json
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

import psutil
import pytest
from damages import change, cut, delete, with_model
from small_corpus import (
    QUALITY,
    Corpus,
    build_here,
    contents,
    manifests,
    prose,
    rows,
    shards_of,
    write_rows,
    zyda_here,
)

from zyda_flows.flows.command import build
from zyda_flows.flows.command.cli import main
from zyda_flows.tasks.errors import Denied
from zyda_flows.tasks.lookup.verify_and_clean import orphans_of
from zyda_flows.tasks.planning.last_build import ledger_if_complete
from zyda_flows.tasks.storage.artifacts import artifacts_in
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.forgetting import forget
from zyda_flows.tasks.storage.scratch import scratch_name

pytestmark = pytest.mark.early(5)


def test_published_corpus_is_replaced_only_if_a_file_is_unknown(tmp_path, ready):
    recipe = ready.load()
    folder = tmp_path / "out/small/published"
    before = folder.stat().st_ino
    build_here(recipe)
    assert folder.stat().st_ino == before
    (folder / "best/stranger.parquet").touch()
    build_here(recipe)
    assert folder.stat().st_ino != before
    assert not (folder / "best/stranger.parquet").exists()


def test_file_that_is_edited_after_reading_is_restored(tmp_path, monkeypatch, ready):
    recipe = ready.load()
    undisturbed = contents(recipe)
    recipe.folder.delete("work/published.json")
    path = tmp_path / "out/small/published/README.md"
    digest_of = Folder.digest_of

    def edited_after(folder, read_path):
        digest = digest_of(folder, read_path)
        if read_path.endswith("README.md"):
            path.unlink()
            path.write_bytes(b"x" * len(undisturbed))
        return digest

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "digest_of", edited_after)
        build_here(recipe)
    assert ledger_if_complete(recipe) is None
    build_here(recipe)
    assert contents(recipe) == undisturbed
    assert ledger_if_complete(recipe) is not None


def test_changed_number_in_the_manifest_is_restored(tmp_path, ready):
    recipe = ready.load()
    undisturbed = contents(recipe)
    path = tmp_path / "out/small/published/manifest.json"
    assert not path.stat().st_mode & 0o222
    text = path.read_text()
    path.unlink()
    path.write_text(text.replace('"tokens": 2391', '"tokens": 9999'))
    assert path.read_text() != text
    assert zyda_here("verify", str(tmp_path / "recipe.yaml")).returncode == 1
    assert ledger_if_complete(recipe) is None
    build_here(recipe)
    assert contents(recipe) == undisturbed


def test_verify_checks_the_register_and_other_records(tmp_path, ready):
    from zyda_flows.tasks.lookup.verify_and_clean import files_to_check

    recipe = ready.load()
    folder = recipe.folder
    assert files_to_check(recipe)[1] == []
    listing = folder.files("work/listings")[0]
    tokenizer = next(path for path in folder.files("work") if "tokenizer" in path and path.endswith("json"))
    for path in (listing, tokenizer, "work/published.json", "history/000001.json"):
        before = folder.read(path)
        change(tmp_path / "out/small" / path)
        assert [fault.path for fault in files_to_check(recipe)[1]] == [path]
        folder.write(path, before)
    delete(tmp_path / "out/small/work/register/000000.json")
    with pytest.raises(Denied, match="is missing from the register"):
        files_to_check(recipe)


def test_edit_of_a_published_file_is_undone_by_the_next_build(tmp_path, ready):
    recipe = ready.load()
    undisturbed = contents(recipe)
    path = sorted((tmp_path / "out/small/published/best").glob("*.parquet"))[0]
    assert not path.stat().st_mode & 0o222
    path.chmod(0o644)
    with path.open("r+b") as file:  # a hard link of the file in work/
        file.seek(100)
        file.write(b"edited")
    build_here(recipe)
    assert contents(recipe) == undisturbed


def test_deleted_work_files_are_rebuilt_when_needed(tmp_path, ready):
    corpus = ready
    recipe = corpus.load()
    folder = recipe.folder
    for stage in ("ingest", "publish"):
        for path in folder.files(f"work/{stage}"):
            if path.endswith(".parquet"):
                folder.delete(path)
    assert ledger_if_complete(recipe) is not None
    corpus.recipe["sources"][1]["keep"] = "name <> 'middle_alone' and name <> 'twin_1'"
    changed = corpus.load()
    build_here(changed)
    fresh = corpus.load(storage=str(tmp_path / "fresh"))
    build_here(fresh)
    assert contents(changed) == contents(fresh)


def test_verify_detects_and_repairs_changes_with_equal_size_and_time(tmp_path, monkeypatch, ready):
    corpus = ready
    recipe = corpus.load()
    undisturbed = contents(recipe)
    folder = tmp_path / "out/small"
    path = sorted((folder / "published/best").glob("*.parquet"))[0]
    before = path.stat()
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(50)
        byte = file.read(1)
        file.seek(50)
        file.write(bytes([byte[0] ^ 1]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    process = zyda_here("verify", str(corpus.path))
    assert process.returncode == 1
    assert process.stdout.count("has another content than was written") == 2  # the file has two names
    assert process.stderr.startswith("zyda: 2 files damaged or missing")
    artifact = shards_of(recipe, "edges")[0]  # only builds with work need it
    cut(folder / artifact.path)
    monkeypatch.setattr(build, "run_build", lambda *arguments, **_: build_here(arguments[3]))
    for _ in range(2):
        monkeypatch.setattr("sys.argv", ["zyda", "verify", str(corpus.path), "--repair"])
        assert main() == 0
    assert contents(recipe) == undisturbed
    assert zyda_here("verify", str(corpus.path)).returncode == 0


def test_clean_removes_only_unneeded_files_of_builds(tmp_path):
    corpus = Corpus(tmp_path)
    other = corpus.load(shard_mib=0.001, dedup={"scope": "global", "bands": 16})
    build_here(other)
    recipe = corpus.load()
    build_here(recipe)
    folder = recipe.folder
    needed = {item.path for manifest in manifests(recipe) for item in artifacts_in(manifest)}
    before = set(folder.files("work"))
    process = zyda_here("clean", str(corpus.path), "--dry-run")
    assert process.returncode == 0, process.stderr
    assert set(folder.files("work")) == before
    assert "would be removed" in process.stdout
    strangers = [
        "work/notes.txt", "work/mine/data.parquet", f"work/repository/.git/objects/ab/{'c' * 38}",
        f"work/ingest/{'c' * 40}", f"work/a/b/c/d-{'0' * 20}.parquet",
    ]  # fmt: skip
    for path in strangers:
        folder.write(path, b"mine")
        os.utime(folder.path(path), (0, 0))
    process = zyda_here("clean", str(corpus.path))
    assert process.returncode == 0, process.stderr
    assert "5 files in work/ not written by a build, and kept: work/" in process.stdout
    remaining = set(folder.files("work"))
    assert needed | set(strangers) <= remaining
    assert len(remaining) < len(before)
    for path in strangers:
        folder.delete(path)
        remaining.remove(path)
    undisturbed = contents(recipe)
    build_here(recipe)
    assert set(folder.files("work")) == remaining
    assert contents(recipe) == undisturbed
    write_rows(tmp_path / "in/best-2.parquet", rows(late=prose("late")))
    build_here(corpus.load())
    new_paths = {path for path in folder.files("work/ingest") if path not in remaining}
    assert {path.split("/")[-1][:6] for path in new_paths} == {"000002"}


@pytest.mark.parametrize("dedup", [{}, {"scope": "global", "verify": {"containment": 0.8}}])
def test_all_files_of_a_new_corpus_are_needed(tmp_path, dedup):
    recipe = Corpus(tmp_path).load(dedup=dedup)
    build_here(recipe)
    assert orphans_of(recipe) == []


def test_clean_during_a_build_fails(tmp_path, ready):
    corpus = ready
    recipe = corpus.load()
    recipe.folder.write(f"work/ingest/best/being-written-{'0' * 20}.parquet", b"x")
    process = zyda_here("clean", str(corpus.path))
    assert process.returncode == 1
    assert "a build seems to be running" in process.stderr


def test_clean_after_an_audit_succeeds(tmp_path):
    corpus = Corpus(tmp_path)
    build_here(corpus.load())
    assert zyda_here("audit", str(corpus.path), "--pairs", "2").returncode == 0
    process = zyda_here("clean", str(corpus.path), "--dry-run")
    assert process.returncode == 0, process.stderr


def test_scratch_files_of_dead_processes_are_removed(tmp_path, monkeypatch):
    dead = subprocess.Popen(["true"])
    dead.wait()
    folder = Corpus(tmp_path).load().folder
    scratch = tmp_path / "out/small/.scratch"
    scratch.mkdir(parents=True)
    own_file = scratch / scratch_name()
    own_file.write_bytes(b"x")
    own_pid, birth = f"-{os.getpid()}-", own_file.name.split("-")[-2]
    dead_folder = scratch / own_file.name.replace(own_pid, f"-{dead.pid}-")
    dead_folder.mkdir()
    (dead_folder / "file").write_bytes(b"x")
    reused_number = scratch / own_file.name.replace(f"-{birth}-", f"-{'0' * 12}-")
    reused_number.write_bytes(b"x")
    other_host = scratch / dead_folder.name.replace(platform.node(), "another-host")
    other_host.write_bytes(b"x")
    booted = psutil._psplatform.boot_time()
    monkeypatch.setattr(psutil._psplatform, "boot_time", lambda: booted + 3600)  # the clock was changed
    folder.clear_scratch()
    assert sorted(scratch.iterdir()) == sorted([own_file, other_host])


def test_full_disk_during_publication_leaves_no_scratch_files(corpus, monkeypatch):
    recipe, link, count = corpus.load(), os.link, 0

    def full_after_some(source, target):
        nonlocal count
        count += "/zyda-" in str(target)
        if count > 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        link(source, target)

    with monkeypatch.context() as full:
        full.setattr(os, "link", full_after_some)
        full.setattr(shutil, "copyfile", full_after_some)
        with pytest.raises(
            Denied, match="No space left on device; free some space there, and start the same command again"
        ):
            build_here(recipe)
    assert count > 3
    assert list((Path(recipe.folder.url) / ".scratch").iterdir()) == []
    build_here(recipe)


def test_corpus_is_incomplete_after_its_model_was_changed_or_deleted(tmp_path):
    import shutil

    corpus = with_model(tmp_path)
    model = tmp_path / "model"
    shutil.copytree(QUALITY, model)
    corpus.recipe["sources"][2]["classify"]["model"] = str(model)
    recipe = corpus.load()
    build_here(recipe)
    assert ledger_if_complete(recipe) is not None
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "note": "another"}))
    assert ledger_if_complete(recipe) is None
    shutil.rmtree(model)
    assert ledger_if_complete(recipe) is None
    process = zyda_here("check", str(corpus.path))
    assert process.returncode == 1
    assert re.match(r"zyda: \S+recipe\.yaml:\d+: source worst: classify\.model: ", process.stderr)


def test_record_of_a_build_has_the_model_from_its_start(tmp_path):
    import shutil

    from zyda_flows.tasks.running import run_pipeline
    from zyda_flows.tasks.stage.results import HERE

    corpus = with_model(tmp_path)
    model = tmp_path / "model"
    shutil.copytree(QUALITY, model)
    corpus.recipe["sources"][2]["classify"]["model"] = str(model)
    recipe = corpus.load()

    def changed_before_note(stage, *inputs, **options):
        if stage.name == "record_last_build":
            config = json.loads((model / "config.json").read_text())
            (model / "config.json").write_text(json.dumps({**config, "note": "changed while it was built"}))
        return HERE.submit(stage, *inputs, **options)

    run_pipeline(recipe, HERE._replace(submit=changed_before_note))
    assert ledger_if_complete(recipe) is None


def test_forgetting_a_record_deletes_no_other_file(tmp_path):
    corpus = Corpus(tmp_path)
    corpus.recipe["sources"][0]["name"] = "built"
    recipe = corpus.load()
    build_here(recipe)
    folder = recipe.folder
    before = set(folder.files("work"))
    forget(folder, ["work/built.json"])
    assert before - set(folder.files("work")) == {"work/built.json"}


@pytest.mark.slow
def test_clean_after_a_repair_succeeds(tmp_path, ready):
    """Files of a repair do not count as files of an unfinished build."""
    corpus = ready
    corpus.write()
    cut(sorted((tmp_path / "out/small/published/best").glob("*.parquet"))[0])
    assert zyda_here("verify", str(corpus.path), "--repair").returncode == 0
    process = zyda_here("clean", str(corpus.path))
    assert (process.returncode, process.stderr) == (0, "")
