"""The order of a mixture: any document is as likely in any place, whatever it was beside."""

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
    """Give the order of the documents of a corpus by many seeds: (seeds, n) places in the order of doc_ids."""
    folder = tmp_path_factory.mktemp("orders")
    parts = [{"name": "all", "epochs": 1}]
    found = []
    for seed in range(SEEDS):
        mixed, place = mixed_in(
            mixture_file(folder, [corpus], parts=parts, budget=..., seed=seed, file_gib=1e-5)
        )
        assert len(mixed.outputs) > 1  # the order is one over all files
        ids = [row["doc_id"] for output in mixed.outputs for row in origins(place, output.name)]
        found.append(np.argsort(np.argsort(ids)))
    return np.array(found)


def surprise(counts, expected):
    """Return by how many standard deviations the chi-square of counts is above what chance gives."""
    counts = np.asarray(counts, float)
    freedom = counts.size - 1
    return (((counts - expected) ** 2 / expected).sum() - freedom) / np.sqrt(2 * freedom)


def by_place(orders, cells=6):
    """Count how often the documents of each sixth of a corpus are in each sixth of the order: (6, 6)."""
    seeds, n = orders.shape
    where = np.empty_like(orders)
    np.put_along_axis(where, orders, np.broadcast_to(np.arange(n), orders.shape), axis=1)
    table = np.zeros((cells, cells))
    np.add.at(table, (np.arange(n * seeds) % n * cells // n, where.reshape(-1) * cells // n), 1)
    return table


def neighbours(orders):
    """Count how often two documents that are neighbours in the corpus are neighbours in the order, too."""
    return (np.abs(np.diff(orders, axis=1)) == 1).sum()


@pytest.mark.slow
def test_every_document_is_as_likely_in_every_place(orders):
    seeds, n = orders.shape
    assert sorted(orders[0].tolist()) == list(range(n))
    table = by_place(orders)
    assert surprise(table, seeds * n / 36) < 4
    expected = 2 * seeds * (n - 1) / n
    assert abs(neighbours(orders) - expected) < 5 * np.sqrt(expected)


def test_those_tests_would_see_an_order_that_is_not_shuffled_or_only_in_parts(orders):
    seeds, n = orders.shape
    unshuffled = np.tile(np.arange(n), (seeds, 1))
    assert surprise(by_place(unshuffled), seeds * n / 36) > 100
    chance = np.random.default_rng(1)
    within = np.array(
        [
            np.concatenate([chance.permutation(n // 2), n // 2 + chance.permutation(n - n // 2)])
            for _ in range(seeds)
        ]
    )
    assert surprise(by_place(within), seeds * n / 36) > 50  # as by a buffer of half the corpus
    rotated = np.array([np.roll(np.arange(n), chance.integers(n)) for _ in range(seeds)])
    expected = 2 * seeds * (n - 1) / n
    assert abs(neighbours(rotated) - expected) > 50 * np.sqrt(expected)


def test_seeds_give_different_orders_and_one_seed_one(orders):
    assert len({tuple(order) for order in orders.tolist()}) == SEEDS


def together(labels):
    """Measure how the sequences of documents stand together: neighbours, mean distance, longest run."""
    places = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    distances = np.concatenate([np.diff(of_label) for of_label in places])
    ends = np.flatnonzero(np.append(labels[1:] != labels[:-1], True))
    return (distances == 1).sum(), distances.mean(), np.diff(ends, prepend=-1).max()


@pytest.mark.parametrize(("file_gib", "memory"), [(1, 1 << 27), (1e-5, 1 << 27), (1, 4096), (1e-5, 4096)])
def test_packed_sequences_of_long_documents_are_shuffled_over_all(
    corpus, tmp_path, monkeypatch, file_gib, memory
):
    """Documents of up to 38 sequences: neighbours, distances and runs are those of random permutations."""
    monkeypatch.setattr(gathering, "MEMORY_BYTES", memory)
    parts = [{"name": "all", "epochs": 2}]
    path = mixture_file(tmp_path, [corpus], parts=parts, budget=..., packed=12, file_gib=file_gib)
    mixed, place = mixed_in(path)
    rows = [row for output in mixed.outputs for row in origins(place, output.name)]
    labels = np.array([row["doc_id"] for row in rows if row["tokens"] == 12])  # alone in their sequences
    assert len(labels) > 1000
    assert np.unique(labels, return_counts=True)[1].max() > 60
    chance = np.random.default_rng(1)
    expected = np.array([together(chance.permutation(labels)) for _ in range(300)])
    found, spread = together(labels), expected.std(axis=0)
    assert (np.abs(found - expected.mean(axis=0))[:2] < 4 * spread[:2]).all()
    assert found[2] <= expected[:, 2].max() + 1
    in_order = together(labels[np.argsort(labels, kind="stable")])
    assert (np.abs(in_order - expected.mean(axis=0)) > 50 * spread).all()


def plain_best_fit(lengths, size):
    """Pack as the kernel does, by looking at every sequence."""
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
def test_packing_is_best_fit_and_holds_every_piece(size):
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


def test_pieces_that_fit_nowhere_are_an_error():
    for lengths in ([0], [5], [-1, 2]):
        with pytest.raises(ValueError, match="expected pieces of 1 to 4 tokens"):
            pack(np.array(lengths), 4)
