"""What lies on storage is cut, changed or taken away: it is noticed, said, and made again."""

import errno
import json
import os
import platform
import random
import re
import shutil
import subprocess
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
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
from zyda_flows.tasks import pipeline
from zyda_flows.tasks.errors import Damaged, Denied
from zyda_flows.tasks.lookup.verify_and_clean import artifacts_in
from zyda_flows.tasks.planning.last_build import ledger_if_complete
from zyda_flows.tasks.sources.input_files import Listing
from zyda_flows.tasks.sources.register import Register
from zyda_flows.tasks.storage import tables
from zyda_flows.tasks.storage.artifacts import Manifest
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.forgetting import forget
from zyda_flows.tasks.storage.records import unseal
from zyda_flows.tasks.storage.scratch import scratch_name
from zyda_flows.tasks.storage.tables import read_table, tables_of

pytestmark = pytest.mark.early(5)

STAGES = tuple(name for name in pipeline.names() if name not in {"rules", "matches", "against"})
FLIPS_OF_A_STAGE = 34  # 306 in all


def with_model(folder):
    corpus = Corpus(folder)
    corpus.recipe["sources"][2]["classify"] = {
        "model": str(QUALITY),
        "keep": ["High", "Medium"],
        "max_tokens": 64,
    }
    leak = f"{prose('asked', 12)} {prose('answered', 3)}"
    write_rows(folder / "in/worst-9.arrow", rows(leak=leak, **{f"n{i}": prose(f"n{i}") for i in range(30)}))
    item = {"question": prose("asked", 12), "answer": prose("answered", 3)}
    (folder / "set.jsonl").write_text(json.dumps(item))
    corpus.recipe["documents"] = [{"decontaminate": {"sets": {"set": "set.jsonl"}}}]
    (folder / "denied.txt").write_text('{"column": "name", "value": "n0"}')
    corpus.recipe["deny"] = "denied.txt"
    return corpus


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A corpus with a model, built once, to look at."""
    corpus = with_model(tmp_path_factory.mktemp("damage"))
    recipe = corpus.load()
    build_here(recipe)
    return recipe


def flip(path, place):
    """Change one bit of a file, by its number."""
    content = bytearray(path.read_bytes())
    content[place // 8] ^= 1 << place % 8
    path.unlink()
    path.write_bytes(bytes(content))


def same(found, expected):
    return found.schema == expected.schema and found.equals(expected)


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
def test_flipped_bit_in_an_artifact_is_noticed_or_harmless(built, stage, tmp_path):
    folder = built.folder.folder("copy")
    chance = random.Random(stage)
    artifacts = shards_of(built, stage)
    sizes = [artifact.size for artifact in artifacts]
    noticed = 0
    for _ in range(FLIPS_OF_A_STAGE):
        artifact = chance.choices(artifacts, sizes)[0]
        content = built.folder.read(artifact.path)
        expected = pq.read_table(pa.BufferReader(content))
        place = chance.randrange(8 * len(content))
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        folder.write(artifact.path, bytes(changed))
        with pytest.raises(Damaged):
            read_table(folder, artifact)
        for columns in (None, expected.column_names[1:] or expected.column_names):
            tables.FOOTERS.clear()  # or the footer would not be read
            try:
                parts = list(tables_of(folder, artifact, columns))
            except Damaged:
                noticed += 1
                continue
            assert same(pa.concat_tables(parts), expected.select(columns or expected.column_names)), place
    assert noticed > FLIPS_OF_A_STAGE / 4


def test_flipped_bit_in_a_record_is_always_noticed(built):
    folder = built.folder
    kinds = {"work/manifests": Manifest, "work/listings": Listing, "work/register": Register}
    chance = random.Random(1)
    for place, kind in kinds.items():
        for path in folder.files(place)[:6]:
            content = folder.read(path)
            assert unseal(content, kind, path)
            for _ in range(20):
                changed = bytearray(content)
                changed[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
                with pytest.raises(Damaged):
                    unseal(bytes(changed), kind, path)
            with pytest.raises(Damaged):
                unseal(content[: chance.randrange(len(content))], kind, path)


def cut(path):
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[: len(content) // 2])


def change(path):
    flip(path, 8 * (path.stat().st_size - 20))


def take_away(path):
    path.unlink()


DAMAGES = {"cut": cut, "changed": change, "taken away": take_away}


def undo_what_reads(recipe, stage):
    """Forget the stages after one, so that the next build reads what that one left."""
    folder = recipe.folder
    for path in folder.files("work/manifests"):
        if not path.startswith(
            tuple(f"work/manifests/{before}-" for before in STAGES[: STAGES.index(stage) + 1])
        ):
            folder.delete(path)
    for after in STAGES[STAGES.index(stage) + 1 :]:
        folder.delete(f"work/{after}")
    folder.delete("published")


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_artifact_of_any_stage_is_made_again(tmp_path, damage, caplog):
    corpus = with_model(tmp_path)
    recipe = corpus.load()
    build_here(recipe)
    undisturbed, folder = contents(recipe), recipe.folder
    for stage in STAGES:
        artifact = max(shards_of(recipe, stage), key=lambda artifact: artifact.rows)
        undo_what_reads(recipe, stage)
        DAMAGES[damage](tmp_path / "out/small" / artifact.path)
        caplog.clear()
        tables.FOOTERS.clear()  # as in a worker that has not read the file before
        build_here(recipe)
        assert contents(recipe) == undisturbed, stage
        assert artifact.path in caplog.text, stage
        assert read_table(folder, artifact).num_rows == artifact.rows


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_manifest_record_or_listing_is_made_again(tmp_path, damage):
    recipe = with_model(tmp_path).load()
    build_here(recipe)
    undisturbed, folder = contents(recipe), recipe.folder
    chance = random.Random(damage)
    records = [path for path in folder.files("work") if path.endswith(".json")]
    # The register is told apart, and each build that publishes writes stamps of another name.
    records = [path for path in records if not path.startswith(("work/register", "work/stamps"))]
    for path in chance.sample(records, 8) + ["work/built.json", "work/published.json"]:
        DAMAGES[damage](tmp_path / "out/small" / path)
        folder.delete("published")
        build_here(recipe)
        assert contents(recipe) == undisturbed, path


def test_damaged_register_says_what_to_do(tmp_path, ready):
    corpus = ready
    recipe = corpus.load()
    change(tmp_path / "out/small/work/register/000000.json")
    with pytest.raises(
        Denied, match=r"register/000000\.json is cut or changed.*put it back from a copy, or delete"
    ):
        build_here(recipe)


def test_storage_that_damages_what_is_written_ends_the_build(tmp_path, monkeypatch):
    recipe = Corpus(tmp_path).load()

    def damaged(folder, artifact, stream):
        raise tables.as_damaged(folder, artifact, "bad")

    monkeypatch.setattr(tables, "footer_in", damaged)
    with pytest.raises(Denied, match="again after it was rebuilt: check the storage"):
        build_here(recipe)


PUBLISHED = {"a document file": "best/*.parquet", "the card": "README.md", "the manifest": "manifest.json",
             "the removed": "removed/*.parquet", "the list of sources": "sources.parquet",
             "the table of files": "files-*.parquet"}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("what", PUBLISHED)
def test_damaged_published_file_is_put_back_by_the_next_build(tmp_path, damage, what, ready):
    recipe = ready.load()
    undisturbed = contents(recipe)
    assert ledger_if_complete(recipe) is not None
    path = sorted((tmp_path / "out/small/published").glob(PUBLISHED[what]))[0]
    DAMAGES[damage](path)
    assert ledger_if_complete(recipe) is None
    build_here(recipe)
    assert contents(recipe) == undisturbed
    assert ledger_if_complete(recipe) is not None


def test_files_of_which_storage_says_something_new_are_read_by_the_next_build_alone(
    tmp_path, monkeypatch, ready
):
    recipe = ready.load()
    undisturbed = contents(recipe)
    recipe.folder.delete("work/published.json")
    for path in (tmp_path / "out/small/published").rglob("*.parquet"):
        path.touch()
    read = []
    digest_of = Folder.digest_of
    monkeypatch.setattr(
        Folder, "digest_of", lambda folder, path: read.append(path) or digest_of(folder, path)
    )
    assert ledger_if_complete(recipe) is None
    assert not read  # whoever asks from a laptop does not read terabytes
    build_here(recipe)
    assert {path for path in read if path.startswith("published/")} >= {
        f"published/{path}" for path in undisturbed if path not in {"manifest.json", "files.parquet"}
    }
    assert contents(recipe) == undisturbed
    read.clear()
    assert ledger_if_complete(recipe) is not None
    assert not read


def test_corpus_that_is_there_is_left_as_it_is(tmp_path, ready):
    recipe = ready.load()
    folder = tmp_path / "out/small/published"
    before = folder.stat().st_ino
    build_here(recipe)
    assert folder.stat().st_ino == before
    (folder / "best/stranger.parquet").touch()
    build_here(recipe)
    assert folder.stat().st_ino != before
    assert not (folder / "best/stranger.parquet").exists()


def test_file_that_is_edited_after_it_was_read_is_read_again(tmp_path, monkeypatch, ready):
    recipe = ready.load()
    undisturbed = contents(recipe)
    recipe.folder.delete("work/published.json")
    path = tmp_path / "out/small/published/README.md"
    digest_of = Folder.digest_of

    def edited_after(folder, read):
        found = digest_of(folder, read)
        if read.endswith("README.md"):
            path.unlink()
            path.write_bytes(b"x" * len(undisturbed))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "digest_of", edited_after)
        build_here(recipe)
    assert ledger_if_complete(recipe) is None
    build_here(recipe)
    assert contents(recipe) == undisturbed
    assert ledger_if_complete(recipe) is not None


def test_number_that_was_changed_in_the_manifest_is_put_right(tmp_path, ready):
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


def test_verify_looks_at_the_register_and_the_other_records(tmp_path, ready):
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
    take_away(tmp_path / "out/small/work/register/000000.json")
    with pytest.raises(Denied, match="is missing from the register"):
        files_to_check(recipe)


def test_edit_of_a_published_file_in_place_does_not_reach_the_next_corpus(tmp_path, ready):
    recipe = ready.load()
    undisturbed = contents(recipe)
    path = sorted((tmp_path / "out/small/published/best").glob("*.parquet"))[0]
    assert not path.stat().st_mode & 0o222
    path.chmod(0o644)
    with path.open("r+b") as file:  # the same file as the one in work/, by another name
        file.seek(100)
        file.write(b"edited")
    build_here(recipe)
    assert contents(recipe) == undisturbed


def test_work_that_was_deleted_does_not_matter_until_it_is_needed(tmp_path, ready):
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


def test_verify_finds_rot_that_no_listing_shows_and_repairs_it(tmp_path, monkeypatch, ready):
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
    said = zyda_here("verify", str(corpus.path))
    assert said.returncode == 1
    assert said.stdout.count("has another content than was written") == 2  # it has two names
    assert said.stderr.startswith("zyda: 2 files damaged or missing")
    artifact = shards_of(recipe, "edges")[0]  # it is needed by no build that has nothing to do
    cut(folder / artifact.path)
    monkeypatch.setattr(build, "run_build", lambda *asked, **_: build_here(asked[3]))
    for _ in range(2):
        monkeypatch.setattr("sys.argv", ["zyda", "verify", str(corpus.path), "--repair"])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
    assert contents(recipe) == undisturbed
    assert zyda_here("verify", str(corpus.path)).returncode == 0


def test_clean_removes_what_the_published_corpus_does_not_need_and_nothing_else(tmp_path):
    corpus = Corpus(tmp_path)
    other = corpus.load(shard_mib=0.001, dedup={"scope": "global", "bands": 16})
    build_here(other)
    recipe = corpus.load()
    build_here(recipe)
    folder = recipe.folder
    needed = {item.path for one in manifests(recipe) for item in artifacts_in(one.model_dump(mode="json"))}
    before = set(folder.files("work"))
    said = zyda_here("clean", str(corpus.path), "--dry-run")
    assert said.returncode == 0, said.stderr
    assert set(folder.files("work")) == before
    assert "would be removed" in said.stdout
    strangers = [
        "work/notes.txt", "work/mine/data.parquet", f"work/repository/.git/objects/ab/{'c' * 38}",
        f"work/ingest/{'c' * 40}", f"work/a/b/c/d-{'0' * 20}.parquet",
    ]  # fmt: skip
    for path in strangers:
        folder.write(path, b"mine")
        os.utime(folder.path(path), (0, 0))
    said = zyda_here("clean", str(corpus.path))
    assert said.returncode == 0, said.stderr
    assert "5 files in work/ not written by a build, and kept: work/" in said.stdout
    left = set(folder.files("work"))
    assert needed | set(strangers) <= left
    assert len(left) < len(before)
    for path in strangers:
        folder.delete(path)
        left.remove(path)
    undisturbed = contents(recipe)
    build_here(recipe)
    assert set(folder.files("work")) == left
    assert contents(recipe) == undisturbed
    write_rows(tmp_path / "in/best-2.parquet", rows(late=prose("late")))
    build_here(corpus.load())
    again = {path for path in folder.files("work/ingest") if path not in left}
    assert {path.split("/")[-1][:6] for path in again} == {"000002"}


def test_clean_leaves_a_build_alone_that_is_under_way(tmp_path, ready):
    corpus = ready
    recipe = corpus.load()
    recipe.folder.write(f"work/ingest/best/being-written-{'0' * 20}.parquet", b"x")
    said = zyda_here("clean", str(corpus.path))
    assert said.returncode == 1
    assert "a build seems to be running" in said.stderr


def test_clean_takes_an_audit_for_no_build(tmp_path):
    corpus = Corpus(tmp_path)
    build_here(corpus.load())
    assert zyda_here("audit", str(corpus.path), "--pairs", "2").returncode == 0
    said = zyda_here("clean", str(corpus.path), "--dry-run")
    assert said.returncode == 0, said.stderr


def test_scratch_of_a_dead_process_goes_and_of_a_living_one_stays(tmp_path, monkeypatch):
    dead = subprocess.Popen(["true"])
    dead.wait()
    folder = Corpus(tmp_path).load().folder
    scratch = tmp_path / "out/small/.scratch"
    scratch.mkdir(parents=True)
    mine = scratch / scratch_name()
    mine.write_bytes(b"x")
    own_pid, birth = f"-{os.getpid()}-", mine.name.split("-")[-2]
    gone = scratch / mine.name.replace(own_pid, f"-{dead.pid}-")
    gone.mkdir()
    (gone / "file").write_bytes(b"x")
    with_its_number = scratch / mine.name.replace(f"-{birth}-", f"-{'0' * 12}-")
    with_its_number.write_bytes(b"x")
    elsewhere = scratch / gone.name.replace(platform.node(), "another-host")
    elsewhere.write_bytes(b"x")
    booted = psutil._psplatform.boot_time()
    monkeypatch.setattr(psutil._psplatform, "boot_time", lambda: booted + 3600)  # the clock is set
    folder.clear_scratch()
    assert sorted(scratch.iterdir()) == sorted([mine, elsewhere])


def test_disk_that_is_full_while_a_corpus_is_put_in_place_keeps_nothing_of_it(corpus, monkeypatch):
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


def test_corpus_says_what_it_was_made_of(built):
    folder = built.folder.folder("published")
    manifest = json.loads(folder.read("manifest.json"))
    card = folder.read("README.md").decode()
    assert manifest["software"].startswith("zyda-flows ")
    assert manifest["tokenizer"]["name"].endswith("demo-tokenizer.json")
    assert manifest["tokenizer"]["digest"] in card
    assert [one["source"] for one in manifest["made_of"]] == ["best", "middle", "worst"]
    assert manifest["recipe"]["sources"][1]["keep"] == "name <> 'middle_alone'"
    with folder.open("sources.parquet") as file:
        files = pq.read_table(file).to_pylist()
    assert {one["file"] for one in files} >= {"best-0.parquet", "middle.jsonl.gz"}
    assert all(one["version"] for one in files)


def test_model_that_went_away_or_changed_is_no_reason_to_say_that_nothing_is_to_do(tmp_path):
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
    said = zyda_here("check", str(corpus.path))
    assert said.returncode == 1
    assert re.match(r"zyda: \S+recipe\.yaml:\d+: source worst: classify\.model: ", said.stderr)


def test_note_of_a_build_names_the_model_that_it_used_and_not_the_one_that_lies_there_at_its_end(tmp_path):
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


def test_forgetting_a_record_of_the_corpus_itself_forgets_nothing_else(tmp_path):
    corpus = Corpus(tmp_path)
    corpus.recipe["sources"][0]["name"] = "built"
    recipe = corpus.load()
    build_here(recipe)
    folder = recipe.folder
    before = set(folder.files("work"))
    forget(folder, ["work/built.json"])
    assert before - set(folder.files("work")) == {"work/built.json"}


@pytest.mark.slow
def test_repaired_corpus_can_be_cleaned_at_once(tmp_path, ready):
    """What a repair has written is no build's that has not come to its end."""
    corpus = ready
    corpus.write()
    cut(sorted((tmp_path / "out/small/published/best").glob("*.parquet"))[0])
    assert zyda_here("verify", str(corpus.path), "--repair").returncode == 0
    said = zyda_here("clean", str(corpus.path))
    assert (said.returncode, said.stderr) == (0, "")
