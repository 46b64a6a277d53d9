"""Measure a quality model of DeBERTa-v3-base's size: documents per second, beside transformers without our batches.

The weights are random: the speed does not depend on them. If PyTorch has a GPU, it is used, with bfloat16
weights.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from transformers import AutoTokenizer, DebertaV2Config, DebertaV2ForSequenceClassification

from benchmarks.bare_classifier import DEBERTA
from benchmarks.corpora import load_texts
from benchmarks.harness import DEMO, REPOSITORY, Size, Table, TextsFolder, benchmark, shortest_time, timed
from zyda_flows.tasks.quality.batches import batches
from zyda_flows.tasks.quality.torch_models import TOKENS_PER_BATCH, Classifier

MAX_TOKENS = 1024
BATCH = 8  # the largest batch that fits into memory if documents are taken in their order
CHARACTERS = 3000  # mean length of a web page


def write_model(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(REPOSITORY / "recipes/models/demo-quality")
    config = DebertaV2Config(**{**DEBERTA, "vocab_size": len(tokenizer)})
    DebertaV2ForSequenceClassification(config).eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def cut_to_web_pages(texts: list[str], count: int) -> list[str]:
    """Cut `count` texts with the lengths of web pages, which are about lognormal."""
    chance = np.random.default_rng(0)
    whole = "".join(texts)
    sizes = np.exp(chance.normal(np.log(CHARACTERS) - 0.5, 1, count)).astype(int) + 50
    starts = chance.integers(0, len(whole) - int(sizes.max()), count)
    return [whole[start : start + size] for start, size in zip(starts, sizes, strict=True)]


def by_transformers(classifier: Classifier, texts: list[str], batch: int) -> list[tuple[int, int]]:
    """Classify with transformers alone, in the order of the texts; return (tokens, padded tokens) of each batch."""
    sizes = list[tuple[int, int]]()
    for i in range(0, len(texts), batch):
        inputs = classifier.tokenizer(
            texts[i : i + batch], truncation=True, max_length=MAX_TOKENS, padding=True, return_tensors="pt"
        ).to(classifier.device)
        with torch.inference_mode():
            classifier.network(inputs["input_ids"], inputs["attention_mask"]).float().cpu()
        sizes.append((int(inputs["attention_mask"].sum()), inputs["input_ids"].numel()))
    return sizes


def our_batch_sizes(classifier: Classifier, texts: list[str]) -> list[tuple[int, int]]:
    """Return (tokens, padded tokens) of each batch of ours."""
    lengths = [len(ids) for ids in classifier.encode(texts)]
    return [(sum(lengths[i] for i in places), len(places) * max(lengths[i] for i in places))
            for places in batches(lengths, TOKENS_PER_BATCH[classifier.device])]  # fmt: skip


@benchmark("classifier")
def measure(folder: TextsFolder = DEMO, documents: Size = 12) -> Iterator[Table]:
    texts = cut_to_web_pages(load_texts(folder).to_pylist(), int(documents))
    with tempfile.TemporaryDirectory() as scratch:
        write_model(Path(scratch))
        classifier = Classifier(Path(scratch), MAX_TOKENS)
    classifier.logits(texts[:4])
    fastest = shortest_time(lambda: classifier.logits(texts), 1)
    measured = {"zyda-flows": (our_batch_sizes(classifier, texts), fastest)}
    for name, batch in ((f"transformers, {BATCH} at a time", BATCH), ("transformers, one at a time", 1)):
        measured[name] = timed(lambda batch=batch: by_transformers(classifier, texts, batch))
    tokenising = shortest_time(lambda: classifier.encode(texts), 1)
    on_gpu = classifier.device == "cuda"
    cores = 1 if on_gpu else torch.get_num_threads()
    yield Table(f"classifier, documents a second of one {'GPU' if on_gpu else 'core'}", [
        {"work": name, "documents/s": len(texts) / spent / cores,
         "tokens/s": sum(t for t, _ in sizes) / spent / cores,
         "padding, %": 100 * (1 - sum(t for t, _ in sizes) / sum(p for _, p in sizes)),
         "tokenising, %": 100 * tokenising / spent, "zyda-flows is faster by": spent / fastest}
        for name, (sizes, spent) in measured.items()
    ])  # fmt: skip


if __name__ == "__main__":
    measure.main()
