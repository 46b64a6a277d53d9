"""Measure decontamination: which planted items are found, which other texts are taken for an item, and the speed.

    python -m benchmarks.contamination ../sets/*.parquet --texts ../texts

Items of evaluation sets are planted in real text in several forms, and so are texts that only resemble an item.
Ours is compared with a search for each 13-gram of a question with its answer, without further rules, and with
datatrove's n-grams if datatrove is installed, with and without the n-grams of the question alone.
"""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from benchmarks.corpora import load_texts
from benchmarks.harness import DEMO, Table, benchmark, shortest_time
from zyda_flows.tasks.documents.decontaminate import share_of
from zyda_flows.tasks.documents.evaluation_sets import EvaluationItem, items_of, plan_set
from zyda_flows.tasks.documents.item_search import search_for
from zyda_flows.tasks.recipe.evaluation import Decontaminate, EvaluationSet
from zyda_flows.tasks.signatures.shingles import words_of
from zyda_flows.textkernels.words import SPACE

Search = Callable[[list[str]], Sequence[bool]]  # whether each text is contaminated
Form = Callable[[EvaluationItem], str]
GRAM = 13
PLANTED, PAGES = 100, 300  # items in each form; real pages
SLOW_CHARACTERS = 300_000  # for the slow searches
PERMISSION = """Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
associated documentation files (the "Software"), to deal in the Software without restriction, including without
limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies. """


def whole(item: EvaluationItem) -> str:
    return item.question if item.answer is None else f"{item.question} {item.answer}"


def other_punctuation(item: EvaluationItem) -> str:
    return re.sub(r"[,.;:?!]", " ...", whole(item)).replace(" ", "  ")


def words_between(text: str, start: float, end: float) -> str:
    """Return the words of a text between two shares of their number."""
    words = text.split()
    return " ".join(words[int(len(words) * start) : int(len(words) * end)])


PLANTS: dict[str, Form] = {
    "unchanged": whole,
    "in capitals": lambda item: whole(item).upper(),
    "other punctuation": other_punctuation,
    "across lines": lambda item: "\n".join(whole(item).split()),
    "without the first fifth": lambda item: words_between(whole(item), 0.2, 1),
    "with other words between": lambda item: f"{item.question}\n(A) none of these (B) {item.answer or ''}",
}
LOOK_ALIKES: dict[str, Form] = {
    "the question alone": lambda item: item.question if item.answer else "",
    "the answer alone": lambda item: item.answer or "",
    "a third of the question": lambda item: words_between(item.question, 0, 1 / 3),
    "a licence": lambda _: PERMISSION,
}


def plant(texts: Sequence[str], pages: Sequence[str]) -> list[str]:
    """Put each text in the middle of a page."""
    middles = [len(page) // 2 for page in pages]
    return [f"{page[:middle]}\n{text}\n{page[middle:]}"
            for text, page, middle in zip(texts, pages, middles, strict=True)]  # fmt: skip


def our_search(sets: dict[str, EvaluationSet]) -> Search:
    settings = Decontaminate(sets=sets)
    item_search = search_for(tuple(plan_set(*named) for named in sets.items()), settings.answer_within)

    def search(texts: list[str]) -> Sequence[bool]:
        _, held = item_search.run(pa.array(texts, pa.large_string()))
        return [
            any(share_of(item, ()) >= settings.share for item in items or ()) for items in held.to_pylist()
        ]

    return search


def search_every_gram(items: Sequence[EvaluationItem]) -> Search:
    """Return a search for texts with any 13 consecutive words of an item."""
    grams = {gram for item in items for gram in grams_of(whole(item))}
    return lambda texts: [any(gram in grams for gram in grams_of(text)) for text in texts]


def grams_of(text: str) -> Iterator[bytes]:
    letters, _ = words_of(pa.array([text], pa.large_string()))
    words = bytes(letters).split(SPACE.tobytes()) if len(letters) else []
    return (b" ".join(words[i : i + GRAM]) for i in range(len(words) - GRAM + 1))


def datatrove_search(items: Sequence[EvaluationItem], *, with_questions: bool) -> Search:
    """Return a search by datatrove's indexer and filter. Raises ImportError."""
    from datatrove.data import Document
    from datatrove.pipeline.decont.n_grams import NGramsDecontConfig, NGramsDecontFilter, NGramsDecontIndexer

    config: Any = NGramsDecontConfig(find_query_ngrams=with_questions)
    search: Any = NGramsDecontFilter("/tmp", config)  # nothing is read from the folder
    index: Any = object.__new__(NGramsDecontIndexer)  # __init__ would download evaluation sets
    index.config, index.tokenizer, index.hash_func = config, search.tokenizer, search.hash_func
    search._index_hashes = {
        gram: "sets" for item in items for gram in index.compute_hashes(item.answer or "", item.question)
    }
    return lambda texts: [search.filter(Document(text=text, id="")) is not True for text in texts]


def searches(sets: dict[str, EvaluationSet], items: Sequence[EvaluationItem]) -> Iterator[tuple[str, Search]]:
    yield "ours", our_search(sets)
    yield "every 13-gram", search_every_gram(items)
    try:
        yield "datatrove", datatrove_search(items, with_questions=False)
        yield "datatrove, questions too", datatrove_search(items, with_questions=True)
    except ImportError:
        print("datatrove is not installed: it is not measured")


@benchmark("contamination")
def measure(
    files: Annotated[list[Path], typer.Argument(help="Files of evaluation sets.")],
    texts: Annotated[Path, typer.Option(help="Folder of texts, in which items are planted.")] = DEMO,
) -> Iterator[Table]:
    sets = {path.stem: EvaluationSet(files=[str(path)]) for path in files}
    items = [item for named in sets.items() for item in items_of(plan_set(*named))]
    documents, chance = load_texts(texts).to_pylist(), random.Random(0)
    pages = [text for text in documents if 500 < len(text) < 5_000]
    sample = chance.sample(items, min(len(items), 4 * PLANTED))
    chosen = [item for item in sample if item.answer != ""][:PLANTED]
    around = [chance.choice(pages) for _ in chosen]
    sizes = accumulate(map(len, pages), initial=0)
    few = [
        page
        for page, _ in takewhile(lambda pair: pair[1] <= SLOW_CHARACTERS, zip(pages, sizes, strict=False))
    ]
    columns = dict[str, dict[str, float]]()
    for name, search in searches(sets, items):
        shares = {
            form: sum(search(plant([*map(make, chosen)], around))) / len(chosen)
            for form, make in {**PLANTS, **LOOK_ALIKES}.items()
        }
        timed = documents if name == "ours" else few
        speed = sum(len(text.encode()) for text in timed) / 1e6 / shortest_time(partial(search, timed), 1)
        real = sum(search(pages[:PAGES])) / len(pages[:PAGES])
        columns[name] = {**shares, "real pages": real, "MB/s": speed}
    rows = [
        {"share found": form, **{name: column[form] for name, column in columns.items()}}
        for form in columns["ours"]
    ]
    yield Table(f"decontamination, {len(items):,} items of {len(sets)} sets, one core", rows)


if __name__ == "__main__":
    measure.main()
