"""Index: the sorted band keys of the published documents, in which keys are looked up without reading the rest.

They are published as `bands/`, of a second round as `bands2/` and so on. With them others deduplicate against a
corpus without its text, and `zyda find` looks a text up. Rows out, in a file for each range of each band: as of
`tasks.signatures.bands`, in small row groups, so that reading a key costs little.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from zyda_flows.tasks.accounts.published import PublishedKeys
from zyda_flows.tasks.errors import NotConserved
from zyda_flows.tasks.recipe.rounds import Round
from zyda_flows.tasks.signatures.bands import (
    KeyRange,
    key_ranges,
    read_range,
    rows_schema,
    write_band_rows,
)
from zyda_flows.tasks.signatures.costs import index_cost
from zyda_flows.tasks.signatures.keys import index_parameters
from zyda_flows.tasks.signatures.minhash import keys_of_source
from zyda_flows.tasks.sources.input_files import NumberedSource
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdicts import Trail, load_histories
from zyda_flows.tasks.storage.artifacts import Artifact, Manifest, stage_key
from zyda_flows.tasks.storage.tables import write_artifact

VERSION = 1
GROUP_ROWS = 1 << 12  # 64 KiB of keys and ids


@dataclass(frozen=True)
class IndexedRange(ArtifactJob):
    """The keys of a range of a band, of all sources, with their documents, sorted by both.

    artifacts: files of band keys, in the order of the sources' numbers. artifacts_digest: a hash of them.
    """

    stage, version = "index", VERSION

    artifacts: Annotated[tuple[Artifact, ...], NotInKey("`artifacts_digest` is a hash of them")]
    artifacts_digest: str
    band: int
    keys: KeyRange
    number: int
    is_wide: bool

    @property
    def name(self) -> str:
        return f"{self.band:03d}-{self.number:05d}"

    @property
    def also_in_key(self) -> int:
        return GROUP_ROWS

    def make(self) -> Artifact:
        keys, doc_ids = read_range(self.folder, self.artifacts, self.band, self.keys)

        def fill(scratch: Path) -> None:
            parts = [(self.band, keys, doc_ids)] if len(keys) else []
            write_band_rows(scratch, parts, rows_schema(is_wide=self.is_wide), GROUP_ROWS)

        return write_artifact(self.folder, self.path, self.name, fill)


def key(dedup_round: Round, trails: list[Trail], sources: Sequence[NumberedSource]) -> str:
    identities = [identity for trail in trails for identity in trail.identities]
    return stage_key("index", VERSION, [index_parameters(dedup_round.dedup), GROUP_ROWS], *identities)


def has_published_bands(dedup_round: Round, _: str) -> bool:
    return dedup_round.recipe.publish_bands and dedup_round.dedup.has_keys


@stage(
    "index",
    key,
    scope="corpus",
    inputs=("trails", "sources"),
    enabled=has_published_bands,
    published_as="bands",
    cost=index_cost,
)
def index(dedup_round: Round, trails: list[Trail], sources: Sequence[NumberedSource]) -> Manifest:
    """Sort the band keys of the remaining documents of all sources. Raises NotConserved if rows are lost."""
    folder, dedup = dedup_round.folder, dedup_round.dedup
    numbers = {source.source: source.number for source in sources}
    in_order = sorted(trails, key=lambda trail: numbers[trail.source])
    source_keys = [
        keys_of_source(dedup_round, trail.source, load_histories(folder, trail), "keys left")
        for trail in in_order
    ]
    merged = tuple(file for keys in source_keys for file in keys.files)
    artifacts_digest = stage_key("index", VERSION, None, *(artifact.digest for artifact in merged))
    rows = sum(artifact.rows for artifact in merged)
    ranges = [
        IndexedRange(
            folder=folder,
            source=None,
            artifacts=merged,
            artifacts_digest=artifacts_digest,
            band=band,
            keys=keys,
            number=number,
            is_wide=dedup.is_wide,
        )
        for band in range(dedup.key_bands)
        for number, keys in enumerate(key_ranges(rows // dedup.key_bands))
    ]
    files = fan_out(ArtifactJob.__call__, ranges, stage=dedup_round.name_of("index"), source=None)
    if (written := sum(file.rows for file in files)) != rows:
        raise NotConserved(f"index: {rows:,} rows of band keys were read, but {written:,} written")
    return Manifest(
        stage="index",
        artifacts=tuple(files),
        intermediate=(
            *(path for keys in source_keys for path in keys.intermediate),
            *(file.path for file in merged),
        ),
        facts=PublishedKeys(
            parameters=index_parameters(dedup), documents=rows // dedup.key_bands
        ).model_dump(),
    )
