"""Looking keys up in band keys equals a search through all of them, and reads few row groups."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from zyda_flows.tasks.signatures import bands
from zyda_flows.tasks.signatures.lookup import collisions, looked_up, row_groups_with
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import write_artifact

keys_of_documents = st.lists(st.integers(0, 40), max_size=60)


@settings(deadline=None, max_examples=60)
@given(keys_of_documents, keys_of_documents, st.integers(1, 3), st.booleans())
def test_look_up_equals_a_search_through_all_keys(tmp_path_factory, there, wanted, most, is_wide):
    folder = Folder(str(tmp_path_factory.mktemp("keys")))

    def keys_from(numbers):
        keys = np.array(numbers, np.uint64).reshape(-1) * np.uint64(2**58)
        return np.stack([keys, keys % np.uint64(3)], axis=1) if is_wide else keys

    keys, ids = keys_from(there), np.arange(len(there), dtype=np.uint64)
    schema = bands.rows_schema(is_wide=is_wide)
    shard = write_artifact(
        folder, "keys.parquet", "000-00000",
        lambda path: bands.write_band_rows(path, [(0, keys, ids)] if len(ids) else [], schema, 4),
    )  # fmt: skip
    read_keys, read_ids = looked_up(folder, shard, keys_from(wanted), most)
    expected = [
        (number, doc_id)
        for number in sorted(set(wanted))
        for doc_id in [i for i, other in enumerate(there) if other == number][:most]
    ]
    assert list(
        zip(keys_from([n for n, _ in expected]).tolist(), [i for _, i in expected], strict=True)
    ) == list(zip(read_keys.tolist(), read_ids.tolist(), strict=True))
    ours, theirs = collisions(keys_from(wanted), np.arange(len(wanted), dtype=np.uint64), read_keys, read_ids)
    pairs = [(i, doc_id) for i, number in enumerate(wanted) for other, doc_id in expected if other == number]
    assert sorted(zip(ours.tolist(), theirs.tolist(), strict=True)) == sorted(pairs)


def test_few_keys_read_few_row_groups():
    chance = np.random.default_rng(1)
    keys = np.sort(chance.integers(0, 2**63, 1 << 18).astype(np.uint64)).reshape(-1, 4096)
    wanted = keys.reshape(-1)[chance.integers(0, keys.size, 5)]
    groups = row_groups_with(wanted, keys[:, 0], keys[:, -1])
    assert len(groups) <= 5
    assert all(np.isin(key, keys[groups]) for key in wanted)
