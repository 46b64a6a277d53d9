"""What is missed in clusters that are too large to compare all pairs, against comparing all pairs.

python -m benchmarks.large_clusters [MEBIBYTES ...]

Pages are made in several ways (KINDS), as one cluster each, and decided twice: as `textkernels.set_similarity`
does, whose answer is that of comparing all pairs, and with the index of `tasks.dedup.large`. Shingles have 5 words.
"""

import random
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.measure import as_workers_are, show
from zyda_flows.tasks.dedup.large import LargeCluster
from zyda_flows.tasks.ids import hash_ids
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.signatures.shingles import shingle_sets
from zyda_flows.textkernels.set_similarity import MISSING, find_duplicates

WIDTH = 5
SOURCES = 3
PIECES = 16  # of a cluster that is cut
RULES = [("jaccard", 0.8), ("jaccard", 0.9), ("containment", 0.8), ("containment", 0.9)]

Pages = list[list[str]]  # of paragraphs
Sets = tuple[NDArray[np.uint64], NDArray[np.int64]]


class Maker:
    """Makes paragraphs of words, always the same for a seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def paragraph(self, words: int = 80) -> str:
        return " ".join(f"{self.chance.randrange(1 << 24):x}" for _ in range(words))

    def paragraphs(self, count: int, words: int = 80) -> list[str]:
        return [self.paragraph(words) for _ in range(count)]

    def edited(self, paragraph: str, edits: int) -> str:
        """Replace some words."""
        words = paragraph.split(" ")
        for place in self.chance.sample(range(len(words)), edits):
            words[place] = f"{self.chance.randrange(1 << 24):x}"
        return " ".join(words)

    def replaced(self, page: list[str], places: list[int]) -> list[str]:
        """Replace whole paragraphs, each by one as long."""
        return [self.paragraph(part.count(" ") + 1) if i in places else part for i, part in enumerate(page)]


def families(make: Maker) -> Iterator[Pages]:
    """Shared paragraphs, 25 kinds, own ones; each copy has another of the own ones replaced."""
    shared, kinds = make.paragraphs(12), [make.paragraphs(3) for _ in range(25)]
    while True:
        own = make.paragraphs(make.chance.randint(2, 7))
        page = [*make.chance.sample(shared, 4), *make.chance.choice(kinds), *own]
        copies = make.chance.choice((0, 0, 1, 2, 4))
        yield [page, *(make.replaced(page, [make.chance.randrange(7, len(page))]) for _ in range(copies))]


def same_paragraph(make: Maker) -> Iterator[Pages]:
    """As families, but a shared own paragraph, the rarest text of two pages, is what the third lacks."""
    shared, kinds = make.paragraphs(12), [make.paragraphs(3) for _ in range(25)]
    while True:
        page = [*make.chance.sample(shared, 4), *make.chance.choice(kinds), *make.paragraphs(2)]
        other = [*make.chance.sample(shared, 4), *make.chance.choice(kinds), *make.paragraphs(2), page[7]]
        yield [page, other, *(make.replaced(page, [7]) for _ in range(make.chance.randint(1, 2)))]


def boilerplate(make: Maker) -> Iterator[Pages]:
    """Three fifths of each page are the same in all; copies have words replaced here and there."""
    same = make.paragraphs(8)
    while True:
        page = [*same, *make.paragraphs(5)]
        yield [page, *([make.edited(part, make.chance.randint(0, 3)) for part in page] for _ in range(2))]


def excerpts(make: Maker) -> Iterator[Pages]:
    """Long pages, and parts of them, of parts, and of several, with a head and a foot that all have."""
    head, foot = make.paragraphs(2), make.paragraphs(2)
    while True:
        whole = make.paragraphs(20)
        pages = [whole]
        for _ in range(4):
            of = make.chance.choice(pages)
            first = make.chance.randrange(len(of))
            part = of[first : first + make.chance.randint(2, 12)]
            pages.append([make.edited(one, make.chance.choice((0, 0, 1, 4))) for one in part])
        yield [[*head, *page, *foot] for page in pages]


def forms(make: Maker) -> Iterator[Pages]:
    """Forms of which a few words are filled in: much of a page is the same in hundreds, and little is its own."""
    kinds = [make.paragraphs(8, 50) for _ in range(40)]
    while True:
        form = make.chance.choice(kinds)
        page = [make.edited(part, make.chance.randint(0, 3)) for part in form]
        copies = make.chance.randint(0, 2)
        yield [
            page,
            *([make.edited(part, make.chance.choice((0, 0, 1))) for part in page] for _ in range(copies)),
        ]


def filled_in(make: Maker) -> Iterator[Pages]:
    """One template, and a paragraph of a page's own, of which a copy has another beginning, middle or end."""
    template = make.paragraphs(10)
    while True:
        own = make.paragraph(120).split(" ")
        first = make.chance.randrange(80)
        new = make.paragraph(make.chance.randint(5, 40)).split(" ")
        copy = [*own[:first], *new, *own[first + len(new) :]]
        yield [[*template[:5], " ".join(words), *template[5:]] for words in (own, copy)]


def chains(make: Maker) -> Iterator[Pages]:
    """Each page is the one before with one paragraph of twelve replaced, forty in a row."""
    while True:
        page = make.paragraphs(12)
        pages = [page]
        for _ in range(40):
            page = make.replaced(page, [make.chance.randrange(12)])
            pages.append(page)
        yield pages


def mixed(make: Maker) -> Iterator[Pages]:
    """All of these beside each other."""
    kinds = [kind(make) for name, kind in KINDS.items() if name != "mixed"]
    while True:
        yield from map(next, kinds)


KINDS: dict[str, Callable[[Maker], Iterator[Pages]]] = {
    "families": families,
    "same paragraph": same_paragraph,
    "boilerplate": boilerplate,
    "excerpts": excerpts,
    "forms": forms,
    "filled in": filled_in,
    "chains": chains,
    "mixed": mixed,
}


def cluster(kind: str, mebibytes: float, seed: int = 0) -> Sets:
    """Make the pages of a cluster, in an order that says nothing; return their sets of shingles."""
    make = Maker(seed)
    pages, size = list[str](), 0
    for of_one in KINDS[kind](make):
        pages += ["\n\n".join(page) for page in of_one]
        size = sum(map(len, pages)) if len(pages) < 1000 else size + sum(map(len, pages[-len(of_one) :]))
        if size >= mebibytes * 2**20:
            break
    make.chance.shuffle(pages)
    return shingle_sets(pa.array(pages, pa.large_string()), MinHashRound(shingle="words", width=WIDTH))


def missed(sets: Sets, measure: str, share: float, scope: str) -> dict[str, float]:
    """Decide a cluster both ways; return how many go, how many of these are missed, and the seconds of each."""
    hashes, ends = sets
    count = len(ends) - 1
    groups = np.arange(count) if scope == "global" else np.arange(count) * SOURCES // count
    may_go, asked = np.ones(count, np.bool_), {"share": share, "is_jaccard": measure == "jaccard"}
    start = time.perf_counter()
    exact, _ = find_duplicates(hashes, ends, groups, may_go, np.array([0, count]), **asked)  # type: ignore[arg-type]
    between = time.perf_counter()
    found, _ = LargeCluster(
        lambda places: (hashes[ends[i] : ends[i + 1]] for i in places),
        groups,
        may_go,
        **asked,  # type: ignore[arg-type]
    ).find_duplicates()
    seconds = time.perf_counter() - between
    gone = int((exact != MISSING).sum())
    lost, in_pieces = (
        int(((exact != MISSING) & (holders == MISSING)).sum())
        for holders in (found, decided_in_pieces(sets, groups, may_go, **asked))  # type: ignore[arg-type]
    )
    return {
        "pages": count, "gone": gone, "missed": lost, "of 1,000": 1000 * lost / max(1, gone),
        f"of 1,000 in {PIECES} pieces": 1000 * in_pieces / max(1, gone),
        "all pairs, s": between - start, "index, s": seconds,
    }  # fmt: skip


def decided_in_pieces(
    sets: Sets, groups: NDArray[np.int64], may_go: NDArray[np.bool_], **asked: float
) -> NDArray[np.int64]:
    """Decide a cluster as one of more than MOST_DOCUMENTS is, in PIECES by the smallest hash: (n,) holders."""
    hashes, ends = sets
    smallest = np.minimum.reduceat(hash_ids(hashes), ends[:-1])
    piece = hash_ids(smallest) % np.uint64(PIECES)
    order = np.argsort(piece, kind="stable")
    parts = [hashes[ends[i] : ends[i + 1]] for i in order.tolist()]
    new_ends = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    starts = np.concatenate([[0], np.flatnonzero(np.diff(piece[order])) + 1, [len(order)]])
    holders, _ = find_duplicates(
        np.concatenate(parts),
        new_ends,
        groups[order],
        may_go[order],
        starts,
        **asked,  # type: ignore[arg-type]
    )
    of_all = np.full(len(order), MISSING, np.int64)
    of_all[order] = holders
    return of_all


def measured(mebibytes: float, kinds: list[str]) -> Iterator[dict[str, str | float]]:
    """Yield what is missed of each kind, by each rule in each scope."""
    for kind in kinds:
        sets = cluster(kind, mebibytes)
        for measure, share in RULES:
            for scope in ("across", "global"):
                asked = f"{measure} {share}, {scope}"
                yield {"MiB": mebibytes, "kind": kind, "asked": asked, **missed(sets, measure, share, scope)}


def main() -> None:
    """Measure clusters of some sizes."""
    sizes = [float(size) for size in sys.argv[1:]] or [8.0, 32.0]
    show("large clusters", [row for size in sizes for row in measured(size, list(KINDS))])


if __name__ == "__main__":
    as_workers_are()
    main()
