"""The runs that an experiment needs, and the records that hold for them."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zyda_flows.tasks.ablation.experiment import Experiment
from zyda_flows.tasks.ablation.held_out import HeldOutSet
from zyda_flows.tasks.ablation.preparation import vocabulary_of
from zyda_flows.tasks.ablation.prepared import Prepared, PreparedVariant
from zyda_flows.tasks.ablation.records import RunInput, RunRecord, read_runs, reason_not_held
from zyda_flows.tasks.ablation.runs import Run
from zyda_flows.tasks.quality.encoders import digest_of_model
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.tokens.stored import load_tokenizer

if TYPE_CHECKING:
    from zyda_flows.tasks.ablation.training import TrainingSettings

EQUAL, DEGRADED = "equal control", "degraded control"
EQUAL_SEEDS = 1_000_000  # added to the seeds of the equal control
NOISE, REPLAYED = 0.2, 0.5


@dataclass(frozen=True)
class RunsOfSize:
    """Makes the runs of a size of the model. given: the input of the first repeat, without a variant."""

    folder: Folder
    prepared: Prepared
    size: int
    settings: "TrainingSettings"
    base: str | None
    given: RunInput

    def run(self, name: str, variant: PreparedVariant, sample: int, repeat: int, **changes: float) -> Run:
        """Return the run of a variant that reads a sample of its documents. changes: of the input."""
        alone = variant.model_copy(update={"samples": (variant.samples[sample % len(variant.samples)],)})
        # The experiment has this variant alone, because a run is sent to another process.
        prepared = self.prepared.model_copy(
            update={"variants": (alone,), "held_out_set": HeldOutSet(hashes={})}
        )
        own = {"definition": variant.definition, "seed": self.given.seed + repeat, **changes}
        given = self.given.model_copy(update=own)
        return Run(self.folder, prepared, name, self.size, given, self.settings, self.base)


def plan_runs(experiment: Experiment, prepared: Prepared, protocol: str) -> list[Run]:
    """Return the runs of all variants, and of controls, by size and repeat. Raises BadRequest for the model."""
    runs, first = list[Run](), prepared.variants[0]
    for size, (model, settings, base) in enumerate(models_of(experiment, prepared.vocabulary)):
        given = RunInput(
            tokenizer=prepared.tokenizer, held_out=prepared.held_out, definition="", model=model,
            settings=asdict(settings), protocol=protocol, seed=experiment.seed,
        )  # fmt: skip
        sized = RunsOfSize(experiment.folder, prepared, size, settings, base, given)
        for repeat in range(experiment.repeats):
            runs += [sized.run(variant.name, variant, repeat, repeat) for variant in prepared.variants]
            if size:  # the controls are of the first size, by which the decisive measure decides
                continue
            if experiment.controls.equal:
                sample = experiment.repeats + repeat
                runs.append(sized.run(EQUAL, first, sample, EQUAL_SEEDS + repeat))
            if experiment.controls.degraded is not None:
                is_noise = experiment.controls.degraded == "noise"
                change = {"noise": NOISE} if is_noise else {"replayed": REPLAYED}
                runs.append(sized.run(DEGRADED, first, repeat, repeat, **change))
    return runs


def models_of(
    experiment: Experiment, vocabulary: int
) -> Iterator[tuple[dict[str, str | int], "TrainingSettings", str | None]]:
    """Yield the model of each size, its training settings, and the folder of its base.

    Raises BadRequest for a model that cannot be loaded or made, and for two sizes with the same model.
    """
    from zyda_flows.tasks.ablation.model import base_folder, shape_of  # late: torch
    from zyda_flows.tasks.ablation.training import TrainingSettings

    def settings(rate: float) -> TrainingSettings:
        return TrainingSettings(
            experiment.sequence, experiment.batch, int(experiment.tokens), experiment.rate or rate,
            experiment.warmup, experiment.schedule,
        )  # fmt: skip

    if experiment.model.base is not None:
        tokenizer = load_tokenizer(experiment.tokenizer)
        folder = base_folder(experiment.model.base, experiment.model.revision, tokenizer)
        yield (
            {"base": Path(experiment.model.base).name, "digest": digest_of_model(folder)},
            settings(1e-4),
            str(folder),
        )
    shapes = [shape_of(parameters, vocabulary) for parameters in experiment.model.parameters or ()]
    if len(shapes) == 2 and shapes[0] == shapes[1]:
        raise experiment.fault(
            f"model: both sizes are the model of {shapes[0].parameters:,} parameters; they need different models",
            "model",
        )
    for shape in shapes:
        model: dict[str, str | int] = {
            "vocabulary": shape.vocabulary,
            "width": shape.width,
            "layers": shape.layers,
        }
        yield model, settings(3e-3 * (1e6 / shape.parameters) ** (1 / 3)), None


def expect_models(experiment: Experiment) -> None:
    """Raise BadRequest or BadRecipe for the models of an experiment."""
    for _ in models_of(experiment, vocabulary_of(load_tokenizer(experiment.tokenizer))):
        pass


def finished_runs(runs: list[Run]) -> dict[str, RunRecord]:
    """Return the records that hold for runs, by the key of the run: its own, or a record of similar documents."""
    stored = read_runs(runs[0].folder) if runs else []
    by_key = {record.key: record for record in stored}
    found = dict[str, RunRecord]()
    for run in runs:
        contents = [part.content for part in run.parts]
        similar = (
            record
            for record in stored
            if record.variant == run.variant and not reason_not_held(record, run.input, contents)
        )
        record = by_key.get(run.key) or next(similar, None)
        if record is not None:
            found[run.key] = record
    return found


def listed_records(runs: Sequence[Run]) -> list[tuple[RunRecord, str]]:
    """Return all stored records of an experiment, each with the reason why it does not hold; "" if it holds."""
    stored = read_runs(runs[0].folder) if runs else []
    return [(record, reason_of(record, runs)) for record in stored]


def reason_of(record: RunRecord, runs: Sequence[Run]) -> str:
    """Return why a record holds for no run; of several reasons, that of the run with the same seed and model."""
    reasons = dict[tuple[bool, bool], str]()
    for run in runs:
        if run.variant == record.variant:
            reason = reason_not_held(record, run.input, [part.content for part in run.parts])
            if not reason:
                return ""
            reasons[run.input.seed == record.input.seed, run.input.model == record.input.model] = reason
    return reasons[max(reasons)] if reasons else f"the experiment has no variant {record.variant}"
