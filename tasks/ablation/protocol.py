"""The protocol of an experiment: measure, budget, repeats and decision rule, written before the first run."""

from typing import Any

from zyda_flows.tasks.ablation.experiment import Experiment
from zyda_flows.tasks.ablation.records import HELD_OUT_RECORD, RUNS
from zyda_flows.tasks.errors import Denied
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record, digest_of, read_record, write_record

RULE = (
    "Welch's t interval of the difference of the mean measures of the runs of two variants; Holm's correction over "
    "the comparisons with the first variant, at the rate alpha; no claim if the equal control has one; each repeat "
    "of a variant reads other documents, as far as there are enough; runs that read the same documents count as a "
    "single value, their mean, unless all do; a claim "
    "about a single task needs the same sign at two sizes of the model, each within its corrected rate."
)
PROTOCOL = "protocol-"
NOT_OF_PROTOCOL = {"name", "variants", "storage", "tokenizer", "files", "evaluations"}


class Protocol(Record):
    """A protocol. fields: of the experiment. texts, sets: the names of the files and evaluation sets."""

    rule: str
    fields: dict[str, Any]
    texts: tuple[str, ...]
    sets: tuple[str, ...]

    @classmethod
    def of(cls, experiment: Experiment) -> "Protocol":
        return cls(
            rule=RULE,
            fields=experiment.model_dump(mode="json", exclude=NOT_OF_PROTOCOL),
            texts=tuple(file.name for file in experiment.files),
            sets=tuple(file.name for file in experiment.evaluations),
        )

    @property
    def digest(self) -> str:
        return digest_of(self.model_dump())

    @property
    def path(self) -> str:
        return f"{PROTOCOL}{self.digest}.json"


def fix_protocol(experiment: Experiment) -> Protocol:
    """Write the protocol of an experiment, before its first run.

    Raises Denied if the folder of the experiment has runs under another protocol.
    """
    folder, protocol = experiment.folder, Protocol.of(experiment)
    others = [path for path in protocols(folder) if path != protocol.path]
    if not folder.files(RUNS):
        for path in [*others, *([HELD_OUT_RECORD] if others else [])]:
            folder.delete(path)
    elif not others and not folder.exists(protocol.path):
        raise Denied(
            f"{folder.url}: its runs have no {PROTOCOL}*.json any more; give the experiment another `name`"
        )
    elif others and (earlier := read_record(folder, others[0], Protocol)) is not None:
        raise Denied(
            f"{folder.url}: its runs were made for another protocol, {difference(earlier, protocol)}; a verdict by "
            "another protocol is refused: give the experiment another `name`"
        )
    if not folder.exists(protocol.path):
        write_record(folder, protocol.path, protocol)
    return protocol


def difference(earlier: Protocol, protocol: Protocol) -> str:
    """Return the first field that differs, with both values."""
    for name in ("measure", *sorted({*earlier.fields, *protocol.fields})):
        before, after = earlier.fields.get(name), protocol.fields.get(name)
        if before != after:
            return f"with `{name}` {before}, not {after}"
    return "with another decision rule" if earlier.rule != protocol.rule else "with other files"


def protocols(folder: Folder) -> list[str]:
    """Return the paths of the protocols in the folder of an experiment."""
    return [path for path in folder.files("") if path.startswith(PROTOCOL)]
