"""Test that a manifest holds at most 500 bytes of memory for each of its artifacts."""

import gc
import tracemalloc
from hashlib import sha256

import pytest

from zyda_flows.tasks.stage.verdicts import load_histories, trail_of
from zyda_flows.tasks.storage.artifacts import Artifact, Manifest, artifact_path, artifacts_in, load_manifest
from zyda_flows.tasks.storage.counts import Counts
from zyda_flows.tasks.storage.finished import finish_stage
from zyda_flows.tasks.storage.folder import Folder

SMALL, LARGE = 1000, 4000
MOST_BYTES = 500


def artifact_of_shard(number, stage="ingest"):
    digest = sha256(f"{stage} {number}".encode()).hexdigest()
    counts = Counts(documents=100_000 + number, tokens=10**8 + number, bytes=4 * 10**8 + number)
    return Artifact.made(
        name=f"{number:06d}-000-000", rows=100_000 + number, size=200_000_000 + number, footer=3000, digest=digest,
        path=artifact_path(stage, "fineweb-edu-score-2", f"{number:06d}-000-000", digest[:20]),
        footer_digest=digest[::-1], counts=counts, removed=counts,
        removed_by={f"reason {i} = {number}": counts for i in range(30)},
    )  # fmt: skip


def receipt_of_stage(folder, stage, shards):
    artifacts = tuple(artifact_of_shard(i, stage).without_reasons for i in range(shards))
    facts = {"set_aside": [artifact.line for artifact in artifacts[:2]]}
    manifest = Manifest(stage=stage, source="fineweb-edu-score-2", artifacts=artifacts, facts=facts)
    return finish_stage(folder, manifest, "0" * 20)


def held(load):
    """Return the bytes that a result holds, and the result."""
    gc.collect()
    tracemalloc.start()
    try:
        result = load()
        gc.collect()
        return tracemalloc.get_traced_memory()[0], result
    finally:
        tracemalloc.stop()


def test_line_of_an_artifact_has_all_its_fields():
    made = artifact_of_shard(7)
    digest = sha256(b"ingest 7").hexdigest()
    assert (made.name, made.rows, made.size, made.footer) == ("000007-000-000", 100_007, 200_000_007, 3000)
    assert made.path == f"work/ingest/fineweb-edu-score-2/000007-000-000-{digest[:20]}.parquet"
    assert (made.digest, made.footer_digest) == (digest, digest[::-1])
    assert made.counts == made.removed == Counts(documents=100_007, tokens=100_000_007, bytes=400_000_007)
    assert made.removed_by == {f"reason {i} = 7": made.counts for i in range(30)}
    moved = made.at("published/a b=c/7.parquet")
    assert (moved.path, moved.digest, moved.removed_by) == (
        "published/a b=c/7.parquet", made.digest, made.removed_by,
    )  # fmt: skip
    assert moved.without_reasons.removed_by == {}
    assert [*artifacts_in({"facts": [{"set_aside": [made.line, "other"]}], "artifacts": (moved,)})] == [
        made,
        moved,
    ]


@pytest.mark.parametrize("line", ["", "a b", "a b " + "0" * 64 + " 1 2 3", 7, None])
def test_invalid_line_is_not_an_artifact(line):
    with pytest.raises(ValueError, match="artifacts"):
        Manifest.model_validate({"stage": "ingest", "artifacts": [line]})


def test_memory_of_a_manifest_is_at_most_500_bytes_for_each_shard(tmp_path):
    bytes_held = {}
    for shards in (SMALL, LARGE):
        folder = Folder(str(tmp_path / str(shards)))
        receipt = receipt_of_stage(folder, "ingest", shards)
        bytes_held[shards], manifest = held(lambda: load_manifest(folder, receipt))  # noqa: B023
        assert manifest.artifacts[-1] == artifact_of_shard(shards - 1).without_reasons
    assert (bytes_held[LARGE] - bytes_held[SMALL]) / (LARGE - SMALL) <= MOST_BYTES


def test_memory_of_histories_is_at_most_500_bytes_for_each_shard_and_stage(tmp_path):
    stages, bytes_held = ("ingest", "removals", "filter"), {}
    for shards in (SMALL, LARGE):
        folder = Folder(str(tmp_path / str(shards)))
        trail = trail_of([receipt_of_stage(folder, stage, shards) for stage in stages])
        bytes_held[shards], histories = held(lambda: load_histories(folder, trail))  # noqa: B023
        assert len(histories) == shards
    assert (bytes_held[LARGE] - bytes_held[SMALL]) / (LARGE - SMALL) <= MOST_BYTES * len(stages)
