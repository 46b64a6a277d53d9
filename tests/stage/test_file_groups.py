"""The shards that share a published file: within limits, and little changed by a changed input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zyda_flows.tasks.stage import file_groups as module
from zyda_flows.tasks.stage.file_groups import file_groups, most_text

PLACES = st.tuples(st.integers(0, 40), st.integers(0, 5), st.integers(0, 3))
SHARDS = st.dictionaries(PLACES, st.integers(0, 12), min_size=1, max_size=60)
LIMIT = 20


def groups_of(shards, limit=LIMIT):
    """Return the groups of shards as tuples of places."""
    places = list(shards)
    names = ["{:06d}-{:03d}-{:03d}".format(*place) for place in places]
    groups = file_groups(names, [shards[place] for place in places], [1] * len(places), limit / 2**20)
    return [tuple(places[i] for i in group) for group in groups]


def by_halving(places, shards, bits):
    """Group the sorted places of shards recursively, by the definition."""
    if not places:
        return []
    if len(places) == 1 or sum(shards[place] for place in places) <= LIMIT:
        return [tuple(places)]
    half = 1 << bits - 1

    def is_upper(place):
        return bool((place[0] << 40 | place[1] << 20 | place[2]) & half)

    lower, upper = ([place for place in places if is_upper(place) == side] for side in (False, True))
    return by_halving(lower, shards, bits - 1) + by_halving(upper, shards, bits - 1)


@given(SHARDS)
def test_groups_are_the_largest_subtrees_within_the_limit(shards):
    groups = groups_of(shards)
    assert groups == by_halving(sorted(shards), shards, 64)
    assert [place for group in groups for place in group] == sorted(shards)


@given(SHARDS, st.randoms(use_true_random=False))
def test_groups_do_not_depend_on_the_order_of_shards(shards, chance):
    places = list(shards)
    chance.shuffle(places)
    assert groups_of({place: shards[place] for place in places}) == groups_of(shards)


@given(SHARDS, PLACES, st.integers(0, 30))
def test_a_changed_shard_leaves_all_groups_outside_its_subtree(shards, place, size):
    """The groups that differ are one group before or after the change, and its parts."""
    before, after = groups_of(shards), groups_of(shards | {place: size})
    left, new = [*{*before} - {*after}], [*{*after} - {*before}]
    assert len(left) <= 1 or len(new) == 1
    old = {other for group in left for other in group}
    assert {other for group in new for other in group} - {place} == old - {place}


def test_appended_inputs_change_the_last_file_only():
    shards, rewritten = {}, []
    for number in range(200):
        before = {*groups_of(shards)} if shards else set()
        shards[number, 0, 0] = 3
        rewritten.append(len({*groups_of(shards)} - before))
    assert max(rewritten) <= 2  # two if the last file is divided
    assert sum(rewritten) / 200 < 1.3


def test_documents_and_shards_of_a_file_are_limited(monkeypatch):
    names = [f"{number:06d}-000-000" for number in range(8)]
    monkeypatch.setattr(module, "MOST_DOCUMENTS", 4)
    assert [len(group) for group in file_groups(names, [0] * 8, [1] * 8, 99 / 2**20)] == [4, 4]
    assert [len(group) for group in file_groups(names, [0] * 8, [9] * 8, 99 / 2**20)] == [1] * 8
    monkeypatch.setattr(module, "MOST_SHARDS", 2)
    assert [len(group) for group in file_groups(names, [0] * 8, [0] * 8, 99 / 2**20)] == [2] * 4
    assert file_groups([], [], [], 99 / 2**20) == []


@pytest.mark.parametrize("number", [999_999, (1 << 24) - 1])
def test_places_ascend_like_documents(number):
    names = [
        f"{number:06d}-001-000",
        f"{number:06d}-000-011",
        f"{number:06d}-000-002",
        f"{number - 1:06d}-099-000",
    ]
    (group,) = file_groups(names, [1] * 4, [1] * 4, 99 / 2**20)
    assert group.tolist() == [3, 2, 1, 0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (0, 2**28),
        (40e9, 2**28),
        (2**36, 2**29),
        (2**37 - 1, 2**29),
        (2**37, 2**30),
        (2**39, 2**32),
        (45e12, 2**32),
    ],
)
def test_default_size_of_files_leaves_many_files_for_the_workers_of_a_source(text, expected):
    assert most_text(None, text) == expected
    assert expected <= 2**28 or text / expected >= 128
