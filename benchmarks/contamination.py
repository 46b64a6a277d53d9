"""Decontamination: which planted items of evaluation sets are found, what else is taken for one, and how fast.

    python -m benchmarks.contamination ../sets/*.parquet --texts ../texts

Items are planted in real text in several forms; beside them stands what only looks like an item. Ours is compared
with a search for every 13-gram of a question with its answer, without any rule, and with datatrove's n-grams, where
that is installed, with and without those of the question alone.
"""

import argparse
import random
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.measure import DEMO, as_workers_are, load_texts, seconds, show
from zyda_flows.tasks.documents.decontaminate import share_of
from zyda_flows.tasks.documents.evaluation_sets import Item, items_of, planned_set
from zyda_flows.tasks.documents.item_search import search_for
from zyda_flows.tasks.recipe.evaluation import Decontaminate, EvaluationSet
from zyda_flows.tasks.signatures.shingles import words_of
from zyda_flows.textkernels.words import SPACE

Found = Sequence[bool]
Search = Callable[[list[str]], Found]
GRAM = 13
# Items of each form, real pages, and characters of which slow ways are timed.
PLANTED, PAGES, SLOW = 100, 300, 300_000
PERMISSION = """Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
associated documentation files (the "Software"), to deal in the Software without restriction, including without
limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies. """


def whole(item: Item) -> str:
    return item.question if item.answer is None else f"{item.question} {item.answer}"


def other_punctuation(text: str) -> str:
    return re.sub(r"[,.;:?!]", " ...", text).replace(" ", "  ")


def without_a_fifth(text: str) -> str:
    words = text.split()
    return " ".join(words[len(words) // 5 :])


PLANTS: dict[str, Callable[[Item], str]] = {
    "as it is": whole,
    "in capitals": lambda item: whole(item).upper(),
    "other punctuation": lambda item: other_punctuation(whole(item)),
    "across lines": lambda item: "\n".join(whole(item).split()),
    "the first fifth cut": lambda item: without_a_fifth(whole(item)),
    "other words between": lambda item: f"{item.question}\n(A) none of these (B) {item.answer or ''}",
}
LOOK_ALIKES: dict[str, Callable[[Item], str]] = {
    "the question alone": lambda item: item.question if item.answer else "",
    "the answer alone": lambda item: item.answer or "",
    "a third of the question": lambda item: " ".join(
        item.question.split()[: len(item.question.split()) // 3]
    ),
    "a licence": lambda _: PERMISSION,
}


def in_pages(texts: Sequence[str], pages: Sequence[str]) -> list[str]:
    """Put each text in the middle of a page."""
    return [
        f"{page[: len(page) // 2]}\n{text}\n{page[len(page) // 2 :]}"
        for text, page in zip(texts, pages, strict=True)
    ]


def ours(sets: Sequence[EvaluationSet], names: Sequence[str]) -> Search:
    asked = Decontaminate(sets=dict(zip(names, sets, strict=True)))
    planned = tuple(planned_set(*one) for one in asked.sets.items())
    looking = search_for(planned, asked.answer_within)

    def search(texts: list[str]) -> Found:
        _, held = looking.found(pa.array(texts, pa.large_string()))
        return [any(share_of(item, ()) >= asked.share for item in items or ()) for items in held.to_pylist()]

    return search


def every_gram(items: Sequence[Item]) -> Search:
    """Take a text for contaminated that has any 13 words of an item one after another."""
    grams = {gram for item in items for gram in grams_of(whole(item))}
    return lambda texts: [any(gram in grams for gram in grams_of(text)) for text in texts]


def grams_of(text: str) -> Iterator[bytes]:
    letters, _ = words_of(pa.array([text], pa.large_string()))
    words = bytes(letters).split(SPACE.tobytes()) if len(letters) else []
    return (b" ".join(words[i : i + GRAM]) for i in range(len(words) - GRAM + 1))


def of_datatrove(items: Sequence[Item], *, of_questions: bool) -> Search:
    """Search as datatrove does, with its own indexer and filter. Raises ImportError."""
    from datatrove.data import Document
    from datatrove.pipeline.decont.n_grams import NGramsDecontConfig, NGramsDecontFilter, NGramsDecontIndexer

    config: Any = NGramsDecontConfig(find_query_ngrams=of_questions)
    search: Any = NGramsDecontFilter("/tmp", config)  # of which nothing is read
    index: Any = object.__new__(NGramsDecontIndexer)  # whose tasks would be fetched
    index.config, index.tokenizer, index.hash_func = config, search.tokenizer, search.hash_func
    search._index_hashes = {
        gram: "sets" for item in items for gram in index.compute_hashes(item.answer or "", item.question)
    }
    return lambda texts: [search.filter(Document(text=text, id="")) is not True for text in texts]


def searches(
    sets: Sequence[EvaluationSet], names: Sequence[str], items: Sequence[Item]
) -> Iterator[tuple[str, Search]]:
    yield "ours", ours(sets, names)
    yield "every 13-gram", every_gram(items)
    try:
        yield "datatrove", of_datatrove(items, of_questions=False)
        yield "datatrove, questions too", of_datatrove(items, of_questions=True)
    except ImportError:
        print("datatrove is not installed, and left out")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="+", type=Path, help="files of evaluation sets")
    parser.add_argument(
        "--texts", type=Path, default=DEMO, help="a folder of datasets, in which items are planted"
    )
    arguments = parser.parse_args()
    names, sets = (
        [path.stem for path in arguments.sets],
        [EvaluationSet(files=[str(p)]) for p in arguments.sets],
    )
    items = [item for name, one in zip(names, sets, strict=True) for item in items_of(planned_set(name, one))]
    texts, chance = load_texts(arguments.texts), random.Random(0)
    pages = [text for text in texts.to_pylist() if 500 < len(text) < 5_000]
    chosen = [item for item in chance.sample(items, min(len(items), 4 * PLANTED)) if item.answer != ""][
        :PLANTED
    ]
    around = [chance.choice(pages) for _ in chosen]
    rows = list[dict[str, Any]]()
    for name, search in searches(sets, names, items):
        of_forms = {
            form: sum(search(in_pages([*map(plant, chosen)], around))) / len(chosen)
            for form, plant in {**PLANTS, **LOOK_ALIKES}.items()
        }
        timed = texts.to_pylist() if name == "ours" else some_of(pages)
        speed = sum(map(len, map(str.encode, timed))) / 1e6 / seconds(partial(search, timed), 1)
        taken = sum(search(pages[:PAGES])) / len(pages[:PAGES])
        rows.append({"way": name, **of_forms, "real pages": taken, "MB/s": speed})
    turned = [{"what": what, **{row["way"]: row[what] for row in rows}} for what in list(rows[0])[1:]]
    show(f"decontamination, {len(items):,} items of {len(sets)} sets, one core", turned)


def some_of(pages: Sequence[str]) -> list[str]:
    """Return the first pages, of SLOW characters together."""
    size, some = 0, list[str]()
    for page in pages:
        if size > SLOW:
            break
        some.append(page)
        size += len(page)
    return some


if __name__ == "__main__":
    as_workers_are()
    main()
