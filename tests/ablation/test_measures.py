"""Bits per byte and nats of continuations equal those of single texts, computed one after another."""

import numpy as np
import pytest
import torch
from small_corpus import prose

from zyda_flows.tasks.ablation import measures
from zyda_flows.tasks.ablation.measures import bits_per_byte, continuation_nats, document_nats
from zyda_flows.tasks.ablation.model import new_model, shapes
from zyda_flows.tasks.tokens.engine import TokenIds

VOCABULARY, SEQUENCE = 97, 16


@pytest.fixture(scope="module")
def model():
    made = new_model(next(shapes(VOCABULARY)), SEQUENCE, 3)
    with torch.no_grad():  # of a random model all tokens are as likely
        made.get_input_embeddings().weight.mul_(30)
    return made.eval()


def plain_nats(model, ids):
    """Return the negative log likelihood of each token but the first."""
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([ids])).logits[0].double()
    logs = torch.log_softmax(logits, dim=-1)
    return [-float(logs[place, token]) for place, token in enumerate(ids[1:])]


def ids_of(name, count):
    return [byte % VOCABULARY for byte in prose(name, count).encode()[:count]]


def test_nats_of_documents(model, monkeypatch):
    monkeypatch.setattr(measures, "TOKENS_AT_ONCE", 40)
    documents = [ids_of("a", 5), ids_of("b", 16), ids_of("c", 1), ids_of("d", 17), ids_of("e", 40)]
    tokens = TokenIds(
        np.concatenate(documents).astype(np.uint32), np.cumsum([0, *map(len, documents)]).astype(np.int64)
    )
    expected = [
        sum(sum(plain_nats(model, ids[start : start + 16])) for start in range(0, max(0, len(ids) - 1), 15))
        for ids in documents
    ]
    assert document_nats(model, tokens, SEQUENCE) == pytest.approx(expected, rel=1e-5)


def test_nats_of_continuations(model):
    pairs = [
        (ids_of("a", 5), ids_of("b", 4)),
        (ids_of("c", 1), ids_of("d", 9)),
        (ids_of("e", 30), ids_of("f", 3)),
    ]
    expected = [
        sum(plain_nats(model, [*pairs[0][0], *pairs[0][1]])[-4:]),
        sum(plain_nats(model, [*pairs[1][0], *pairs[1][1]])[-9:]),
        sum(plain_nats(model, [*pairs[2][0][-13:], *pairs[2][1]])[-3:]),
    ]
    assert continuation_nats(model, pairs, SEQUENCE) == pytest.approx(expected, rel=1e-5)


def test_long_continuation_is_read_in_windows(model):
    context, long = ids_of("g", 7), ids_of("h", 3 * SEQUENCE)
    whole = [context[-1], *long]
    starts = range(0, len(whole) - 1, SEQUENCE - 1)
    expected = sum(sum(plain_nats(model, whole[start : start + SEQUENCE])) for start in starts)
    assert continuation_nats(model, [(context, long)], SEQUENCE) == pytest.approx([expected], rel=1e-5)


def test_bits_per_byte_of_texts_together():
    assert bits_per_byte(np.log([2.0, 8.0]), np.array([3, 5])) == pytest.approx(4 / 8)
