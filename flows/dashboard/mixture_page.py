"""The page of a mixture in Prefect's dashboard: the progress of each step, and finally the counts of each part."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import httpx
from prefect.artifacts import create_markdown_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactUpdate
from prefect.exceptions import PrefectException

from zyda_flows.flows.dashboard.artifact_keys import key_of
from zyda_flows.flows.reporting.markdown import bar, duration, in_cell, plain, table
from zyda_flows.tasks.errors import ZydaError, one_line
from zyda_flows.tasks.mixing.mixture_manifest import MixedPart

WIDTH = 12
WRITE_SECONDS = 3.0
TO_RESUME = "Start it again: finished work is reused."


@dataclass
class StepOfMixture:
    """A step: its finished jobs, and the seconds since it began."""

    name: str
    total: int
    began: float
    done: int = 0
    seconds: float = 0.0


class MixturePage:
    """The page of a run, which is updated at most once in WRITE_SECONDS and at the end of each step."""

    kind, noun, description = "mix", "mixture", "Progress of the mixture"

    def __init__(self, name: str, url: str) -> None:
        self.name, self.url = name, url
        self.began = self.written_at = time.monotonic()
        self.steps = list[StepOfMixture]()
        self.outcome, self.ending = "running", ""
        self.artifact: Any = create_markdown_artifact(
            self.text(), key=key_of(name, self.kind, url), description=self.description
        )

    def begin(self, step: str, jobs: int) -> None:
        """Add a step that begins, with its number of jobs."""
        self.steps.append(StepOfMixture(step, jobs, time.monotonic()))
        self.write()

    def advance(self) -> None:
        """Add a finished job to the last step."""
        step, now = self.steps[-1], time.monotonic()
        step.done, step.seconds = step.done + 1, now - step.began
        if step.done == step.total or now - self.written_at > WRITE_SECONDS:
            self.write()

    @contextmanager
    def until_the_end(self) -> Iterator[None]:
        """Show the error if the block raises, and raise it again."""
        try:
            yield
        except BaseException as error:
            self.outcome = "failed" if isinstance(error, Exception) else "interrupted"
            reason = plain(one_line(str(error))) if isinstance(error, ZydaError) else type(error).__name__
            self.ending = f"**{reason}**\n\n{TO_RESUME}"
            self.write()
            raise

    def complete(self, parts: Sequence[MixedPart]) -> None:
        """Show the documents, epochs and tokens of each part."""
        total = max(1, sum(part.written for part in parts))
        rows = [
            (
                part.name,
                f"{part.documents:,}",
                f"{part.epochs:.4g}",
                f"{part.written:,}",
                f"{part.written / total:.1%}",
            )
            for part in parts
        ]
        self.outcome = "complete"
        self.ending = f"## Parts\n\n{table(('part', 'documents', 'epochs', 'tokens', 'share'), rows)}"
        self.write()

    def text(self) -> str:
        """Return the page, in Markdown."""
        seconds = duration(time.monotonic() - self.began)
        rows = [
            (
                step.name,
                f"{bar(fraction_of(step), WIDTH)} {step.done:,} of {step.total:,}",
                duration(step.seconds),
            )
            for step in self.steps
        ]
        steps = f"## Steps\n\n{table(('step', 'done', 'time'), rows, left=2)}" if rows else ""
        head = f"# {in_cell(self.name)}: {self.outcome}\n\nfor {seconds} · {self.noun} `{self.url}`"
        return "\n\n".join(filter(None, [head, self.ending, steps]))

    def write(self) -> None:
        """Update the page in the dashboard; if the update fails, the server keeps the older page."""
        self.written_at = time.monotonic()
        with suppress(httpx.HTTPError, PrefectException), get_client(sync_client=True) as client:
            client.update_artifact(self.artifact, ArtifactUpdate(data=self.text()))


def fraction_of(step: StepOfMixture) -> float:
    return step.done / step.total if step.total else 1.0
