"""The report as Markdown, for Prefect's dashboard, which shows a line's end inside a paragraph as a break."""

from base64 import b64encode
from collections.abc import Iterable, Iterator

from zyda_flows.flows.reporting.markdown import plain
from zyda_flows.flows.reporting.report_head import head
from zyda_flows.flows.reporting.report_page import PAGE
from zyda_flows.flows.reporting.report_parts import Fact, Section, Table
from zyda_flows.tasks.lookup.report_findings import Findings
from zyda_flows.tasks.recipe.fields import Recipe

MOST_BYTES = 900_000  # of all: Prefect keeps an artifact as one row of its database
MOST_ROWS = 100  # of a table


def as_markdown(recipe: Recipe, findings: Findings, chapters: Iterable[Section]) -> str:
    """Return the head, tables and plots of a report, without those that would exceed MOST_BYTES."""
    url = f"{recipe.folder.url}/{PAGE}"
    parts = [
        f"# {plain(recipe.corpus)}\n",
        "\n".join(map(fact, [*facts(recipe, findings), page_at(url)])) + "\n",
    ]
    left_out = 0
    size = sum(len(part.encode()) for part in parts)
    for section in chapters:
        for part in section_parts(section):
            size += len(part.encode()) + 1
            if size > MOST_BYTES:
                size -= len(part.encode()) + 1
                left_out += 1
            else:
                parts.append(part)
    if left_out:
        parts.append(
            f"{left_out:,} tables or plots are only in the HTML report, because there is no room here.\n"
        )
    return "\n".join(parts)


def facts(recipe: Recipe, findings: Findings) -> Iterator[Fact]:
    """Yield the lines of the head that do not need the files beside the page."""
    return (line for line in head(recipe, findings) if line.text)


def page_at(url: str) -> Fact:
    return Fact("The page, with the texts", url, is_to_copy=True, link=url)


def fact(line: Fact) -> str:
    """Return a line of the head: paths as code, URLs as links."""
    text = code(line.text) if line.is_to_copy else plain(line.text)
    is_followed = line.link.startswith(("http://", "https://"))
    return f"- **{line.name}**: {f'[{text}](<{line.link}>)' if is_followed else text}"


def section_parts(section: Section) -> Iterator[str]:
    """Yield the title, notes, plot and tables of a section, without its texts."""
    if not section.plot and not section.tables:
        return
    yield f"## {plain(section.title)}\n"
    yield from (f"{plain(note)}\n" for note in section.notes)
    if section.plot:
        picture = b64encode(section.plot.encode()).decode()
        yield f"![{plain(section.title)}](data:image/svg+xml;base64,{picture})\n"
    yield from map(table_text, section.tables)


def table_text(table: Table) -> str:
    """Return a table with its title."""
    lines = [table.names, ["---", *["---:"] * (len(table.names) - 1)]]
    rows = table.rows[:MOST_ROWS]
    written = [
        row_text(map(plain, lines[0])),
        row_text(lines[1]),
        *(row_text(map(plain, row)) for row in rows),
    ]
    more = len(table.rows) - len(rows)
    rest = f"\n{more:,} more rows are in the HTML report.\n" if more else ""
    return f"**{plain(table.title)}**\n\n" + "".join(written) + rest


def row_text(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def code(text: str) -> str:
    """Return a text as inline code."""
    fence = "`"
    while fence in text:
        fence += "`"
    return f"{fence}{text}{fence}" if len(fence) == 1 else f"{fence} {text} {fence}"
