"""Find the published documents whose vectors are most similar to that of a text.

The published vectors of a judge (`publish_vectors`) are compared with the vector of the text, all of them: 192
bytes a document. Only published files, the model and the corpus's register are read, without Prefect and Dask.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.corpus.documents import published_texts
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import BadRequest, Denied
from zyda_flows.tasks.ids import split
from zyda_flows.tasks.lookup.nearest import SNIPPET, places_of
from zyda_flows.tasks.quality.forms import judged_model
from zyda_flows.tasks.quality.stored_vectors import numbers_of
from zyda_flows.tasks.quality.vector_forms import expect_body, load_vectors
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.storage.records import Record


class DocumentOfMeaning(Record):
    """A published document whose vector is similar to that of a text: its place, cosine and beginning."""

    doc_id: int
    source: str
    file: str
    row: int
    cosine: float
    beginning: str


def nearest_in_meaning(recipe: Recipe, text: str, judge: str, most: int = 10) -> list[DocumentOfMeaning]:
    """Return the `most` published documents with the largest cosine to the vector of a text, the largest first.

    Raises BadRequest if no vectors of the judge are published, or the text has no vector. Raises Denied if the
    model has changed since the build.
    """
    if not text.strip():
        raise BadRequest("the text has no characters to look up")
    corpus = PublishedCorpus.of(recipe).expect_ids()
    published = {account.judge: account for account in corpus.manifest.vectors or ()}
    if judge not in published:
        listed = ", ".join(published) or "none"
        raise BadRequest(
            f"{corpus.url}: no vectors of a judge {judge} are published; there are {listed}; name the judge in "
            "`publish_vectors`, and build"
        )
    with corpus.reading():
        best = sorted(scores(corpus, recipe, text, judge, most), key=lambda each: (-each[0], each[1]))[:most]
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


def scores(
    corpus: PublishedCorpus, recipe: Recipe, text: str, judge: str, most: int
) -> Iterator[tuple[float, int]]:
    """Yield the cosine and the id of the nearest documents of each row group."""
    for account in corpus.manifest.vectors or ():
        if account.judge == judge:
            wanted = vector_of(corpus, recipe, text, account.source, judge)
            folder = f"vectors/{judge}/{account.source}"
            for table in corpus.row_groups(folder, ["doc_id", "vector"]):
                cosines = cosines_of(numbers_of(table.column("vector")), wanted)
                ids = table.column("doc_id").to_numpy()
                order = np.lexsort((ids, -cosines))[:most]
                yield from zip(cosines[order].tolist(), ids[order].tolist(), strict=True)


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
    length = float(np.linalg.norm(vector := vector.astype(np.float32)))
    if not length:
        raise BadRequest(f"judge {judge} has no vector for the text: none of its parts is known to the model")
    return np.asarray(vector / length, np.float32)


def cosines_of(numbers: NDArray[np.int8], wanted: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the cosines of vectors in 8 bits, (n, dims), to a vector of length 1: (n,); 0 for zeros."""
    exact = numbers.astype(np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", exact, exact))
    return np.divide(exact @ wanted, lengths, out=np.zeros_like(lengths), where=lengths > 0)
