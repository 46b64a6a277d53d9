"""The result of an experiment: a verdict for each variant, the controls, and the cost."""

from collections.abc import Callable, Mapping, Sequence

from zyda_flows.tasks.ablation.decision import VariantComparison, agreed_claims, compare
from zyda_flows.tasks.ablation.experiment import Experiment
from zyda_flows.tasks.ablation.planned_runs import DEGRADED, EQUAL
from zyda_flows.tasks.ablation.prepared import Prepared, PreparedVariant
from zyda_flows.tasks.ablation.protocol import Protocol
from zyda_flows.tasks.ablation.records import RunRecord, Trainings, values_by_name
from zyda_flows.tasks.ablation.runs import Run
from zyda_flows.tasks.storage.records import Record

RESULT = "result.json"
BITS = "bits per byte"
SUMMARIES = ("held_out", "gold", "accuracy")


class PartSummary(Record):
    """A part of a variant: its different tokens in a run, its share, and how often the run reads them.

    samples: with different documents, a repeat reads a single sample.
    """

    name: str
    documents: int
    tokens: int
    share: float
    epochs: float
    samples: int


class Series(Record):
    """The runs of a variant with a size of the model."""

    variant: str
    size: int
    parameters: int
    curves: tuple[tuple[tuple[int, float], ...], ...]
    means: dict[str, float]


class AblationResult(Record):
    """The result of an experiment.

    comparisons: of the variants, by the decisive measure. others: by all other measures, without claims. tasks:
    claims about single measures that both sizes support.
    """

    name: str
    protocol: str
    measure: str
    alpha: float
    comparisons: tuple[VariantComparison, ...]
    equal: VariantComparison | None
    degraded: VariantComparison | None
    others: tuple[VariantComparison, ...]
    tasks: tuple[VariantComparison, ...]
    series: tuple[Series, ...]
    parts: dict[str, tuple[PartSummary, ...]]
    held_out: dict[str, int]
    excluded: int
    trainings: Trainings

    @property
    def baseline(self) -> str:
        return next(iter(self.parts))

    @property
    def sizes(self) -> list[int]:
        return sorted({series.size for series in self.series})

    @property
    def is_withdrawn(self) -> bool:
        """Whether claims are withdrawn, because a difference would be claimed between equal variants."""
        return self.equal is not None and self.equal.is_claimed


def result_of(
    experiment: Experiment,
    prepared: Prepared,
    protocol: Protocol,
    records: Mapping[str, RunRecord],
    runs: Sequence[Run],
) -> AblationResult:
    """Compare the runs of an experiment. records: by the keys of runs."""
    groups = dict[tuple[int, str], list[RunRecord]]()
    for run in runs:
        groups.setdefault((run.size, run.variant), []).append(records[run.key])
    values = {group: values_by_name(found) for group, found in groups.items()}
    first = prepared.variants[0].name
    names = [variant.name for variant in prepared.variants[1:]]
    measure, alpha = experiment.measure, experiment.alpha

    def compared(
        name: str, variants: Sequence[str], size: int = 0, alpha: float = alpha
    ) -> list[VariantComparison]:
        known = {variant: values[size, variant][name] for variant in variants if (size, variant) in values}
        return compare(name, values[size, first][name], known, alpha) if known else []

    equal, degraded = (next(iter(compared(measure, [control])), None) for control in (EQUAL, DEGRADED))
    is_withdrawn = equal is not None and equal.is_claimed
    measures = [name for name in values[0, first] if name != measure and not name.startswith("accuracy_sum")]
    others = [each for name in measures for each in compared(name, names)]
    tasks = [name for name in measures if name not in SUMMARIES]
    sizes = [corrected(compared, tasks, names, size, alpha) for size in sorted({run.size for run in runs})]
    all_records = [record for found in groups.values() for record in found]
    return AblationResult(
        name=experiment.name,
        protocol=protocol.digest,
        measure=measure,
        alpha=alpha,
        comparisons=tuple(
            without_claims(compared(measure, names)) if is_withdrawn else compared(measure, names)
        ),
        equal=equal,
        degraded=degraded,
        others=tuple(without_claims(others)),
        tasks=() if is_withdrawn else tuple(agreed_claims(sizes)),
        series=tuple(series_of(variant, size, found) for (size, variant), found in groups.items()),
        parts={variant.name: summaries(variant) for variant in prepared.variants},
        held_out=prepared.documents,
        excluded=prepared.excluded,
        trainings=Trainings.of(all_records),
    )


def corrected(
    compared: Callable[[str, Sequence[str], int, float], list[VariantComparison]],
    tasks: Sequence[str],
    names: Sequence[str],
    size: int,
    alpha: float,
) -> list[VariantComparison]:
    """Return the comparisons of all tasks and variants at a size, with Bonferroni's correction over the tasks."""
    return [each for name in tasks for each in compared(name, names, size, alpha / len(tasks))]


def without_claims(comparisons: Sequence[VariantComparison]) -> list[VariantComparison]:
    return [each.model_copy(update={"is_claimed": False}) for each in comparisons]


def series_of(variant: str, size: int, records: Sequence[RunRecord]) -> Series:
    means = {name: sum(values) / len(values) for name, values in values_by_name(records).items()}
    return Series(
        variant=variant, size=size, parameters=records[0].parameters,
        curves=tuple(record.curve for record in records), means=means,
    )  # fmt: skip


def summaries(variant: PreparedVariant) -> tuple[PartSummary, ...]:
    return tuple(
        PartSummary(
            name=part.content.name, documents=part.documents, tokens=part.content.tokens,
            share=part.content.share, epochs=part.content.epochs, samples=samples,
        )
        for part, samples in zip(variant.parts, variant.different, strict=True)
    )  # fmt: skip


def unit_of(measure: str) -> str:
    return "points of accuracy" if measure.startswith("accuracy") else BITS


def figure(measure: str, value: float) -> str:
    """Return a value of a measure: accuracy in percentage points, others in bits per byte."""
    return f"{100 * value:.1f}" if measure.startswith("accuracy") else f"{value:.4f}"


def amount(measure: str, value: float) -> str:
    """Return a value of a measure with its unit."""
    return f"{figure(measure, value)} {unit_of(measure)}"


def sentence(comparison: VariantComparison, baseline: str) -> str:
    """Return a verdict as a sentence."""
    measure = comparison.measure
    if not comparison.is_claimed:
        seen = f"4 of 5 such experiments would see a difference of {amount(measure, comparison.smallest)}"
        return f"{comparison.variant} and {baseline}: no difference seen; {seen}"
    kind = "better" if comparison.is_better else "worse"
    bounds = sorted((abs(comparison.low), abs(comparison.high)))
    low, high = (figure(measure, bound) for bound in bounds)
    size = amount(measure, abs(comparison.difference))
    return f"{comparison.variant} is {kind} than {baseline} by {size} (interval {low} to {high})"


def control_sentences(result: AblationResult) -> list[str]:
    """Return a sentence for each control."""
    lines = list[str]()
    if (equal := result.equal) is not None:
        lines.append(
            "Equal control: failed. A difference would be claimed between runs of the same variant, so no claim of "
            "this experiment holds."
            if equal.is_claimed
            else f"Equal control: passed. Between runs of the same variant, a difference of "
            f"{amount(result.measure, equal.difference)} is not claimed."
        )
    if (degraded := result.degraded) is not None:
        is_seen = degraded.is_claimed and not degraded.is_better
        lines.append(
            f"Degraded control: passed. It is worse by {amount(result.measure, abs(degraded.difference))}."
            if is_seen
            else "Degraded control: failed. This size of the experiment cannot see even a degraded corpus: train "
            "for more tokens, or with more repeats."
        )
    return lines
