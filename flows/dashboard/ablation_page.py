"""The page of an ablation in Prefect's dashboard: progress and loss curves of its runs, and its verdicts."""

from base64 import b64encode
from collections.abc import Sequence

from zyda_flows.flows.dashboard.mixture_page import MixturePage
from zyda_flows.flows.reporting.ablation_page import curves
from zyda_flows.tasks.ablation.progress import read_progress
from zyda_flows.tasks.ablation.records import RunRecord, read_run
from zyda_flows.tasks.ablation.results import Series
from zyda_flows.tasks.ablation.runs import Run

RUNS = "runs"


class AblationPage(MixturePage):
    """The page of a run of the flow, with the loss curves of finished and unfinished trainings."""

    kind, noun, description = "ablate", "ablation", "Progress of the ablation"
    runs: Sequence[Run] = ()

    def train(self, runs: Sequence[Run]) -> None:
        """Show the progress of runs from now on."""
        self.runs, self.finished = runs, dict[str, RunRecord]()
        self.begin(RUNS, len(runs))

    def report(self, card: str) -> None:
        """Show the card of a result, without its title."""
        self.outcome = "complete"
        self.ending = card.partition("\n")[2]
        self.write()

    def text(self) -> str:
        return "\n\n".join(filter(None, [super().text(), self.picture()]))

    def picture(self) -> str:
        """Return the loss curves of the first size, side by side; "" before the first step."""
        by_variant = dict[str, list[tuple[tuple[int, float], ...]]]()
        for run in self.runs:
            if run.size == 0 and (curve := self.curve_of(run)):
                by_variant.setdefault(run.variant, []).append(curve)
        if not by_variant:
            return ""
        series = [
            Series(variant=name, size=0, parameters=0, curves=tuple(found), means={})
            for name, found in by_variant.items()
        ]
        picture = b64encode(curves(series).encode()).decode()
        return f"## Loss curves\n\n![Loss of each run by step](data:image/svg+xml;base64,{picture})"

    def curve_of(self, run: Run) -> tuple[tuple[int, float], ...]:
        """Return the curve of a run so far."""
        if run.key not in self.finished:
            progress = read_progress(run.folder, run.key)
            if progress is not None:
                return progress.curve
            record = read_run(run.folder, run.key)
            if record is None:
                return ()
            self.finished[run.key] = record
        return self.finished[run.key].curve
