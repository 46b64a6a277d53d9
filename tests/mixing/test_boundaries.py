"""Test the boundaries of documents beside packed sequences: readers rebuild every document from them."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_mixtures import END, documents, megatron, mixed_in, mixture_file, origins

from zyda_flows.tasks.errors import NotConserved
from zyda_flows.tasks.mixing.boundaries import Boundaries
from zyda_flows.tasks.mixing.formats import Batch, ParquetOfTokens, Target
from zyda_flows.tasks.mixing.gathering import ORIGINS

PACKED = 64
SEQUENCES = st.lists(
    st.lists(st.integers(1, 5), min_size=1, max_size=6).filter(lambda sizes: sum(sizes) <= 16), max_size=8
)


def read_boundaries(folder):
    """Return the boundaries of each sequence, and its tokens of documents."""
    ends, offsets, used = (
        np.load(folder / f"{name}.npy") for name in ("cu_seqlens", "offsets", "document_tokens")
    )
    assert (ends.dtype, offsets.dtype, used.dtype) == (np.int32, np.int64, np.int32)
    return [ends[a:b].tolist() for a, b in pairwise(offsets)], used.tolist()


@pytest.mark.parametrize("order", ["shuffled", "epochs"])
def test_documents_are_rebuilt_from_sequences_and_boundaries(corpora, tokenizer, tmp_path, order):
    options = {"packed": PACKED, "validation": {"share": 0.2}, "file_gib": 3e-5, "order": order}
    mixed, place = mixed_in(mixture_file(tmp_path, corpora, formats=["megatron", "parquet"], **options))
    end, texts = tokenizer.token_to_id(END), documents(corpora)
    assert len(mixed.outputs) > 2
    rebuilt = {}
    for output in mixed.outputs:
        folder = place / f"boundaries/{output.name}"
        assert {str(file.relative_to(place.parent)) for file in folder.iterdir()} <= {
            file.path for file in output.files
        }
        sequences, (boundaries, used) = megatron(place, output.name), read_boundaries(folder)
        assert len(sequences) == len(boundaries) == len(used) == output.sequences
        lengths = pq.read_table(place / f"parquet/{output.name}.parquet").column("seq_lengths").to_pylist()
        pieces = []
        for ids, ends, tokens, sizes in zip(sequences, boundaries, used, lengths, strict=True):
            assert (ends[0], ends[-1]) == (0, PACKED)
            assert ends == sorted(set(ends))
            assert set(ids[tokens:].tolist()) <= {end}
            own = [ids[a:b].tolist() for a, b in pairwise(ends) if b <= tokens]
            assert sum(map(len, own)) == tokens
            assert sizes == [*map(len, own), *[1] * (PACKED - tokens)]
            pieces += own
        rows = origins(place, output.name)
        assert len(rows) == len(pieces)
        for row, piece in zip(rows, pieces, strict=True):
            rebuilt.setdefault((row["corpus"], row["doc_id"], row["copy"]), {})[row["offset"]] = piece
        assert sum(PACKED - tokens for tokens in used) == output.padded
    labels = ["small", "second"]
    for (corpus, doc_id, _), by_offset in rebuilt.items():
        ids = [token for offset in sorted(by_offset) for token in by_offset[offset]]
        text = texts[labels[corpus], doc_id]["text"]
        assert ids == [*tokenizer.encode(text, add_special_tokens=False).ids, end]
    assert len(rebuilt) == sum(part.copies + part.held_out for part in mixed.parts)


def batch_of(sequences, size, first=0):
    """Return a batch of packed sequences of documents with these lengths. first: number of the first sequence."""
    rows = [
        {"start": (first + number) * size, "tokens": tokens, "sequence": first + number}
        for number, lengths in enumerate(sequences)
        for tokens in lengths
    ]
    columns = {
        field.name: pa.array([row.get(field.name, 0) for row in rows], field.type) for field in ORIGINS
    }
    ids = np.zeros(len(sequences) * size, "<u2")
    return Batch(ids, np.arange(len(sequences) + 1) * size, pa.table(columns, schema=ORIGINS))


@given(batches=st.lists(SEQUENCES, max_size=3))
def test_boundaries_of_any_sequences_equal_sums_of_lengths(batches, tmp_path_factory):
    folder = tmp_path_factory.mktemp("boundaries")
    (folder / "parquet").mkdir()
    target = Target(folder, "train-00000", 2, "a tokenizer", (), is_packed=True)
    writers = [Boundaries(target), ParquetOfTokens(Target(folder / "parquet", *vars_of(target)[1:]))]
    first = 0
    for sequences in batches:
        for writer in writers:
            writer.add(batch_of(sequences, 16, first))
        first += len(sequences)
    for writer in writers:
        writer.close()
        writer.check(16 * first)
        with pytest.raises(NotConserved):
            writer.check(16 * first + 1)
    every = [lengths for sequences in batches for lengths in sequences]
    boundaries, used = read_boundaries(folder / "train-00000")
    assert used == [sum(lengths) for lengths in every]
    assert boundaries == [[0, *np.cumsum(lengths).tolist(), *[16] * (sum(lengths) < 16)] for lengths in every]
    listed = pq.read_table(folder / "parquet/train-00000.parquet").column("seq_lengths").to_pylist()
    assert listed == [[*lengths, *[1] * (16 - sum(lengths))] for lengths in every]


def vars_of(target):
    return target.folder, target.name, target.width, target.tokenizer, target.labels, target.is_packed
