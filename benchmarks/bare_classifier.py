"""Measure a model of DeBERTa-v3-base's size with random weights on a GPU, as a part of `benchmarks.bare_gpu`."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from benchmarks.harness import Row, timed
from zyda_flows.tasks.quality.batches import batches

PAGE_BYTES = 3000  # mean length of a web page, whose lengths are about lognormal
DOCUMENTS = 4000  # to classify
PAD = 64  # batches are padded to multiples, for which products of matrices are fast
BYTES_PER_TOKEN = 3.5
BFLOAT16 = 0.01  # largest difference of answers, which are about 0.05; on a CPU it is 0.003
DEBERTA = {
    "vocab_size": 128_100, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
    "intermediate_size": 3072, "max_position_embeddings": 512, "relative_attention": True, "position_buckets": 256,
    "pos_att_type": ["p2c", "c2p"], "norm_rel_ebd": "layer_norm", "share_att_key": True, "num_labels": 1,
    "position_biased_input": False, "type_vocab_size": 0,
}  # fmt: skip
MAX_TOKENS, TOKENS_PER_BATCH = 1024, 131_072
COMPILER = "inductor"
GOALS = {"shards, from file to file": 2.5, "classifier, compiled": 1500.0}


def row(work: str, unit: str, speed: float) -> Row:
    return {"work": work, "": unit, "speed": speed, "goal": GOALS.get(work, float("nan"))}


def page_sizes(count: int) -> Any:
    """Return the lengths of `count` web pages in bytes."""
    return np.exp(np.random.default_rng(0).normal(np.log(PAGE_BYTES) - 0.5, 1, count)).astype(int) + 50


def classifier() -> Iterator[Row]:
    """Measure documents a second, in batches of texts of similar lengths, without and with torch's compiler."""
    import torch
    from transformers import DebertaV2Config, DebertaV2ForSequenceClassification

    on_gpu = torch.cuda.is_available()
    torch.manual_seed(0)
    network = DebertaV2ForSequenceClassification(DebertaV2Config(**DEBERTA)).eval()
    network.to("cuda" if on_gpu else "cpu", torch.bfloat16 if on_gpu else torch.float32)
    lengths = np.minimum(page_sizes(DOCUMENTS) / BYTES_PER_TOKEN, MAX_TOKENS).astype(int).tolist()
    inputs = [padded_batch(torch, [lengths[i] for i in places], network.device)
              for places in batches(lengths, TOKENS_PER_BATCH)]  # fmt: skip

    @torch.inference_mode()
    def classify(some: Iterable[Any]) -> Any:
        return (
            torch.cat([network(input_ids=ids, attention_mask=mask).logits for ids, mask in some])
            .float()
            .cpu()
        )

    def speed() -> float:
        return len(lengths) / timed(lambda: classify(inputs))[1]

    ends = [inputs[0], inputs[-1]]  # the longest texts, and the shortest
    expected = classify(ends)
    yield row("classifier, not compiled", "documents/s", speed())
    for layer in network.deberta.encoder.layer:  # all layers use the code that is compiled for the first
        layer.compile(dynamic=True, backend=COMPILER)
    answers, compiling = timed(lambda: classify(ends))
    if not (answers - expected).abs().max() <= BFLOAT16:
        raise SystemExit(
            "the compiled model gives other answers: please report it, with the version of torch"
        )
    yield row("classifier, compiling", "seconds", compiling)
    yield row("classifier, compiled", "documents/s", speed())


def padded_batch(torch: Any, lengths: list[int], device: Any) -> tuple[Any, Any]:
    """Return random token ids for texts of some lengths, and the mask of their tokens, both (n, longest) int64."""
    longest = -(-max(lengths) // PAD) * PAD
    ids = torch.randint(4, DEBERTA["vocab_size"], (len(lengths), longest), device=device)
    mask = torch.arange(longest, device=device)[None, :] < torch.tensor(lengths, device=device)[:, None]
    return ids * mask, mask.long()
