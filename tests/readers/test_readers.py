"""Read the files of a mixture with the libraries of trainers.

`make test-readers` installs these libraries into the folder .readers. Without it these tests are skipped.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from small_corpus import REPOSITORY, TOKENIZER
from small_mixtures import corpus_of, documents, mixed_in, mixture_file, origins
from tokenizers import Tokenizer

from zyda_flows.tasks.mixing.steps import Samples
from zyda_flows.tasks.mixing.tracing import MixtureTracer

READERS = REPOSITORY / ".readers"
pytestmark = pytest.mark.skipif(
    not READERS.is_dir(), reason="make test-readers installs the readers of trainers"
)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def read_back(place, target, names):
    cache = target / "cache"
    cache.mkdir()
    environment = {
        **os.environ,
        "PYTHONPATH": str(READERS),
        "MASTER_PORT": free_port(),
        "PYTHONWARNINGS": "ignore",
    }
    script = Path(__file__).with_name("read_back.py")
    subprocess.run(
        [sys.executable, "-P", script, place, target, cache, *names],
        check=True,
        env=environment,
        capture_output=True,
    )
    return cache


@pytest.mark.parametrize(("packed", "file_gib"), [(..., 1e-5), (100, 10)], ids=["files", "packed"])
def test_trainers_read_all_tokens(tmp_path, compiled, packed, file_gib):
    corpus = corpus_of(tmp_path / "corpus", documents=40)
    path = mixture_file(
        tmp_path,
        [corpus],
        formats=["megatron", "datatrove", "olmo"],
        packed=packed,
        file_gib=file_gib,
        max_epochs=9,
    )
    mixed, place = mixed_in(path)
    names = [output.name for output in mixed.outputs]
    assert (len(names) > 1) == (file_gib < 1)
    cache = read_back(place, tmp_path, names)
    tokenizer, texts_by_id = Tokenizer.from_file(str(TOKENIZER)), documents([corpus])
    flat = {}
    for name in names:
        tokens, lengths = (
            np.load(tmp_path / f"{name}-megatron.npy"),
            np.load(tmp_path / f"{name}-lengths.npy"),
        )
        assert np.load(tmp_path / f"{name}-documents.npy").tolist() == list(range(len(lengths) + 1))
        flat[name] = tokens
        for row in origins(place, name):
            text = texts_by_id["small", row["doc_id"]]["text"]
            ids = [
                *tokenizer.encode(text, add_special_tokens=False).ids,
                tokenizer.token_to_id("<|endoftext|>"),
            ]
            piece = slice(row["offset"], row["offset"] + row["tokens"])
            assert tokens[row["start"] : row["start"] + row["tokens"]].tolist() == ids[piece]
        windows = np.load(tmp_path / f"{name}-datatrove.npy").reshape(-1)
        assert windows.tolist() == tokens[: len(windows)].tolist()
        assert len(tokens) - len(windows) < 16
        olmo_tokens = np.load(tmp_path / f"{name}-olmo.npy").reshape(-1)
        assert olmo_tokens.tolist() == tokens[: len(tokens) // 16 * 16].tolist()
        spans = [[row["start"], row["start"] + row["tokens"]] for row in origins(place, name)]
        assert np.load(tmp_path / f"{name}-olmo-documents.npy").tolist() == spans
    tracer, samples = MixtureTracer.at(str(place)), Samples(str(cache))
    for number, sample in enumerate(np.load(tmp_path / "samples.npy").tolist()):
        pieces = [
            flat[output.name][start:end] for output, start, end in tracer.sample_pieces(samples, number)
        ]
        assert np.concatenate(pieces).tolist() == sample
