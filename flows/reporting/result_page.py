"""A page of results of trainings, as HTML and as a card in Markdown."""

from collections.abc import Iterator
from dataclasses import dataclass

from zyda_flows.flows.reporting.markdown import duration, plain, table
from zyda_flows.flows.reporting.report_page import render_page
from zyda_flows.flows.reporting.report_parts import Fact, Section
from zyda_flows.tasks.ablation.records import Trainings
from zyda_flows.tasks.storage.folder import Folder

CARD = "README.md"
WORDS = ("", "part", "claim", "verdict")  # columns of words, left-aligned in a card


@dataclass(frozen=True)
class ResultPage:
    """A page. path: of its file. kind: of the result. facts: of the head, each a name and a text."""

    path: str
    name: str
    kind: str
    facts: list[tuple[str, str]]
    sections: list[Section]

    def write(self, folder: Folder) -> None:
        """Write the page into a folder, and the card beside it."""
        place = self.path.rpartition("/")[0]
        folder.write(self.path, self.html().encode())
        folder.write(f"{place}/{CARD}".lstrip("/"), self.card().encode())

    def html(self) -> str:
        return render_page(self.name, self.kind, [Fact(*fact) for fact in self.facts], None, self.sections)

    def card(self) -> str:
        """Return the page in Markdown, without plots."""
        title = f"# {self.kind.capitalize()} {plain(self.name)}"
        lines = [title, "", *(f"- {name}: {plain(text)}" for name, text in self.facts)]
        for section in self.sections:
            lines += ["", f"## {section.title}", "", *(f"{plain(note)}\n" for note in section.notes)]
            for shown in section.tables:
                left = sum(name in WORDS for name in shown.names[:3])
                lines += [f"**{shown.title}**", "", table(shown.names, shown.rows, left=max(1, left))]
        return "\n".join([*lines, ""])


def facts_of(trainings: Trainings) -> Iterator[tuple[str, str]]:
    """Yield the models, runs, seeds, devices and the cost of trainings."""
    yield "Model", " and ".join(f"{number:,} parameters" for number in trainings.parameters)
    each = trainings.tokens // max(1, trainings.runs)
    yield "Runs", f"{trainings.runs:,} of {each:,} tokens each, {trainings.tokens:,} in all"
    yield "Seeds", ", ".join(map(str, trainings.seeds))
    yield "Device", f"{' and '.join(trainings.devices)}; torch {' and '.join(trainings.torch)}"
    yield "Cost", f"{duration(trainings.seconds)} of all runs together"
