"""The measures of a trained judge as a record beside its model; the report draws the curves from it."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import FiniteFloat, ValidationError

from zyda_flows.tasks.quality.training.measures import Range, Result
from zyda_flows.tasks.storage.records import Record

MEASURES = "measures.json"
MOST_BYTES = 1 << 22


class Repeats(Record):
    """The mean of a measure in all repeats, and the range in which a further repeat is expected."""

    mean: FiniteFloat
    low: FiniteFloat
    high: FiniteFloat

    @classmethod
    def of(cls, values: Range) -> "Repeats | None":
        """Return the range of several repeats, None for a single one."""
        mean, low, high = values
        return None if high == float("inf") else cls(mean=mean, low=low, high=high)


class CurveBin(Record):
    """Documents with similar answers: their number, their mean answer, and the mean of the target."""

    documents: int
    answer: FiniteFloat
    score: FiniteFloat


class MeasuredResult(Record):
    """The comparison of an answer with a target, or with a label of it, on held-out documents."""

    answer: str
    target: str
    spearman: FiniteFloat
    auc: FiniteFloat
    spearman_repeats: Repeats | None
    auc_repeats: Repeats | None
    curve: tuple[CurveBin, ...]

    @classmethod
    def of(cls, result: Result) -> "MeasuredResult":
        model = result.model
        return cls(
            answer=model.answer,
            target=" = ".join(filter(None, (model.target, model.label))),
            spearman=model.spearman,
            auc=model.auc,
            spearman_repeats=Repeats.of(result.spearman),
            auc_repeats=Repeats.of(result.auc),
            curve=tuple(CurveBin(**part._asdict()) for part in model.curve),
        )


class Measures(Record):
    """The file MEASURES. digest: of the model. trained, held_out: documents. targets: the names of the targets."""

    digest: str
    form: str
    targets: tuple[str, ...]
    trained: int
    held_out: int
    repeats: int
    results: tuple[MeasuredResult, ...]


def write_measures(
    folder: Path,
    digest: str,
    form: str,
    targets: Sequence[str],
    results: Sequence[Result],
    sizes: tuple[int, int],
    repeats: int,
) -> None:
    """Write MEASURES into the folder of a model. sizes: the number of trained and of held-out documents."""
    trained, held_out = sizes
    measures = Measures(
        digest=digest,
        form=form,
        targets=tuple(targets),
        trained=trained,
        held_out=held_out,
        repeats=repeats,
        results=tuple(map(MeasuredResult.of, results)),
    )
    (folder / MEASURES).write_text(measures.model_dump_json(indent=1) + "\n", encoding="utf-8")


def measures_of(model: str, digest: str) -> Measures | None:
    """Read the measures beside a local model; None if there are none, or if they are of another model."""
    with suppress(OSError, RuntimeError, ValidationError):
        path = Path(model).expanduser()
        file = (path if path.is_dir() else path.parent) / MEASURES
        if file.stat().st_size <= MOST_BYTES:
            measures = Measures.model_validate_json(file.read_bytes())
            return measures if measures.digest == digest else None
    return None
