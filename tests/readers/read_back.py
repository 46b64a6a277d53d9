"""Read the files of a mixture as trainers do, and write what was read as `.npy`: run with the readers on the path.

python read_back.py PLACE TO CACHE PREFIX ...
"""

import os
import sys
from pathlib import Path

import numpy as np
import torch
from datatrove.pipeline.tokens.tokenizer import TokenizedFile  # noqa: F401 that writes what we do
from datatrove.utils.dataset import DatatroveFileDataset
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.indexed_dataset import IndexedDataset
from olmo_core.data.numpy_dataset import NumpyFSLDataset
from olmo_core.data.utils import iter_document_indices

LENGTH, SAMPLES, SEED = 64, 300, 11


class OurTokenizer:
    """What Megatron asks of a tokenizer."""

    eod = pad = 0
    vocab_size = 4096
    unique_identifiers = {"class": "OurTokenizer"}


def by_megatron(place, to, name):
    """Read every sequence, and the count of documents."""
    found = IndexedDataset(str(place / f"megatron/{name}"))
    sequences = [found[i] for i in range(len(found))]
    np.save(to / f"{name}-megatron.npy", np.concatenate(sequences))
    np.save(to / f"{name}-lengths.npy", np.array([len(one) for one in sequences]))
    np.save(to / f"{name}-documents.npy", found.document_indices)


def by_datatrove(place, to, name):
    """Read all windows of 15 tokens and their label; each begins after the one before."""
    found = DatatroveFileDataset(str(place / f"datatrove/{name}.ds"), seq_len=15, token_size=2)
    windows = [np.asarray(found[i]["input_ids"]) for i in range(len(found))]
    np.save(to / f"{name}-datatrove.npy", np.stack(windows))


def by_olmo(place, to, name):
    """Read all windows of 16 tokens, and where documents begin and end by what lies beside the tokens."""
    path = place / f"olmo/{name}.npy"
    found = NumpyFSLDataset(
        path, sequence_length=16, pad_token_id=0, eos_token_id=0, vocab_size=4096, dtype=np.uint16,
    )  # fmt: skip
    np.save(to / f"{name}-olmo.npy", np.stack([found[i]["input_ids"].numpy() for i in range(len(found))]))
    ends = list(iter_document_indices(path, use_array_if_local=False))
    np.save(to / f"{name}-olmo-documents.npy", np.array(ends))


def samples(place, to, cache, names):
    """Have Megatron make the samples of a run, whose index files it leaves in the cache."""
    config = GPTDatasetConfig(
        random_seed=SEED, sequence_length=LENGTH, blend=([str(place / f"megatron/{name}") for name in names], None),
        split="1,0,0", path_to_cache=str(cache), tokenizer=OurTokenizer(), reset_position_ids=False,
        reset_attention_mask=False, eod_mask_loss=False,
    )  # fmt: skip
    train = BlendedMegatronDatasetBuilder(GPTDataset, [SAMPLES, None, None], lambda: True, config).build()[0]
    found = [np.append(train[i]["tokens"].numpy(), train[i]["labels"].numpy()[-1]) for i in range(SAMPLES)]
    np.save(to / "samples.npy", np.stack(found))


if __name__ == "__main__":
    place, to, cache = map(Path, sys.argv[1:4])
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": os.environ.get("MASTER_PORT", "29531")}
    torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    for one in sys.argv[4:]:
        by_megatron(place, to, one)
        by_datatrove(place, to, one)
        by_olmo(place, to, one)
    samples(place, to, cache, sys.argv[4:])
