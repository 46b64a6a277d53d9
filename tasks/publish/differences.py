"""How two texts differ, for people: bounded in what is compared and in what is shown.

MOST_COMPARED characters of each are compared, from shortly before their first difference: by lines where these are
short, else by words.
"""

import re
from collections.abc import Iterator, Sequence

from rapidfuzz.distance import Indel

from zyda_flows.tasks.storage.records import Record

MOST_COMPARED = 20_000  # characters of each text
BEFORE = 400  # characters that are compared before the first difference
UNITS = 4_000  # lines or words of each text: two of as many that have nothing in common take 20 ms
LONG_LINE = 240  # characters, from which on words are compared
LONG_WORD = 60  # characters, from which on a word is cut
SHOWN = 100  # lines of a difference
WIDTH = 1_000  # characters of such a line
AROUND = {"lines": 3, "words": 12}  # that are shown before and after a difference
WORD = re.compile(rf"\s*\S{{1,{LONG_WORD}}}|\s+")
# Numbers, words, characters of scripts without spaces, marks: what of a changed word is marked.
FINE = re.compile(r"\d+(?:[.,]\d+)*|[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W\d_]+|.", re.DOTALL)
ALIKE = 0.5  # of the units of two changed parts, so that they are compared by FINE
MARKS = str.maketrans({"\n": "⏎", "\r": "␍", "\t": "⇥"})
REST = "@@ what follows is not shown @@"

Change = tuple[int, int, int, int]  # units a to b of the one text stand where c to d of the other one do


def diff(text: str, other: str, kept: str = "kept", most: int = SHOWN) -> tuple[str, ...]:
    """Compare a text with another one: the lines of a unified diff, nothing where the two are equal.

    The numbers in its `@@` lines are of lines or words, from where the comparison begins.

    kept: what the other one is called. most: lines that are shown.
    """
    if text == other:
        return ()
    start = start_of_difference(text, other)
    ours, theirs = text[start : start + MOST_COMPARED], other[start : start + MOST_COMPARED]
    by = "lines" if all(len(line) <= LONG_LINE for line in f"{ours}\n{theirs}".split("\n")) else "words"
    units, other_units = cut(ours, by), cut(theirs, by)
    is_cut = max(len(text), len(other)) > start + MOST_COMPARED or max(len(units), len(other_units)) > UNITS
    lines = ["--- this", f"+++ {kept}"]
    lines += [f"@@ the first {start:,} characters are the same @@"] if start else []
    changed = changes(units[:UNITS], other_units[:UNITS])
    # What is cut at one length does not end alike: the last change may be of the cut alone.
    lines += shown(units, other_units, changed[:-1] if is_cut and len(changed) > 1 else changed, by)
    if len(lines) > most or is_cut:
        lines = [*lines[:most], REST]
    return tuple(line if len(line) <= WIDTH else f"{line[:WIDTH]} …" for line in lines)


class Segment(Record):
    """A part of a text, and whether the other text has it, too."""

    text: str
    is_same: bool = True


def side_by_side(text: str, other: str) -> tuple[tuple[Segment, ...], tuple[Segment, ...]]:
    """Cut two texts by what they have in common, as far as they are compared; what follows is left out."""
    is_long = max(len(text), len(other)) > MOST_COMPARED
    start = start_of_difference(text, other) if is_long and text != other else 0
    sides = (text[start : start + MOST_COMPARED], other[start : start + MOST_COMPARED])
    units, other_units = (WORD.findall(side)[:UNITS] for side in sides)
    segments: tuple[list[Segment], list[Segment]] = ([], [])
    if start:
        for side in segments:
            side.append(Segment(text=f"(the first {start:,} characters are the same)\n"))
    for parts in compared(units, other_units):
        for side, part in zip(segments, parts, strict=True):
            side.append(part)
    for side, own, whole in zip(segments, (units, other_units), (text, other), strict=True):
        if start + sum(map(len, own)) < len(whole):
            side.append(Segment(text=" …"))
    left, right = (tuple(one for one in side if one.text) for side in segments)
    return left, right


def compared(
    units: Sequence[str], others: Sequence[str], *, is_fine: bool = False
) -> Iterator[tuple[Segment, Segment]]:
    """Yield the parts of two texts, side by side: what they have in common, and what differs.

    is_fine: whether the units are those of FINE; else what differs is compared by these, where it is alike.
    """
    place, other_place = 0, 0
    for a, b, c, d in [*changes(units, others), (len(units), len(units), len(others), len(others))]:
        yield Segment(text="".join(units[place:a])), Segment(text="".join(others[other_place:c]))
        ours, theirs = "".join(units[a:b]), "".join(others[c:d])
        fine, other_fine = FINE.findall(ours), FINE.findall(theirs)
        if is_fine or not are_alike(fine, other_fine):
            yield Segment(text=ours, is_same=False), Segment(text=theirs, is_same=False)
        else:
            yield from compared(fine, other_fine, is_fine=True)
        place, other_place = b, d


def are_alike(units: Sequence[str], others: Sequence[str]) -> bool:
    """Return whether two changed parts have so much in common that their differences are worth a mark each."""
    is_small = min(len(units), len(others)) > 0 and max(len(units), len(others)) <= UNITS
    return is_small and Indel.normalized_similarity(units, others) >= ALIKE


def start_of_difference(text: str, other: str) -> int:
    """Return a place shortly before the first character that differs, at the beginning of a line if one is near."""
    first = common_beginning(text, other)
    start = max(0, first - BEFORE)
    return (text.find("\n", start, first) + 1 or start) if start else 0


def common_beginning(text: str, other: str) -> int:
    """Return how many characters two texts begin with alike."""
    same, most = 0, min(len(text), len(other))
    # In halves: two slices are compared as memory is, some hundred times as fast as character after character.
    while same < most:
        middle = (same + most + 1) // 2
        if text[same:middle] == other[same:middle]:
            same = middle
        else:
            most = middle - 1
    return same


def cut(text: str, by: str) -> list[str]:
    """Cut a text into lines, or into words with the white space before them."""
    return text.split("\n") if by == "lines" else WORD.findall(text)


def shown(
    units: Sequence[str], other_units: Sequence[str], changed: Sequence[Change], by: str
) -> Iterator[str]:
    """Yield what two texts have in common around their differences ( ), what one has (-), and the other (+)."""
    around = AROUND[by]
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
    """Return where two texts differ, as few units as can be."""
    changed = list[Change]()
    for change in Indel.opcodes(units, other_units):
        a, b, c, d = change.src_start, change.src_end, change.dest_start, change.dest_end
        if change.tag == "equal":
            continue
        if changed and changed[-1][1] == a and changed[-1][3] == c:  # what goes and what comes, at one place
            a, c = changed[-1][0], changed.pop()[2]
        changed.append((a, b, c, d))
    return changed


def join_near_changes(changed: Sequence[Change], around: int) -> list[list[Change]]:
    """Put together the changes between which there is nothing that would not be shown around them."""
    groups = list[list[Change]]()
    for change in changed:
        if groups and change[0] - groups[-1][-1][1] <= 2 * around:
            groups[-1].append(change)
        else:
            groups.append([change])
    return groups


def as_lines(mark: str, units: Sequence[str], by: str) -> Iterator[str]:
    """Yield lines with a mark before them, one for each line or one for all words."""
    if by == "lines":
        yield from (mark + unit.translate(MARKS) for unit in units)
    elif units:
        yield mark + "".join(units).removeprefix(" ").translate(MARKS)
