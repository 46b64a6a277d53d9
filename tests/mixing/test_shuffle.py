"""Test the order of a mixture: each document is equally likely at each position, independently of its neighbours."""

import numpy as np
import pytest
from small_mixtures import corpus_of, mixed_in, mixture_file, origins

from zyda_flows.tasks.mixing import gathering
from zyda_flows.textkernels.packing import pack

SEEDS = 30


@pytest.fixture(scope="module")
def corpus(tmp_path_factory, compiled):
    return corpus_of(tmp_path_factory.mktemp("corpus"), documents=24)


@pytest.fixture(scope="module")
def orders(tmp_path_factory, corpus):
    """Return the shuffled position of each document for each seed: array (seeds, n), in the order of doc_ids."""
    folder = tmp_path_factory.mktemp("orders")
    parts = [{"name": "all", "epochs": 1}]
    ranks = []
    for seed in range(SEEDS):
        mixed, place = mixed_in(
            mixture_file(folder, [corpus], parts=parts, budget=..., seed=seed, file_gib=1e-5)
        )
        assert len(mixed.outputs) > 1  # documents are shuffled across all files
        ids = [row["doc_id"] for output in mixed.outputs for row in origins(place, output.name)]
        ranks.append(np.argsort(np.argsort(ids)))
    return np.array(ranks)


def excess_chi_square(counts, expected):
    """Return the chi-square of the counts as standard deviations above its expectation."""
    counts = np.asarray(counts, float)
    freedom = counts.size - 1
    return (((counts - expected) ** 2 / expected).sum() - freedom) / np.sqrt(2 * freedom)


def position_counts(orders, cells=6):
    """Count the documents of each sixth of the corpus in each sixth of the order: array (6, 6)."""
    seeds, n = orders.shape
    where = np.empty_like(orders)
    np.put_along_axis(where, orders, np.broadcast_to(np.arange(n), orders.shape), axis=1)
    table = np.zeros((cells, cells))
    np.add.at(table, (np.arange(n * seeds) % n * cells // n, where.reshape(-1) * cells // n), 1)
    return table


def neighbour_count(orders):
    """Return the number of pairs that are neighbours in the corpus and in the order."""
    return (np.abs(np.diff(orders, axis=1)) == 1).sum()


@pytest.mark.slow
def test_every_document_is_equally_likely_at_every_position(orders):
    seeds, n = orders.shape
    assert sorted(orders[0].tolist()) == list(range(n))
    table = position_counts(orders)
    assert excess_chi_square(table, seeds * n / 36) < 4
    expected = 2 * seeds * (n - 1) / n
    assert abs(neighbour_count(orders) - expected) < 5 * np.sqrt(expected)


def test_statistics_detect_unshuffled_and_partly_shuffled_orders(orders):
    seeds, n = orders.shape
    unshuffled = np.tile(np.arange(n), (seeds, 1))
    assert excess_chi_square(position_counts(unshuffled), seeds * n / 36) > 100
    chance = np.random.default_rng(1)
    within = np.array(
        [
            np.concatenate([chance.permutation(n // 2), n // 2 + chance.permutation(n - n // 2)])
            for _ in range(seeds)
        ]
    )
    # A shuffle buffer of half the corpus gives such orders.
    assert excess_chi_square(position_counts(within), seeds * n / 36) > 50
    rotated = np.array([np.roll(np.arange(n), chance.integers(n)) for _ in range(seeds)])
    expected = 2 * seeds * (n - 1) / n
    assert abs(neighbour_count(rotated) - expected) > 50 * np.sqrt(expected)


def test_each_seed_gives_a_different_order(orders):
    assert len({tuple(order) for order in orders.tolist()}) == SEEDS


def clustering(labels):
    """Return the clustering of each document's sequences: adjacent pairs, mean distance, longest run."""
    places = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    distances = np.concatenate([np.diff(positions) for positions in places])
    ends = np.flatnonzero(np.append(labels[1:] != labels[:-1], True))
    return (distances == 1).sum(), distances.mean(), np.diff(ends, prepend=-1).max()


@pytest.mark.parametrize(("file_gib", "memory"), [(1, 1 << 27), (1e-5, 1 << 27), (1, 4096), (1e-5, 4096)])
def test_packed_sequences_of_long_documents_are_shuffled_over_all_files(
    corpus, tmp_path, monkeypatch, file_gib, memory
):
    """For documents of up to 38 sequences, the clustering equals that of random permutations."""
    monkeypatch.setattr(gathering, "MEMORY_BYTES", memory)
    parts = [{"name": "all", "epochs": 2}]
    path = mixture_file(tmp_path, [corpus], parts=parts, budget=..., packed=12, file_gib=file_gib)
    mixed, place = mixed_in(path)
    rows = [row for output in mixed.outputs for row in origins(place, output.name)]
    labels = np.array([row["doc_id"] for row in rows if row["tokens"] == 12])  # pieces that fill a sequence
    assert len(labels) > 1000
    assert np.unique(labels, return_counts=True)[1].max() > 60
    chance = np.random.default_rng(1)
    expected = np.array([clustering(chance.permutation(labels)) for _ in range(300)])
    measured, spread = clustering(labels), expected.std(axis=0)
    assert (np.abs(measured - expected.mean(axis=0))[:2] < 4 * spread[:2]).all()
    assert measured[2] <= expected[:, 2].max() + 1
    in_order = clustering(labels[np.argsort(labels, kind="stable")])
    assert (np.abs(in_order - expected.mean(axis=0)) > 50 * spread).all()


def plain_best_fit(lengths, size):
    """Pack by best fit like the kernel; search all sequences for each piece."""
    rooms, placed = [], [0] * len(lengths)
    for i in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        fitting = [(room, -number) for number, room in enumerate(rooms) if room >= lengths[i]]
        if not fitting:
            rooms.append(size)
            fitting = [(size, -(len(rooms) - 1))]
        number = -min(fitting)[1]
        rooms[number] -= lengths[i]
        placed[i] = number
    return placed, len(rooms)


@pytest.mark.parametrize("size", [2, 63, 64, 65, 200, 4096, 5000, 300_000])
def test_packing_is_best_fit_and_contains_every_piece(size):
    chance = np.random.default_rng(size)
    for n in (0, 1, 5, 300):
        for most in (size, max(1, size // 3), min(size, 5)):
            lengths = chance.integers(1, most + 1, n)
            sequences, count = pack(lengths, size)
            sums = np.bincount(sequences, lengths, minlength=count).astype(int) if n else np.empty(0, int)
            assert len(sums) == count
            assert (sums <= size).all()
            assert (sums > 0).all()
            _, expected = plain_best_fit(lengths.tolist(), size)
            assert count == expected


def test_pieces_longer_than_a_sequence_or_empty_raise():
    for lengths in ([0], [5], [-1, 2]):
        with pytest.raises(ValueError, match="expected pieces of 1 to 4 tokens"):
            pack(np.array(lengths), 4)
