"""Tables of denied addresses contain the addresses and folders that were added, and no others."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zyda_flows.tasks.documents.address_tables import (
    DIGEST,
    AddressTable,
    collected_digests,
    load_address_table,
    sorted_digests,
)
from zyda_flows.tasks.errors import Denied
from zyda_flows.tasks.stage.rebuild_damaged import rebuilding_damaged
from zyda_flows.tasks.storage.folder import Folder

PLACES = st.lists(st.sampled_from(["a.org", "b.org", "x", "y", "z"]), min_size=2, max_size=5).map("/".join)


def table_of(folder, pages, folders=()):
    with collected_digests() as digests:
        digests.add([page.encode() for page in pages])
        digests.add_folders(folders)
        digest, rows = digests.write(folder)
    return load_address_table((folder.url,), digest), rows


@given(st.sets(PLACES, max_size=6), st.sets(PLACES, max_size=3), st.lists(PLACES, max_size=20))
def test_addresses_are_found_by_themselves_and_by_their_folders(tmp_path_factory, pages, folders, asked):
    folder = Folder(str(tmp_path_factory.mktemp("table")))
    table, rows = table_of(folder, [*pages, "only.org/1"], [*folders])
    assert rows == len(pages) + len(folders) + 1
    expected = [
        address in pages or any(address.startswith(f"{place}/") for place in folders) for address in asked
    ]
    assert table.contains([*asked, None]).tolist() == [*expected, False]


def test_digests_with_equal_first_bits_are_told_apart():
    digests = np.array([(7, 3), (7, 1), (9, 1), (7, 3), (8, 0)], DIGEST)
    stored = sorted_digests(digests)
    table = AddressTable(*(column.to_numpy() for column in stored.columns), has_folders=False)
    assert stored.num_rows == 4
    asked = np.array([(7, 1), (7, 2), (7, 3), (8, 1), (9, 1), (2**64 - 1, 1)], DIGEST)
    assert table.has(asked).tolist() == [True, False, True, False, True, False]


def test_changed_table_is_an_error_and_is_kept(tmp_path):
    folder = Folder(str(tmp_path))
    _, rows = table_of(folder, [f"a.org/{i}" for i in range(1000)])
    assert rows == 1000
    (path,) = (tmp_path / "denied_addresses").iterdir()
    content = bytearray(path.read_bytes())
    content[2000] ^= 1
    path.write_bytes(content)
    load_address_table.cache_clear()
    with pytest.raises(Denied, match="another content"):
        rebuilding_damaged(folder, lambda: load_address_table((folder.url,), path.stem))
    assert path.exists()  # no build can rebuild it
    with pytest.raises(Denied, match="is missing"):
        load_address_table((folder.url,), "0" * 64)
