"""Find the published documents whose vectors are most similar to that of a text.

The published vectors of a judge (`publish_vectors`) are compared with the vector of the text, all of them: 192
bytes a document. A semantic round has no published vectors: the model that proposes its pairs reads all published
texts. Only published files, the model and the corpus's register are read, without Prefect and Dask.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.corpus.documents import published_texts
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import BadRequest, Denied
from zyda_flows.tasks.ids import Ids, split
from zyda_flows.tasks.lookup.nearest import SNIPPET, places_of
from zyda_flows.tasks.quality.forms import judged_model
from zyda_flows.tasks.quality.similarity_models import load_similarity, mean_of
from zyda_flows.tasks.quality.stored_vectors import numbers_of
from zyda_flows.tasks.quality.vector_forms import expect_body, load_vectors
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.rounds import Round, rounds_of
from zyda_flows.tasks.semantic.models import device_of, is_semantic, proposing_model
from zyda_flows.tasks.semantic.vectors import small_numbers
from zyda_flows.tasks.storage.records import Record

TEXTS_AT_ONCE = 1024
Cosines = tuple[Ids, NDArray[np.float32]]  # of documents: (n,) each
Follow = Callable[[Iterable[Cosines]], Iterable[Cosines]]


class DocumentOfMeaning(Record):
    """A published document whose vector is similar to that of a text: its place, cosine and beginning."""

    doc_id: int
    source: str
    file: str
    row: int
    cosine: float
    beginning: str


def nearest_in_meaning(
    recipe: Recipe, text: str, name: str, most: int = 10, follow: Follow = iter
) -> list[DocumentOfMeaning]:
    """Return the `most` published documents with the largest cosine to the vector of a text, the largest first.

    Args:
        recipe: The recipe of the corpus.
        text: The text.
        name: A judge with published vectors, or the folder of the pairs of a semantic round: pairs, pairs2.
        most: The number of documents.
        follow: Yields its items, and may show the progress.

    Raises BadRequest if there is neither, or the text has no vector. Raises Denied if the model of a judge has
    changed since the build.
    """
    if not text.strip():
        raise BadRequest("the text has no characters to look up")
    corpus = PublishedCorpus.of(recipe).expect_ids()
    judges = dict.fromkeys(account.judge for account in corpus.manifest.vectors or ())
    rounds = {each.name_of("pairs"): each for each in rounds_of(recipe) if is_semantic(each, "")}
    if name not in {*judges, *rounds}:
        listed = ", ".join([*judges, *rounds]) or "none"
        raise BadRequest(
            f"{corpus.url}: {name} is neither a judge with published vectors nor a folder of pairs; there are "
            f"{listed}; name a judge in `publish_vectors`, and build"
        )
    if name in judges:
        tables = vectors_of_judge(corpus, recipe, text, name)
    else:
        tables = vectors_of_round(corpus, rounds[name], text)
    with corpus.reading():
        scores = (each for table in follow(tables) for each in nearest(*table, most))
        best = sorted(scores, key=lambda each: (-each[0], each[1]))[:most]
        ids = [doc_id for _, doc_id in best]
        texts, places = published_texts(corpus, ids), places_of(corpus, ids)
    return [
        DocumentOfMeaning(
            doc_id=doc_id,
            source=source,
            file=file,
            row=split(doc_id)[2],
            cosine=cosine,
            beginning=texts[doc_id][:SNIPPET],
        )
        for (cosine, doc_id), (source, file) in zip(best, places, strict=True)
    ]


def nearest(ids: Ids, cosines: NDArray[np.float32], most: int) -> Iterator[tuple[float, int]]:
    """Yield the largest cosines and their documents. ids, cosines: (n,)."""
    order = np.lexsort((ids, -cosines))[:most]
    return zip(cosines[order].tolist(), ids[order].tolist(), strict=True)


def vectors_of_judge(corpus: PublishedCorpus, recipe: Recipe, text: str, judge: str) -> Iterator[Cosines]:
    """Yield the published documents of each row group of vectors, and their cosines to the text."""
    for account in corpus.manifest.vectors or ():
        if account.judge == judge:
            wanted = vector_of(corpus, recipe, text, account.source, judge)
            for table in corpus.row_groups(f"vectors/{judge}/{account.source}", ["doc_id", "vector"]):
                numbers = numbers_of(table.column("vector"))
                yield table.column("doc_id").to_numpy(), cosines_of(numbers, wanted)


def vectors_of_round(corpus: PublishedCorpus, dedup_round: Round, text: str) -> Iterator[Cosines]:
    """Yield the documents of some published texts, and their cosines by the model that proposes pairs."""
    model = proposing_model(dedup_round)
    compute, mean = load_similarity(model, device_of(dedup_round)), mean_of(model)

    def numbers_of_texts(texts: pa.ChunkedArray) -> NDArray[np.int8]:
        return small_numbers(compute(texts).vectors, mean)

    wanted = of_length_one(numbers_of_texts(pa.chunked_array([[text]]))[0], model.name)
    for source in corpus.manifest.ledger.sources:
        for table in corpus.row_groups(source, ["doc_id", "text"]):
            for start in range(0, len(table), TEXTS_AT_ONCE):
                part = table.slice(start, TEXTS_AT_ONCE)
                cosines = cosines_of(numbers_of_texts(part.column("text")), wanted)
                yield part.column("doc_id").to_numpy(), cosines


def vector_of(
    corpus: PublishedCorpus, recipe: Recipe, text: str, source: str, judge: str
) -> NDArray[np.float32]:
    """Return the vector of a text by the model of a source's judge: (dims,), of length 1."""
    settings = next((each for each in recipe.judges_of(source) if each.name == judge), None)
    if settings is None:
        raise Denied(f"{corpus.url}: the recipe has no judge {judge} for source {source}, as the corpus has")
    model = judged_model(settings, source)
    origin = next(origin for origin in corpus.manifest.made_of if origin.source == source)
    if model.digest not in (known["digest"] for known in origin.models):
        raise Denied(f"{corpus.url}: the model {model.name} of judge {judge} has changed since the build")
    expect_body(model, settings.max_tokens)
    vector = load_vectors(model, settings.max_tokens, None).vectors(pa.chunked_array([[text]]))[0]
    return of_length_one(vector, judge)


def of_length_one(vector: NDArray[Any], model: str) -> NDArray[np.float32]:
    """Return a vector of length 1. Raises BadRequest if it is zero."""
    length = float(np.linalg.norm(vector := vector.astype(np.float32)))
    if not length:
        raise BadRequest(f"{model} has no vector for the text: none of its parts is known to the model")
    return np.asarray(vector / length, np.float32)


def cosines_of(numbers: NDArray[np.int8], wanted: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the cosines of vectors in 8 bits, (n, dims), to a vector of length 1: (n,); 0 for zeros."""
    exact = numbers.astype(np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", exact, exact))
    return np.divide(exact @ wanted, lengths, out=np.zeros_like(lengths), where=lengths > 0)
