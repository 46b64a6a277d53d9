"""Candidates: the pairs of documents in a range of a band whose keys are similar, by the group of the first."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pyarrow as pa

from zyda_flows.tasks.dedup.exchange import Files, PartJob
from zyda_flows.tasks.dedup.part_tables import PART, distinct_pairs, table_of, write_numbers
from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.semantic.groups import group_of
from zyda_flows.tasks.semantic.vectors import STAGE, VERSION
from zyda_flows.tasks.signatures.bands import KeyRange, read_range
from zyda_flows.tasks.stage.jobs import RecordJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.storage.artifacts import Artifact, artifact_path
from zyda_flows.tasks.storage.records import Record
from zyda_flows.textkernels.sign_pairs import similar_pairs

CANDIDATES = pa.schema([PART, ("a", pa.uint64()), ("b", pa.uint64())])  # a < b
MOST_OF_BUCKET, MOST_PARTNERS = 1 << 15, 64  # documents; pairs of a document in a bucket


class CandidateFile(Record):
    """The candidates of a range. rows: of band keys. uncompared, left_out: pairs, as of `SimilarPairs`."""

    artifact: Artifact
    rows: int
    uncompared: int
    left_out: int


@dataclass(frozen=True, kw_only=True)
class CandidatesOfRange(PartJob[CandidateFile], RecordJob[CandidateFile]):
    """The candidates in a range of a band. part: the number of the range. starts: of the groups.

    first_reference: the first id of other corpora, if their documents are compared with those of this corpus.
    """

    stage, version, kind = STAGE, VERSION, CandidateFile

    keys: Files
    band: int
    range: KeyRange
    bits: int
    most_different: int
    starts: Ids
    first_reference: int | None
    part: Annotated[int, NotInKey("the range is in the key")]

    @property
    def name(self) -> str:
        return f"candidates-{self.band:03d}-{self.part:05d}"

    @property
    def also_in_key(self) -> list[int]:
        return [MOST_OF_BUCKET, MOST_PARTNERS]

    def make(self) -> CandidateFile:
        keys, doc_ids = read_range(self.folder, self.keys.artifacts, self.band, self.range)
        keys = keys.reshape(-1, 2)
        order = np.lexsort((doc_ids, keys[:, 0]))
        keys, doc_ids = keys[order], doc_ids[order]
        pairs = similar_pairs(
            np.ascontiguousarray(keys[:, 0]),
            np.ascontiguousarray(keys[:, 1]),
            bits=self.bits,
            most_different=self.most_different,
            most_of_bucket=MOST_OF_BUCKET,
            most_partners=MOST_PARTNERS,
            sides=None if self.first_reference is None else doc_ids >= np.uint64(self.first_reference),
        )
        first, second = doc_ids[pairs.first], doc_ids[pairs.second]
        a, b = distinct_pairs(np.minimum(first, second), np.maximum(first, second))
        rows = table_of(CANDIDATES, group_of(self.starts, a), a, b)
        path = artifact_path(self.stage, None, self.name, self.key)
        artifact = write_numbers(self.folder, path, self.name, rows, self.shift)
        return self.recorded(
            CandidateFile(
                artifact=artifact, rows=len(keys), uncompared=pairs.uncompared, left_out=pairs.left_out
            )
        )
