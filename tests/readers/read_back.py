"""Read the files of a mixture with the libraries of trainers, and write the tokens as `.npy` files.

The folder of the readers must be on the path: python read_back.py PLACE TARGET CACHE PREFIX ...
"""

import os
import sys
from pathlib import Path

import numpy as np
import torch
from datatrove.pipeline.tokens.tokenizer import TokenizedFile  # noqa: F401 writes the same format
from datatrove.utils.dataset import DatatroveFileDataset
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.indexed_dataset import IndexedDataset
from olmo_core.data.numpy_dataset import NumpyFSLDataset
from olmo_core.data.utils import iter_document_indices

LENGTH, SAMPLES, SEED = 64, 300, 11


class OurTokenizer:
    """The attributes of a tokenizer that Megatron reads."""

    eod = pad = 0
    vocab_size = 4096
    unique_identifiers = {"class": "OurTokenizer"}


def by_megatron(place, target, name):
    """Save the tokens and lengths of all sequences, and the bounds of documents."""
    dataset = IndexedDataset(str(place / f"megatron/{name}"))
    sequences = [dataset[i] for i in range(len(dataset))]
    np.save(target / f"{name}-megatron.npy", np.concatenate(sequences))
    np.save(target / f"{name}-lengths.npy", np.array([len(sequence) for sequence in sequences]))
    np.save(target / f"{name}-documents.npy", dataset.document_indices)


def by_datatrove(place, target, name):
    """Save all windows of 15 tokens and their label. Windows do not overlap."""
    dataset = DatatroveFileDataset(str(place / f"datatrove/{name}.ds"), seq_len=15, token_size=2)
    windows = [np.asarray(dataset[i]["input_ids"]) for i in range(len(dataset))]
    np.save(target / f"{name}-datatrove.npy", np.stack(windows))


def by_olmo(place, target, name):
    """Save all windows of 16 tokens, and the bounds of documents from the companion file."""
    path = place / f"olmo/{name}.npy"
    dataset = NumpyFSLDataset(
        path, sequence_length=16, pad_token_id=0, eos_token_id=0, vocab_size=4096, dtype=np.uint16,
    )  # fmt: skip
    np.save(
        target / f"{name}-olmo.npy", np.stack([dataset[i]["input_ids"].numpy() for i in range(len(dataset))])
    )
    ends = list(iter_document_indices(path, use_array_if_local=False))
    np.save(target / f"{name}-olmo-documents.npy", np.array(ends))


def samples(place, target, cache, names):
    """Save the samples of a run by Megatron, which writes its index files into the cache."""
    config = GPTDatasetConfig(
        random_seed=SEED, sequence_length=LENGTH, blend=([str(place / f"megatron/{name}") for name in names], None),
        split="1,0,0", path_to_cache=str(cache), tokenizer=OurTokenizer(), reset_position_ids=False,
        reset_attention_mask=False, eod_mask_loss=False,
    )  # fmt: skip
    train = BlendedMegatronDatasetBuilder(GPTDataset, [SAMPLES, None, None], lambda: True, config).build()[0]
    sample_tokens = [
        np.append(train[i]["tokens"].numpy(), train[i]["labels"].numpy()[-1]) for i in range(SAMPLES)
    ]
    np.save(target / "samples.npy", np.stack(sample_tokens))


if __name__ == "__main__":
    place, target, cache = map(Path, sys.argv[1:4])
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": os.environ.get("MASTER_PORT", "29531")}
    torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    for name in sys.argv[4:]:
        by_megatron(place, target, name)
        by_datatrove(place, target, name)
        by_olmo(place, target, name)
    samples(place, target, cache, sys.argv[4:])
