"""A quality model of DeBERTa-v3-base's size: documents per second, ours and plain transformers'.

python -m benchmarks.classifier [FOLDER] [DOCUMENTS]

The weights are random: what is measured does not depend on what the model says. On a GPU, if PyTorch
finds one, with bfloat16 weights for both.
"""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from transformers import AutoTokenizer, DebertaV2Config, DebertaV2ForSequenceClassification

from benchmarks.measure import DEMO, REPOSITORY, as_workers_are, load_texts, seconds, show
from zyda_flows.tasks.quality.torch_models import TOKENS_PER_BATCH, Classifier, batches

MAX_TOKENS = 1024
BATCH = 8  # what a script that takes documents as they come can afford
CHARACTERS = 3000  # of a web page, in the mean


def write_model(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(REPOSITORY / "recipes/models/demo-quality")
    config = DebertaV2Config(
        vocab_size=len(tokenizer), hidden_size=768, num_hidden_layers=12, num_attention_heads=12,
        intermediate_size=3072, max_position_embeddings=512, relative_attention=True, position_buckets=256,
        pos_att_type=["p2c", "c2p"], norm_rel_ebd="layer_norm", share_att_key=True, position_biased_input=False,
        type_vocab_size=0, num_labels=1,
    )  # fmt: skip
    DebertaV2ForSequenceClassification(config).eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def web_like(texts: list[str], count: int) -> list[str]:
    """Cut real text to the lengths of web pages, which are lognormal about."""
    chance = np.random.default_rng(0)
    whole = "".join(texts)
    sizes = np.exp(chance.normal(np.log(CHARACTERS) - 0.5, 1, count)).astype(int) + 50
    starts = chance.integers(0, len(whole) - int(sizes.max()), count)
    return [whole[start : start + size] for start, size in zip(starts, sizes, strict=True)]


def plain(classifier: Classifier, texts: list[str], batch: int) -> Iterator[tuple[int, int]]:
    """Classify with transformers alone, in the order of the texts; yield tokens and padded tokens."""
    for i in range(0, len(texts), batch):
        inputs = classifier.tokenizer(
            texts[i : i + batch], truncation=True, max_length=MAX_TOKENS, padding=True, return_tensors="pt"
        ).to(classifier.device)
        with torch.inference_mode():
            classifier.network(inputs["input_ids"], inputs["attention_mask"]).float().cpu()
        yield int(inputs["attention_mask"].sum()), inputs["input_ids"].numel()


def main(documents: int = 12) -> None:
    arguments = dict(enumerate(sys.argv))
    texts = load_texts(Path(arguments.get(1, DEMO))).to_pylist()
    texts = web_like(texts, int(arguments.get(2, documents)))
    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder))
        classifier = Classifier(Path(folder), MAX_TOKENS)
    classifier.logits(texts[:4])
    lengths = [len(ids) for ids in classifier.encode(texts)]
    ours = [(sum(lengths[i] for i in places), len(places) * max(lengths[i] for i in places))
            for places in batches(lengths, TOKENS_PER_BATCH[classifier.device])]  # fmt: skip
    measured = {"zyda-flows": (seconds(lambda: classifier.logits(texts), 1), ours)}
    for name, batch in (
        (f"transformers, {BATCH} at a time", BATCH),
        ("transformers, one at a time", 1),
    ):
        sizes = list[tuple[int, int]]()
        measured[name] = (
            seconds(lambda batch=batch, sizes=sizes: sizes.extend(plain(classifier, texts, batch)), 1), sizes
        )  # fmt: skip
    tokenising = seconds(lambda: classifier.encode(texts), 1)
    fastest = measured["zyda-flows"][0]
    cores = 1 if classifier.device == "cuda" else torch.get_num_threads()
    show(
        f"classifier, documents a second of one {'GPU' if classifier.device == 'cuda' else 'core'}",
        [
            {"what": name, "documents/s": len(texts) / spent / cores,
             "tokens/s": sum(t for t, _ in sizes) / spent / cores,
             "padding, %": 100 * (1 - sum(t for t, _ in sizes) / sum(p for _, p in sizes)),
             "tokenising, %": 100 * tokenising / spent, "zyda-flows is faster by": spent / fastest}
            for name, (spent, sizes) in measured.items()
        ],
    )  # fmt: skip


if __name__ == "__main__":
    as_workers_are()
    main()
