"""Tables of the dataset card: components, licences, languages and overlaps, in Markdown."""

import re
from collections.abc import Iterable, Sequence
from html import escape

from zyda_flows.tasks.accounts.components import (
    BUCKETS_FILE,
    COMPONENTS_FILE,
    LANGUAGES_FILE,
    LICENSES_FILE,
    NOT_KNOWN,
    CountsBySource,
    added_up,
    start_and_end,
)
from zyda_flows.tasks.accounts.overlapped import Overlap
from zyda_flows.tasks.accounts.published import Published
from zyda_flows.tasks.publish.tables_of_markdown import as_table
from zyda_flows.tasks.storage.counts import Counts
from zyda_flows.tasks.words import counted

MOST_COMPONENTS = 200  # of a source, which the card names
LONGEST = 100  # characters of a component's name


def components_as_markdown(components: CountsBySource) -> str:
    """Return the documents and tokens of each component, at the start and at the end."""
    return "".join(
        f"Components of `{source}`:\n\n{starts_and_ends('component', counts.items(), COMPONENTS_FILE)}"
        for source, ends in components.items()
        if (counts := start_and_end(ends))
    )


def licenses_as_markdown(licenses: CountsBySource) -> str:
    """Return the documents and tokens of each licence, at the start and at the end, and the unknown names."""
    if not licenses:
        return ""
    in_order = most_tokens_first(licenses)
    known = [(name, counts) for name, counts in in_order if not (name or "").startswith(NOT_KNOWN)]
    unknown = [
        (name[len(NOT_KNOWN) :], counts) for name, counts in in_order if name and name.startswith(NOT_KNOWN)
    ]
    text = f"Licences, by SPDX's list:\n\n{starts_and_ends('licence', known, LICENSES_FILE)}"
    if unknown:
        table = starts_and_ends("licence", unknown, LICENSES_FILE)
        text += f"Names of licences that are in no list; their documents were removed:\n\n{table}"
    return text


def languages_as_markdown(languages: CountsBySource) -> str:
    """Return the documents and tokens of each language, at the start and at the end."""
    if not languages:
        return ""
    in_order = most_tokens_first(languages)
    return f"Languages, as the model names them:\n\n{starts_and_ends('language', in_order, LANGUAGES_FILE)}"


def buckets_as_markdown(buckets: CountsBySource) -> str:
    """Return the documents and tokens of each bucket, at the start and at the end."""
    if not buckets:
        return ""
    counts = start_and_end(added_up(buckets.values()))
    return f"Buckets, the lowest scores first:\n\n{starts_and_ends('bucket', counts.items(), BUCKETS_FILE)}"


def most_tokens_first(categories: CountsBySource) -> list[tuple[str | None, tuple[Counts, Counts]]]:
    """Return the names of all sources with their counts at the start and at the end, most tokens first."""
    counts = start_and_end(added_up(categories.values()))
    return sorted(counts.items(), key=lambda item: (-item[1][0].tokens, item[0] or ""))


def starts_and_ends(heading: str, counts: Iterable[tuple[str | None, Sequence[Counts]]], file: str) -> str:
    """Return a table of counts at the start and at the end, with at most MOST_COMPONENTS rows."""
    rows = [
        [in_cell(name), *(f"{number:,}" for each in both for number in (each.documents, each.tokens))]
        for name, both in counts
    ]
    others = len(rows) - MOST_COMPONENTS
    more = f"\n{others:,} more are in `{file}`.\n" if others > 0 else ""
    return f"{as_table([heading, 'documents', 'tokens', 'kept', 'tokens'], rows[:MOST_COMPONENTS])}{more}\n"


def in_cell(name: str | None) -> str:
    """Return the name of a component, which may be any text, for a cell of a table."""
    if name is None:
        return "(none)"
    short = name if len(name) <= LONGEST else f"{name[:LONGEST]} …"
    return re.sub(r"([\\|`*_\[\]])", r"\\\1", escape(" ".join(short.split()), quote=False))


def overlap_tables(number: int, overlap: Overlap) -> str:
    """Return the duplicates of each source, and of which other source. number: of a round; 0 for a single round."""
    where = f" in round {number}" if number else ""
    by_source = [
        [row.source, f"{row.entering.documents:,}", *(share(counts, row.entering) for counts in row[2:])]
        for row in overlap.own_duplicates()
    ]
    names, columns, matrix = overlap.matrix("global", "documents")
    by_other = [
        [name, *(f"{number / max(1, sum(row)):.1%}" for number in row)]
        for name, row in zip(names, matrix, strict=True)
    ]
    tables = [
        f"Duplicates of each source{where}, in documents and, in parentheses, in tokens: removed if the "
        "source is deduplicated alone (`own`), removed if all sources are deduplicated as one (`global`), and "
        "removed in this corpus:\n\n",
        as_table(["source", "documents", "own", "global", "removed"], by_source),
    ]
    if by_other:
        tables += [
            f"\nThe documents of `global`{where}, by the source of the kept document:\n\n",
            as_table(["source", *columns], by_other),
        ]
    return "".join([*tables, "\n"])


def share(part: Counts, whole: Counts) -> str:
    """Return the shares of documents and of tokens, in per cent."""
    documents, tokens = part.documents / max(1, whole.documents), part.tokens / max(1, whole.tokens)
    return f"{documents:.1%} ({tokens:.1%})"


def vector_lines(manifest: Published) -> str:
    """Return a line for the published vectors of each judge and source; "" if there are none."""
    lines = [
        f"- `vectors/{each.judge}/{each.source}`: {counted(each.documents, 'vector')} of {each.dimensions} "
        f"dimensions, "
        f"of the kept documents that the judge judged. In 8 bits, they differ from the exact vectors by "
        f"{each.mean_error:.2%} of their length on average, and by at most {each.largest_error:.2%}\n"
        for each in manifest.vectors or ()
    ]
    return "".join([*lines, "\n"]) if lines else ""
