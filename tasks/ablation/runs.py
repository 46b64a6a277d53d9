"""The runs of an experiment: each trains a model on a variant, measures it, and writes its record."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.ablation.documents import token_ids
from zyda_flows.tasks.ablation.experiment import ACCURACY, GOLD, HELD_OUT
from zyda_flows.tasks.ablation.ordering import ordered, with_noise
from zyda_flows.tasks.ablation.preparation import REMOVED, SOURCE
from zyda_flows.tasks.ablation.prepared import Prepared, PreparedPart
from zyda_flows.tasks.ablation.progress import SECONDS, RunProgress, remove_progress, write_progress
from zyda_flows.tasks.ablation.questions import scores
from zyda_flows.tasks.ablation.records import (
    RunInput,
    RunRecord,
    curve_of,
    key_of,
    read_run,
    write_run,
)
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import read_table, write_table
from zyda_flows.tasks.tokens.engine import TokenIds

if TYPE_CHECKING:
    from zyda_flows.tasks.ablation.training import TrainingSettings

CHECKPOINTS = "checkpoints"
MEASURED = pa.schema([("measure", pa.string()), ("n_bytes", pa.uint32()), ("nats", pa.float64())])


@dataclass(frozen=True)
class Run:
    """A run of a variant.

    prepared: the experiment with this variant alone. size: the number of the model's size. base: the folder of the
    base model.
    """

    folder: Folder
    prepared: Prepared
    variant: str
    size: int
    input: RunInput
    settings: "TrainingSettings"
    base: str | None = None

    @property
    def parts(self) -> tuple[PreparedPart, ...]:
        return self.prepared.variants[0].parts

    @property
    def key(self) -> str:
        return key_of(self.input, [part.content for part in self.parts])

    def __call__(self) -> RunRecord:
        """Return the record of the run, which is trained unless its record is stored."""
        if (stored := read_run(self.folder, self.key)) is not None:
            return stored
        from zyda_flows.tasks.ablation.training import (  # late: torch
            CHECKPOINT_SECONDS,
            Checkpoint,
            TokenStream,
            train,
        )

        began = time.monotonic()
        model = self.new_model()
        documents, order = self.documents_in_order()
        checkpoint = Checkpoint(self.folder, f"{CHECKPOINTS}/{self.key}.safetensors", CHECKPOINT_SECONDS)
        losses = list[float]()
        written = began

        def progress(step: int, loss: float) -> None:
            nonlocal written
            losses.append(loss)
            if time.monotonic() - written > SECONDS:
                written = time.monotonic()
                offset = step - len(losses)
                curve = tuple((end + offset, mean) for end, mean in curve_of(np.array(losses)))
                write_progress(self.folder, self.key, RunProgress(step=step, curve=curve))

        curve = train(
            model, TokenStream(documents, order), self.settings, checkpoint, progress, self.input.seed
        )
        record = self.record(model, curve, began)
        write_run(self.folder, record)
        remove_progress(self.folder, self.key)
        return record

    def new_model(self) -> Any:
        from zyda_flows.tasks.ablation.model import Shape, base_model, new_model  # late: torch

        if self.base is not None:
            return base_model(Path(self.base))
        shape = Shape(int(self.input.model["vocabulary"]), int(self.input.model["width"]))
        return new_model(shape, self.settings.sequence, self.input.seed)

    def documents_in_order(self) -> tuple[TokenIds, NDArray[np.int64]]:
        """Return the documents of the run, and their order, in which documents may repeat."""
        parts = [
            (read_table(self.folder, part.table)[: part.documents], part.content.tokens, part.content.share)
            for part in self.parts
        ]
        documents, order = ordered(parts, self.settings.tokens, self.input.seed, self.input.replayed)
        return (with_noise(documents, self.input.noise) if self.input.noise else documents), order

    def record(self, model: Any, losses: NDArray[np.float64], began: float) -> RunRecord:
        """Measure a trained model, and return the record of the run."""
        import torch  # late

        from zyda_flows.tasks.ablation.training import device_of_machine

        device = device_of_machine()
        return RunRecord(
            variant=self.variant,
            input=self.input,
            parts=tuple(part.content for part in self.parts),
            curve=curve_of(losses),
            measures=measures_of(model, self.folder, self.prepared, self.settings.sequence, self.key),
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            tokens=self.settings.steps * self.settings.batch * self.settings.sequence,
            device=torch.cuda.get_device_name() if device == "cuda" else "CPU, one core",
            torch=torch.__version__,
            seconds=time.monotonic() - began,
            finished=datetime.now(UTC).isoformat(timespec="seconds"),
        )


def documents_path(key: str) -> str:
    """Return the path of the measured documents of a run: MEASURED."""
    return f"measured/{key}.parquet"


def measures_of(model: Any, folder: Folder, prepared: Prepared, sequence: int, key: str) -> dict[str, float]:
    """Return the measures of a model by name: bits per byte of texts, and the scores of evaluation sets.

    With removed documents, the nats of each document are written, too.
    """
    from zyda_flows.tasks.ablation.measures import (
        bits_per_byte,
        continuation_nats,
        document_nats,
    )  # late: torch

    found, documents = dict[str, float](), list[pa.Table]()
    for name, artifact in prepared.texts.items():
        table = read_table(folder, artifact)
        nats = document_nats(model, token_ids(table), sequence)
        found[name] = bits_per_byte(nats, table.column("n_bytes").to_numpy())
        columns = [pa.array([name] * len(table)), table.column("n_bytes"), pa.array(nats)]
        documents.append(pa.table(columns, schema=MEASURED))
    if any(name.startswith(REMOVED) for name in prepared.texts):
        write_table(folder, documents_path(key), key, pa.concat_tables(documents))
    found[HELD_OUT] = mean_of(found, SOURCE)
    for name, artifact in prepared.questions.items():
        options = read_table(folder, artifact)
        pairs = zip(
            options.column("context").to_pylist(), options.column("continuation").to_pylist(), strict=True
        )
        values = scores(options, continuation_nats(model, [*pairs], sequence))
        found |= {f"{measure}:{name}": value for measure, value in values.items()}
    if prepared.questions:
        found |= {name: mean_of(found, f"{name}:") for name in (GOLD, ACCURACY)}
    return found


def mean_of(measures: dict[str, float], start: str) -> float:
    return float(np.mean([value for name, value in measures.items() if name.startswith(start)]))
