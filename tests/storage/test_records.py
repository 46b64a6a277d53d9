"""Records are only valid at their own path, with their own class, and as written by this version."""

import hashlib
import shutil
from datetime import UTC, datetime, timedelta

import pytest
from small_corpus import Corpus, build_here, contents, prose, rows, write_rows, zyda_here

from zyda_flows.tasks.accounts.published import FileStamps
from zyda_flows.tasks.dedup.cluster_files import ClusterFiles
from zyda_flows.tasks.dedup.exchange import FileList
from zyda_flows.tasks.errors import Damaged, Denied
from zyda_flows.tasks.ingest.file_pieces import IngestedPiece
from zyda_flows.tasks.lookup.verify_and_clean import files_to_check
from zyda_flows.tasks.planning.build_history import Build, builds_of
from zyda_flows.tasks.planning.last_build import BuildRecord, last_build, ledger_if_complete
from zyda_flows.tasks.publish.published_shards import PublishedShards
from zyda_flows.tasks.signatures.edges import EdgeFiles
from zyda_flows.tasks.sources.input_files import Listing
from zyda_flows.tasks.sources.register import Register, load_register
from zyda_flows.tasks.storage.artifacts import ArtifactRecord, Manifest, load_manifest, receipt_of
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import BODY, SEAL, body_of, read_record, seal, unseal

KINDS = {
    "work/manifests/": Manifest,
    "work/listings/": Listing,
    "work/register/": Register,
    "work/built.json": BuildRecord,
    "work/published.json": FileStamps,
    "history/": Build,
    "work/edges/": EdgeFiles,
    "work/files/": FileList,
    "work/clusters/": ClusterFiles,
    "work/own_clusters/": ClusterFiles,
}


def kind_of(path):
    if path.endswith(".parquet.json"):
        return ArtifactRecord
    named = next((kind for place, kind in KINDS.items() if path.startswith(place)), None)
    return named or (IngestedPiece if path.startswith("work/ingest/") else PublishedShards)


def built_twice(folder):
    """Return a corpus with two entries in its register and two builds in its history."""
    corpus = Corpus(folder)
    build_here(corpus.load())
    write_rows(folder / "in/worst-5.arrow", rows(**{f"n{i}": prose(f"n{i}") for i in range(5)}))
    build_here(corpus.load())
    return corpus


@pytest.fixture(scope="module")
def twice(tmp_path_factory):
    return built_twice(tmp_path_factory.mktemp("records"))


@pytest.fixture
def copied(twice, tmp_path):
    """Return the same corpus in another folder for each test."""
    shutil.copytree(twice.folder / "out", tmp_path / "out")
    corpus = twice.elsewhere(tmp_path)
    build_here(corpus.load())  # records the new folder
    return corpus


def records_of(folder):
    paths = [path for place in ("work", "history") for path in folder.files(place)]
    return [path for path in paths if path.endswith(".json") and "tokenizer-" not in path]


def test_record_at_the_path_of_another_record_raises(twice):
    folder = twice.load().folder
    records = {path: folder.read(path) for path in records_of(folder)}
    assert len(records) > 100
    for place in records:
        unseal(records[place], kind_of(place), place)
        for path, content in records.items():
            if path != place:
                with pytest.raises(Damaged, match="of another place or version"):
                    unseal(content, kind_of(place), place)


def test_record_of_another_class_or_with_other_fields_raises():
    class Later(Register):
        added: int = 1

    later = Later()
    content = seal(Register(), "a.json")
    assert unseal(content, Register, "a.json") == Register()
    body = body_of(content)
    for changed in (body.replace(b'"sources":{},', b""), later.model_dump_json().encode(), b"{}", b"7"):
        digest = hashlib.sha256(b"Register a.json\n" + changed).hexdigest().encode()
        with pytest.raises(Damaged):
            unseal(SEAL + digest + BODY + changed + b"}", Register, "a.json")
    with pytest.raises(Damaged):
        unseal(content, BuildRecord, "a.json")
    with pytest.raises(Damaged):
        unseal(content, Register, "b.json")


@pytest.mark.parametrize(("source", "target"), [(0, 1), (1, 0)])
def test_register_entry_at_another_path_raises(copied, source, target):
    recipe = copied.load()
    content = recipe.folder.read(f"work/register/{source:06d}.json")
    recipe.folder.write(f"work/register/{target:06d}.json", content)
    with pytest.raises(
        Denied, match=rf"register/{target:06d}\.json is cut or changed.*restore it from a copy"
    ):
        build_here(recipe)
    with pytest.raises(Denied, match="restore it from a copy"):
        files_to_check(recipe)


@pytest.mark.slow
def test_error_of_an_invalid_register_is_a_single_line(copied):
    folder = copied.load().folder
    folder.write("work/register/000001.json", folder.read("history/000001.json"))
    for arguments in (["find", str(copied.path), "a text"], ["explain", str(copied.path), "0"]):
        process = zyda_here(*arguments)
        assert process.returncode == 1
        assert "Traceback" not in process.stderr
        assert process.stderr.count("restore it from a copy") == 1


def test_other_records_at_the_path_of_the_register_raise(copied):
    recipe = copied.load()
    for path in ("work/built.json", "work/published.json", "history/000001.json"):
        recipe.folder.write("work/register/000001.json", recipe.folder.read(path))
        with pytest.raises(Denied, match="restore it from a copy"):
            load_register(recipe.folder)


def test_manifest_at_another_path_is_detected_and_rebuilt(copied, caplog):
    recipe = copied.load()
    folder = recipe.folder
    paths = {path.split("/")[-1].split("-")[0]: path for path in last_build(folder).manifests}
    folder.write(paths["minhash"], folder.read(paths["index"]))
    assert [fault.path for fault in files_to_check(recipe)[1]] == [paths["minhash"]]
    changed = {"dedup": {"scope": "global"}}
    undisturbed = copied.load(storage=str(copied.folder / "right"), **changed)
    build_here(undisturbed)
    repaired = copied.load(**changed)
    build_here(repaired)
    assert f"{paths['minhash']} is cut or changed, or of another place" in caplog.text
    assert contents(repaired) == contents(undisturbed)


def test_receipt_of_another_manifest_raises(copied):
    folder = copied.load().folder
    path = next(path for path in folder.files("work/manifests") if "/publish-" in path)
    manifest = read_record(folder, path, Manifest)
    receipt = receipt_of(manifest, "key", path)
    assert load_manifest(folder, receipt) == manifest
    with pytest.raises(Damaged, match="differs from the receipt of its stage"):
        load_manifest(folder, receipt.model_copy(update={"identity": "another"}))


def test_build_record_at_another_path_is_warned_about_and_removed(copied, caplog):
    recipe = copied.load()
    folder = recipe.folder
    assert ledger_if_complete(recipe) is not None
    folder.write("history/000001.json", folder.read("history/000002.json"))
    assert ledger_if_complete(recipe) is None  # so that the build runs
    build_here(recipe)
    assert "history/000001.json is cut or changed, or another's; it cannot be made again" in caplog.text
    assert [build.number for build in builds_of(folder)] == [2, 3]
    assert ledger_if_complete(recipe) is not None


def test_time_of_a_build_does_not_come_from_a_listing(copied, monkeypatch):
    recipe = copied.load()
    folder = recipe.folder
    folder.delete("history")
    listed = Folder.listed
    monkeypatch.setattr(
        Folder,
        "listed",
        lambda self, path: {
            name: info for name, info in listed(self, path).items() if not name.endswith("manifest.json")
        },
    )
    build_here(recipe)
    (build,) = builds_of(folder)
    assert datetime.now(UTC) - datetime.fromisoformat(build.time) < timedelta(hours=1)


@pytest.mark.parametrize("is_valid", [False, True])
def test_changed_stored_tokenizer_is_rebuilt(copied, is_valid):
    recipe = copied.load()
    folder = recipe.folder
    path = next(path for path in folder.files("work") if path.startswith("work/tokenizer-"))
    before = folder.read(path)
    folder.write(path, before.replace(b":", b": ", 1) if is_valid else before[:-2])
    assert [fault.path for fault in files_to_check(recipe)[1]] == [path]
    write_rows(copied.folder / "in/late.jsonl", rows(late=prose("late")))
    copied.recipe["sources"][2]["files"] = [*copied.recipe["sources"][2]["files"], "in/late.jsonl"]
    recipe = copied.load()
    build_here(recipe)
    fresh = copied.load(storage=str(copied.folder / "fresh"))
    build_here(fresh)
    assert folder.read(path) == before
    assert contents(recipe) == contents(fresh)
