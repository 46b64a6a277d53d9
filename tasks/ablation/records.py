"""Records of runs: a run is named by the content of its input, so that it is reused while that content holds."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.ablation.documents import histogram
from zyda_flows.tasks.errors import Damaged, Denied
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record, digest_of, read_record, write_record

VERSION = 2
RUNS = "runs"
HELD_OUT_RECORD = "held-out.json"
CALLED = {
    "held_out": "held-out set, file of texts or evaluation set",
    "definition": "definition of the variant",
}
HALVES = 9  # random halves of a sample that are compared
CURVE_POINTS = 200
SHARE, EPOCHS = 0.01, 0.05  # by which the share and, relatively, the epochs of a part may differ


class PartContent(Record):
    """The documents of a part of a run.

    digest: of the hashes of the documents. tokens: of them. share: of the tokens of the run. values: the judge of
    the vectors whose cells are counted, and its digest; "" for MinHash values. cells: the number of values in each
    of 1,000 cells. halves: the Hellinger distance between the cells of two random halves.
    """

    name: str
    digest: str
    documents: int
    tokens: int
    share: float
    epochs: float
    values: str
    cells: tuple[int, ...]
    halves: float

    @classmethod
    def of(
        cls, name: str, documents: pa.Table, share: float, epochs: float, values: str = ""
    ) -> "PartContent":
        """Describe DRAWN documents."""
        hashes = documents.column("hash").to_numpy()
        cells = histogram(documents)
        return cls(
            name=name, digest=digest_of([f"{each:x}" for each in hashes.tolist()]), documents=len(documents),
            tokens=int(documents.column("n_tokens").to_numpy().sum()), share=share, epochs=epochs, values=values,
            cells=tuple(cells.tolist()), halves=distance_of_halves(documents),
        )  # fmt: skip


class RunInput(Record):
    """Everything that determines the result of a run, except for the documents of its parts.

    tokenizer: a digest. held_out: of all measured documents and questions. definition: of the variant. model: the
    shape, or the base and its digest. noise: the share of tokens that are replaced. replayed: the share of
    documents that are replaced by copies of the others.
    """

    version: int = VERSION
    tokenizer: str
    held_out: str
    definition: str
    model: dict[str, str | int]
    settings: dict[str, str | int | float]
    protocol: str
    seed: int
    noise: float = 0.0
    replayed: float = 0.0


class RunRecord(Record):
    """A finished run.

    curve: steps with the mean loss since the point before, nats per token. measures: by name. parameters: of the
    model. device, torch, seconds: of the training and the measures.
    """

    variant: str
    input: RunInput
    parts: tuple[PartContent, ...]
    curve: tuple[tuple[int, float], ...]
    measures: dict[str, float]
    parameters: int
    tokens: int
    device: str
    torch: str
    seconds: float
    finished: str

    @property
    def key(self) -> str:
        return key_of(self.input, self.parts)


class Trainings(Record):
    """The trainings of a result. tokens, seconds: of all runs together."""

    runs: int
    tokens: int
    seconds: float
    parameters: tuple[int, ...]
    seeds: tuple[int, ...]
    devices: tuple[str, ...]
    torch: tuple[str, ...]

    @classmethod
    def of(cls, records: Sequence[RunRecord]) -> "Trainings":
        return cls(
            runs=len(records),
            tokens=sum(record.tokens for record in records),
            seconds=sum(record.seconds for record in records),
            parameters=tuple(sorted({record.parameters for record in records})),
            seeds=tuple(sorted({record.input.seed for record in records})),
            devices=tuple(sorted({record.device for record in records})),
            torch=tuple(sorted({record.torch for record in records})),
        )


def key_of(run: RunInput, parts: Sequence[PartContent]) -> str:
    """Return the key of a run: 20 hexadecimal digits."""
    contents = [[part.name, part.digest, part.share, part.epochs] for part in parts]
    return digest_of([run.model_dump(), contents])


def write_run(folder: Folder, record: RunRecord) -> None:
    write_record(folder, f"{RUNS}/{record.key}.json", record)


def read_run(folder: Folder, key: str) -> RunRecord | None:
    """Read the record of a run, or return None if the run is not finished. Raises Damaged."""
    return read_record(folder, f"{RUNS}/{key}.json", RunRecord)


def read_runs(folder: Folder) -> list[RunRecord]:
    """Read all records of an experiment. Raises Denied for a damaged record."""
    paths = [path for path in folder.files(RUNS) if path.endswith(".json")]
    try:
        records = [read_record(folder, path, RunRecord) for path in paths]
    except Damaged as error:
        raise Denied(f"{error}; delete the file to train this run again") from error
    return [record for record in records if record is not None]


def reason_not_held(record: RunRecord, run: RunInput, parts: Sequence[PartContent]) -> str:
    """Return why a record is not the result of a run with the present documents; "" if it is.

    A part may differ from the recorded part by no more than two random halves of either differ.
    """
    own, present = record.input, run
    for name in (
        "tokenizer",
        "held_out",
        "definition",
        "model",
        "settings",
        "noise",
        "replayed",
        "seed",
        "protocol",
        "version",
    ):
        if getattr(own, name) != getattr(present, name):
            return f"another {CALLED.get(name, name)}"
    before = {part.name: part for part in record.parts}
    if [*before] != [part.name for part in parts]:
        return "other parts"
    for part in parts:
        old = before[part.name]
        if abs(old.share - part.share) > SHARE or abs(old.epochs / part.epochs - 1) > EPOCHS:
            return f"part {part.name} has another share or number of epochs"
        if old.digest != part.digest and old.values != part.values:
            return f"part {part.name} has changed, and its vectors are of another judge"
        distance = hellinger(old.cells, part.cells) if old.digest != part.digest else 0.0
        limit = min(old.halves, part.halves)
        if distance > limit:
            return f"part {part.name} has changed: distance {distance:.3f}, of two halves {limit:.3f}"
    return ""


def hellinger(first: Sequence[int] | NDArray[np.int64], second: Sequence[int] | NDArray[np.int64]) -> float:
    """Return the Hellinger distance of two histograms, from 0 to 1."""
    shares = [np.asarray(each, float) / max(1, np.sum(each)) for each in (first, second)]
    return float(np.sqrt(max(0.0, 1 - np.sqrt(shares[0] * shares[1]).sum())))


def distance_of_halves(documents: pa.Table) -> float:
    """Return the median distance of the cells of two random halves of documents."""
    chance, distances = np.random.default_rng(0), list[float]()
    for _ in range(HALVES):
        is_first = chance.permutation(len(documents)) < len(documents) // 2
        first, second = (histogram(documents.filter(pa.array(side))) for side in (is_first, ~is_first))
        distances.append(hellinger(first, second))
    return float(np.median(distances))


def curve_of(losses: NDArray[np.float64]) -> tuple[tuple[int, float], ...]:
    """Return a curve of at most CURVE_POINTS points: the last step of each, and its mean loss."""
    pieces = np.array_split(losses, min(CURVE_POINTS, len(losses)))
    ends = np.cumsum([len(piece) for piece in pieces]).tolist()
    return tuple((end, float(piece.mean())) for end, piece in zip(ends, pieces, strict=True))


def values_by_name(records: Sequence[RunRecord]) -> Mapping[str, list[float]]:
    """Return the values of each measure in several runs: a value for each sample of documents.

    The values of runs that read the same documents are averaged, because they share the noise of the choice of
    documents. If all runs read the same documents, each run has a value.
    """
    samples = dict[tuple[str, ...], list[RunRecord]]()
    for record in records:
        samples.setdefault(tuple(part.digest for part in record.parts), []).append(record)
    groups = [*samples.values()] if len(samples) > 1 else [[record] for record in records]
    names = dict.fromkeys(name for record in records for name in record.measures)
    return {
        name: [
            float(np.mean([record.measures[name] for record in group]))
            for group in groups if all(name in record.measures for record in group)
        ]
        for name in names
    }  # fmt: skip
