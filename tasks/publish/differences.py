"""Show people how two texts differ, within limits of the compared and of the shown characters.

MOST_COMPARED characters of each text are compared, from shortly before their first difference: by lines if the
lines are short, else by words.
"""

import re
from collections.abc import Iterator, Sequence

from rapidfuzz.distance import Indel

from zyda_flows.tasks.storage.records import Record

MOST_COMPARED = 20_000  # characters of each text
CHARACTERS_BEFORE = 400  # characters that are compared before the first difference
UNITS = 4_000  # lines or words of each text: comparing so many without common units takes 20 ms
LONG_LINE = 240  # characters; with a longer line words are compared
LONG_WORD = 60  # characters; a longer word is cut
SHOWN_LINES = 100  # lines of a difference
WIDTH = 1_000  # characters of a line of a difference
UNITS_AROUND = {"lines": 3, "words": 12}  # shown before and after a difference
WORD = re.compile(rf"\s*\S{{1,{LONG_WORD}}}|\s+")
# The units that are marked in a changed word: numbers, words, characters of scripts without spaces, marks.
FINE_UNIT = re.compile(r"\d+(?:[.,]\d+)*|[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W\d_]+|.", re.DOTALL)
LEAST_SIMILARITY = 0.5  # similarity of two changed parts from which they are compared by FINE_UNIT
MARKS = str.maketrans({"\n": "⏎", "\r": "␍", "\t": "⇥"})
NOT_SHOWN = "@@ the rest is not shown @@"

Change = tuple[int, int, int, int]  # units a to b of the text correspond to units c to d of the other text


def diff(text: str, other: str, kept: str = "kept", most: int = SHOWN_LINES) -> tuple[str, ...]:
    """Return the lines of a unified diff of two texts; none if they are equal.

    The numbers in its `@@` lines count lines or words from the beginning of the comparison. kept: the name of the
    other text. most: the number of lines.
    """
    if text == other:
        return ()
    start = start_of_difference(text, other)
    ours, theirs = text[start : start + MOST_COMPARED], other[start : start + MOST_COMPARED]
    by = "lines" if all(len(line) <= LONG_LINE for line in f"{ours}\n{theirs}".split("\n")) else "words"
    units, other_units = split_units(ours, by), split_units(theirs, by)
    is_cut = max(len(text), len(other)) > start + MOST_COMPARED or max(len(units), len(other_units)) > UNITS
    lines = ["--- this", f"+++ {kept}"]
    lines += [f"@@ the first {start:,} characters are the same @@"] if start else []
    changed = changes(units[:UNITS], other_units[:UNITS])
    # If the texts are cut, the last change may only be an effect of the cut.
    lines += shown(units, other_units, changed[:-1] if is_cut and len(changed) > 1 else changed, by)
    if len(lines) > most or is_cut:
        lines = [*lines[:most], NOT_SHOWN]
    return tuple(line if len(line) <= WIDTH else f"{line[:WIDTH]} …" for line in lines)


class Segment(Record):
    """A part of a text. is_same: whether the other text has it, too."""

    text: str
    is_same: bool = True


def side_by_side(text: str, other: str) -> tuple[tuple[Segment, ...], tuple[Segment, ...]]:
    """Cut two texts into segments that are common or differ; the rest after the compared part is left out."""
    is_long = max(len(text), len(other)) > MOST_COMPARED
    start = start_of_difference(text, other) if is_long and text != other else 0
    sides = (text[start : start + MOST_COMPARED], other[start : start + MOST_COMPARED])
    units, other_units = (WORD.findall(side)[:UNITS] for side in sides)
    segments: tuple[list[Segment], list[Segment]] = ([], [])
    if start:
        for side in segments:
            side.append(Segment(text=f"(the first {start:,} characters are the same)\n"))
    for parts in compare_units(units, other_units):
        for side, part in zip(segments, parts, strict=True):
            side.append(part)
    for side, own, whole in zip(segments, (units, other_units), (text, other), strict=True):
        if start + sum(map(len, own)) < len(whole):
            side.append(Segment(text=" …"))
    left, right = (tuple(segment for segment in side if segment.text) for side in segments)
    return left, right


def compare_units(
    units: Sequence[str], others: Sequence[str], *, is_fine: bool = False
) -> Iterator[tuple[Segment, Segment]]:
    """Yield the corresponding parts of two texts, which are common or differ.

    is_fine: whether the units are already those of FINE_UNIT; otherwise similar parts are compared again by them.
    """
    place, other_place = 0, 0
    for a, b, c, d in [*changes(units, others), (len(units), len(units), len(others), len(others))]:
        yield Segment(text="".join(units[place:a])), Segment(text="".join(others[other_place:c]))
        ours, theirs = "".join(units[a:b]), "".join(others[c:d])
        fine, other_fine = FINE_UNIT.findall(ours), FINE_UNIT.findall(theirs)
        if is_fine or not are_alike(fine, other_fine):
            yield Segment(text=ours, is_same=False), Segment(text=theirs, is_same=False)
        else:
            yield from compare_units(fine, other_fine, is_fine=True)
        place, other_place = b, d


def are_alike(units: Sequence[str], others: Sequence[str]) -> bool:
    """Return whether two changed parts are similar enough to mark their differences one by one."""
    is_small = min(len(units), len(others)) > 0 and max(len(units), len(others)) <= UNITS
    return is_small and Indel.normalized_similarity(units, others) >= LEAST_SIMILARITY


def start_of_difference(text: str, other: str) -> int:
    """Return a place shortly before the first different character, at the beginning of a line if possible."""
    first = common_beginning(text, other)
    start = max(0, first - CHARACTERS_BEFORE)
    return (text.find("\n", start, first) + 1 or start) if start else 0


def common_beginning(text: str, other: str) -> int:
    """Return the number of equal characters at the beginning of two texts."""
    same, most = 0, min(len(text), len(other))
    # A binary search: comparing slices is some hundred times as fast as comparing characters one by one.
    while same < most:
        middle = (same + most + 1) // 2
        if text[same:middle] == other[same:middle]:
            same = middle
        else:
            most = middle - 1
    return same


def split_units(text: str, by: str) -> list[str]:
    """Cut a text into lines, or into words with the white space before them."""
    return text.split("\n") if by == "lines" else WORD.findall(text)


def shown(
    units: Sequence[str], other_units: Sequence[str], changed: Sequence[Change], by: str
) -> Iterator[str]:
    """Yield the lines of a diff: common units around differences ( ), removed units (-), and added units (+)."""
    around = UNITS_AROUND[by]
    for group in join_near_changes(changed, around):
        (first, _, other_first, _), last = group[0], group[-1][1]
        begin = max(0, first - around)
        yield f"@@ -{begin + 1} +{other_first - (first - begin) + 1} @@"
        for a, b, c, d in group:
            yield from as_lines(" ", units[begin:a], by)
            yield from as_lines("-", units[a:b], by)
            yield from as_lines("+", other_units[c:d], by)
            begin = b
        yield from as_lines(" ", units[last : last + around], by)


def changes(units: Sequence[str], other_units: Sequence[str]) -> list[Change]:
    """Return the changes between two texts, with the fewest units."""
    changed = list[Change]()
    for change in Indel.opcodes(units, other_units):
        a, b, c, d = change.src_start, change.src_end, change.dest_start, change.dest_end
        if change.tag == "equal":
            continue
        if (
            changed and changed[-1][1] == a and changed[-1][3] == c
        ):  # a removal and an insertion at the same place
            a, c = changed[-1][0], changed.pop()[2]
        changed.append((a, b, c, d))
    return changed


def join_near_changes(changed: Sequence[Change], around: int) -> list[list[Change]]:
    """Join changes if all units between them are shown around them."""
    groups = list[list[Change]]()
    for change in changed:
        if groups and change[0] - groups[-1][-1][1] <= 2 * around:
            groups[-1].append(change)
        else:
            groups.append([change])
    return groups


def as_lines(mark: str, units: Sequence[str], by: str) -> Iterator[str]:
    """Yield lines with a mark before them: each line, or all words as a single line."""
    if by == "lines":
        yield from (mark + unit.translate(MARKS) for unit in units)
    elif units:
        yield mark + "".join(units).removeprefix(" ").translate(MARKS)
