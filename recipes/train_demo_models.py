"""Train the demo's tokenizer and quality model on the demo's own text, in a few minutes of CPU.

    zyda demo demo
    python recipes/train_demo_models.py demo/sources recipes/models

Both are toys that stand where real ones go, so that the demo needs no network. The tokenizer is a
byte-level BPE of 4,096 tokens in the form of GPT-NeoX's. The quality model is a DeBERTa-v2 of 0.4
million parameters in the form of nvidia/quality-classifier-deberta. It learned to repeat `teacher`,
a rule that looks at the shape of the text and knows nothing of its worth.
"""

import argparse
import json
import re
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch import nn
from transformers import DebertaV2Config, PreTrainedTokenizerFast

from zyda_flows.tasks.quality.torch_networks import HeadOnFirst
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.sources.listing import list_files
from zyda_flows.tasks.sources.reading import inspect, read

VOCABULARY = 4096
MAX_TOKENS = 128
LABELS = {"0": "High", "1": "Medium", "2": "Low"}
EPOCHS = 4
BATCH = 32


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the demo's tokenizer and quality model.")
    parser.add_argument("sources", type=Path, help="what zyda demo gathered")
    parser.add_argument("models", type=Path, help="where to put both")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    texts = load_texts(arguments.sources)
    tokenizer = train_tokenizer(texts)
    arguments.models.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(arguments.models / "demo-tokenizer.json"))
    train_quality(texts, tokenizer, arguments.models / "demo-quality")


def load_texts(folder: Path) -> list[str]:
    texts = list[str]()
    for pattern in ("*.parquet", "*.arrow", "*.jsonl.*z*"):
        source = Source(name="demo", files=(f"{folder.resolve()}/{pattern}",))
        for file in list_files(source):
            for piece in inspect("demo", file, "text", 1 << 30, may_be_bad=False).file.pieces:
                for chunk in read("demo", file, piece, "text"):
                    texts += chunk.table.column("text").to_pylist()
    return sorted(set(texts))


def train_tokenizer(texts: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<|endoftext|>", "<|padding|>", "[CLS]", "[SEP]"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def teacher(text: str) -> int:
    """Label a text by its shape: 0 for prose in sentences, 1 for some of it, 2 for little."""
    words = re.findall(r"[A-Za-z']+", text[:2000])
    if not words:
        return 2
    letters = sum(map(len, words)) / len(text[:2000])
    in_sentences = len(re.findall(r"[a-z,;] [a-z]+", text[:2000])) / len(words)
    worth = letters + in_sentences
    return 0 if worth > 1.15 else 1 if worth > 0.95 else 2


def train_quality(texts: list[str], tokenizer: Tokenizer, folder: Path) -> None:
    """Train the network to repeat the teacher and save it in half precision."""
    save_tokenizer(tokenizer, folder)
    (folder / "config.json").write_text(
        json.dumps({"base_model": "backbone", "fc_dropout": 0.1, "id2label": LABELS}, indent=1)
    )
    backbone = DebertaV2Config(
        vocab_size=VOCABULARY, hidden_size=64, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=128, max_position_embeddings=1024, relative_attention=True,
        position_buckets=64, pos_att_type=["p2c", "c2p"], share_att_key=True, norm_rel_ebd="layer_norm",
        position_biased_input=False, type_vocab_size=0, pad_token_id=1,
    )  # fmt: skip
    backbone.save_pretrained(folder / "backbone")
    network = HeadOnFirst(folder)
    labels = np.array([teacher(text) for text in texts])
    print("labels of the teacher:", dict(zip(LABELS.values(), np.bincount(labels, minlength=3), strict=True)))
    ids = torch.ones(len(texts), MAX_TOKENS, dtype=torch.long)
    for i, encoding in enumerate(tokenizer.encode_batch([text[:2000] for text in texts])):
        first = [2, *encoding.ids[: MAX_TOKENS - 2], 3]
        ids[i, : len(first)] = torch.tensor(first)
    fit(network, ids, torch.from_numpy(labels))
    state = {name: weight.half().contiguous() for name, weight in network.state_dict().items()}
    save_file(state, folder / "model.safetensors")


def save_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, cls_token="[CLS]", sep_token="[SEP]", pad_token="<|padding|>"
    ).save_pretrained(folder)
    tokenizer.post_processor = processors.ByteLevel()


def fit(network: nn.Module, ids: torch.Tensor, labels: torch.Tensor) -> None:
    order = torch.randperm(len(ids))
    held_out, train = order[: len(ids) // 10], order[len(ids) // 10 :]
    optimiser = torch.optim.AdamW(network.parameters(), lr=2e-3)
    network.train()
    for epoch in range(EPOCHS):
        for batch in train[torch.randperm(len(train))].split(BATCH):
            loss = nn.functional.cross_entropy(network(ids[batch], (ids[batch] != 1).long()), labels[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        print(
            f"epoch {epoch + 1}: agrees with the teacher on {agreement(network, ids, labels, held_out):.0%}"
        )


@torch.inference_mode()
def agreement(network: nn.Module, ids: torch.Tensor, labels: torch.Tensor, chosen: torch.Tensor) -> float:
    network.eval()
    outputs = torch.cat([network(ids[part], (ids[part] != 1).long()) for part in chosen.split(BATCH)])
    network.train()
    return float((outputs.argmax(1) == labels[chosen]).float().mean())


if __name__ == "__main__":
    main()
