"""Truncated, changed and deleted files in storage are detected, reported and rebuilt."""

import json
import os
import random
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from damages import DAMAGES, UNUSED, change, flip, with_model
from small_corpus import (
    Corpus,
    build_here,
    contents,
    copy_of,
    shards_of,
)

from zyda_flows.tasks import pipeline
from zyda_flows.tasks.errors import Damaged, Denied
from zyda_flows.tasks.planning.last_build import ledger_if_complete
from zyda_flows.tasks.sources.input_files import Listing
from zyda_flows.tasks.sources.register import Register
from zyda_flows.tasks.storage import tables
from zyda_flows.tasks.storage.artifacts import Manifest
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import unseal
from zyda_flows.tasks.storage.tables import read_table, tables_of

pytestmark = pytest.mark.early(5)
STAGES = tuple(
    name
    for name in pipeline.names()
    if name not in {"rules", "matches", "against", "control", "keep", *UNUSED}
)
FLIPS_OF_A_STAGE = 34  # 306 in all


@pytest.fixture(scope="module")
def built_corpus(tmp_path_factory):
    """Return a corpus with a model that is built once."""
    folder = tmp_path_factory.mktemp("damage")
    corpus = with_model(folder)
    corpus.recipe |= {"deny": str(folder / corpus.recipe["deny"])}
    corpus.recipe["documents"] = [{"decontaminate": {"sets": {"set": str(folder / "set.jsonl")}}}]
    corpus = corpus.elsewhere(folder)
    build_here(corpus.load())
    return corpus


@pytest.fixture(scope="module")
def built(built_corpus):
    return built_corpus.load()


def same(table, expected):
    return table.schema == expected.schema and table.equals(expected)


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
def test_flipped_bit_in_an_artifact_is_detected_or_harmless(built, stage, tmp_path):
    folder = built.folder.folder("copy")
    chance = random.Random(stage)
    artifacts = shards_of(built, stage)
    sizes = [artifact.size for artifact in artifacts]
    detected = 0
    for _ in range(FLIPS_OF_A_STAGE):
        artifact = chance.choices(artifacts, sizes)[0]
        content = built.folder.read(artifact.path)
        expected = pq.read_table(pa.BufferReader(content))
        bit = chance.randrange(8 * len(content))
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        folder.write(artifact.path, bytes(changed))
        with pytest.raises(Damaged):
            read_table(folder, artifact)
        for columns in (None, expected.column_names[1:] or expected.column_names):
            tables.FOOTERS.clear()  # so that the footer is read
            try:
                parts = list(tables_of(folder, artifact, columns))
            except Damaged:
                detected += 1
                continue
            assert same(pa.concat_tables(parts), expected.select(columns or expected.column_names)), bit
    assert detected > FLIPS_OF_A_STAGE / 4


def test_flipped_bit_in_a_record_is_always_detected(built):
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


# The first later stage that reads the artifacts of a stage: the next stage, with a few exceptions.
READERS = dict(pairwise(STAGES)) | {"deny": "decontaminate", "decisions": "overlap", "cuts": "publish"}


def forget_reader(recipe, stage):
    """Delete the results of the reader of a stage, so that the next build reads the results of that stage."""
    folder = recipe.folder
    if reader := READERS.get(stage):
        for path in folder.files("work/manifests"):
            if path.startswith(f"work/manifests/{reader}-"):
                folder.delete(path)
        folder.delete(f"work/{reader}")
    folder.delete("published")


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_artifact_of_any_stage_is_rebuilt(built_corpus, tmp_path, damage, caplog):
    recipe = copy_of(built_corpus, tmp_path).load()
    undisturbed, folder = contents(recipe), recipe.folder
    for stage in STAGES:
        artifact = max(shards_of(recipe, stage), key=lambda artifact: artifact.rows)
        forget_reader(recipe, stage)
        DAMAGES[damage](tmp_path / "out/small" / artifact.path)
        caplog.clear()
        tables.FOOTERS.clear()  # like a worker that reads the file for the first time
        build_here(recipe)
        assert contents(recipe) == undisturbed, stage
        assert artifact.path in caplog.text, stage
        assert read_table(folder, artifact).num_rows == artifact.rows


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_manifest_record_or_listing_is_rebuilt(built_corpus, tmp_path, damage):
    recipe = copy_of(built_corpus, tmp_path).load()
    undisturbed, folder = contents(recipe), recipe.folder
    chance = random.Random(damage)
    records = [path for path in folder.files("work") if path.endswith(".json")]
    # Another test damages the register, and each publishing build writes stamps under a new name.
    records = [path for path in records if not path.startswith(("work/register", "work/stamps"))]
    for path in chance.sample(records, 8) + ["work/built.json", "work/published.json"]:
        DAMAGES[damage](tmp_path / "out/small" / path)
        folder.delete("published")
        build_here(recipe)
        assert contents(recipe) == undisturbed, path


def test_build_rewrites_a_damaged_column_of_the_table_of_files(tmp_path, ready):
    """A build reads this column last, when it compares the published table with its own."""
    recipe = ready.load()
    (path,) = (tmp_path / "out/small/published").glob("files-*.parquet")
    before, content = path.stat(), path.read_bytes()
    group = pq.read_metadata(path).row_group(0)
    (column,) = [
        group.column(i) for i in range(group.num_columns) if group.column(i).path_in_schema == "footer_sha256"
    ]
    start = column.dictionary_page_offset or column.data_page_offset
    flip(path, 8 * (start + column.total_compressed_size // 2))
    tables.FOOTERS.clear()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.read_bytes() != content
    build_here(recipe)
    assert pq.read_table(path).drop_columns("checked_at") == pq.read_table(
        pa.BufferReader(content)
    ).drop_columns("checked_at")


def test_error_of_a_damaged_register_names_the_remedy(tmp_path, ready):
    corpus = ready
    recipe = corpus.load()
    change(tmp_path / "out/small/work/register/000000.json")
    with pytest.raises(Denied, match=r"register/000000\.json is .*restore it from a copy, or delete"):
        build_here(recipe)


def test_storage_that_damages_rebuilt_files_ends_the_build(tmp_path, monkeypatch):
    recipe = Corpus(tmp_path).load()

    def damaged(folder, artifact, stream):
        raise tables.as_damaged(folder, artifact, "bad")

    monkeypatch.setattr(tables, "footer_in", damaged)
    with pytest.raises(Denied, match="again after it was rebuilt: check the storage"):
        build_here(recipe)


PUBLISHED = {"a document file": "best/*.parquet", "the card": "README.md", "the manifest": "manifest.json",
             "the removed": "removed/*/*.parquet", "the list of sources": "sources.parquet",
             "the table of files": "files-*.parquet"}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_published_file_is_restored_by_the_next_build(tmp_path, damage, ready):
    recipe = ready.load()
    undisturbed = contents(recipe)
    assert ledger_if_complete(recipe) is not None
    for kind, pattern in PUBLISHED.items():
        path = sorted((tmp_path / "out/small/published").glob(pattern))[0]
        DAMAGES[damage](path)
        assert ledger_if_complete(recipe) is None, kind
        build_here(recipe)
        assert contents(recipe) == undisturbed, kind
        assert ledger_if_complete(recipe) is not None, kind


def test_files_with_new_modification_times_are_read_only_by_builds(tmp_path, monkeypatch, ready):
    recipe = ready.load()
    undisturbed = contents(recipe)
    recipe.folder.delete("work/published.json")
    for path in (tmp_path / "out/small/published").rglob("*.parquet"):
        path.touch()
    read_paths = []
    digest_of = Folder.digest_of
    monkeypatch.setattr(
        Folder, "digest_of", lambda folder, path: read_paths.append(path) or digest_of(folder, path)
    )
    assert ledger_if_complete(recipe) is None
    assert not read_paths  # the check must be cheap: it may run on a laptop
    build_here(recipe)
    assert {path for path in read_paths if path.startswith("published/")} >= {
        f"published/{path}" for path in undisturbed if path not in {"manifest.json", "files.parquet"}
    }
    assert contents(recipe) == undisturbed
    read_paths.clear()
    assert ledger_if_complete(recipe) is not None
    assert not read_paths


def test_published_corpus_lists_its_software_tokenizer_and_sources(built):
    folder = built.folder.folder("published")
    manifest = json.loads(folder.read("manifest.json"))
    card = folder.read("README.md").decode()
    assert manifest["software"].startswith("zyda-flows ")
    assert manifest["tokenizer"]["name"].endswith("demo-tokenizer.json")
    assert manifest["tokenizer"]["digest"] in card
    assert [entry["source"] for entry in manifest["made_of"]] == ["best", "middle", "worst"]
    assert manifest["recipe"]["sources"][1]["keep"] == "name <> 'middle_alone'"
    with folder.open("sources.parquet") as file:
        files = pq.read_table(file).to_pylist()
    assert {entry["file"] for entry in files} >= {"best-0.parquet", "middle.jsonl.gz"}
    assert all(entry["version"] for entry in files)
