"""The table of published files: it is read in parts, and it shows missing and changed files."""

import os
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_corpus import (
    build_here,
    contents,
    listed_files,
    zyda_here,
)

from zyda_flows.tasks.accounts.published import File, manifest_if_there
from zyda_flows.tasks.accounts.published_files import SCHEMA, as_parquet, make_file_table, rows_below
from zyda_flows.tasks.accounts.published_stamps import (
    current_stamps,
    file_states,
    missing_files,
    possibly_changed,
)
from zyda_flows.tasks.planning.last_build import ledger_if_complete
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.stamps import stamp_of

NAMES = st.text("ab/-0é\U0001f642", min_size=1, max_size=5)


def files_called(names):
    return [File(path=name, sha256=f"{i:064x}", size=i) for i, name in enumerate(sorted(names))]


@given(st.sets(NAMES, max_size=40), st.one_of(st.just(""), NAMES), st.integers(1, 7))
def test_rows_below_a_prefix_have_paths_that_begin_with_it(names, prefix, group_rows):
    table = make_file_table(files_called(names))
    parquet = pq.ParquetFile(pa.BufferReader(as_parquet(table, group_rows)))
    rows = rows_below(parquet, prefix, ["path", "size"])
    assert rows.column("path").to_pylist() == [name for name in sorted(names) if name.startswith(prefix)]
    assert rows_below(parquet, prefix).schema.equals(SCHEMA)


def test_only_row_groups_with_matching_paths_are_read(monkeypatch):
    names = [f"{place}/{i:06d}-000.parquet" for place in "abc" for i in range(1000)]
    parquet = pq.ParquetFile(pa.BufferReader(as_parquet(make_file_table(files_called(names)), 100)))
    read, read_row_group = [], pq.ParquetFile.read_row_group
    monkeypatch.setattr(
        pq.ParquetFile, "read_row_group", lambda *of, **how: read.append(of[1]) or read_row_group(*of, **how)
    )
    assert rows_below(parquet, "b/000417-").column("path").to_pylist() == ["b/000417-000.parquet"]
    assert read == [14]
    read.clear()
    assert len(rows_below(parquet, "b/")) == 1000
    assert read == [*range(10, 20)]


def test_states_list_each_published_file_once(built):
    recipe = built.load()
    folder, manifest = recipe.folder, manifest_if_there(recipe.folder)
    table = pa.concat_tables(file_states(folder, manifest))
    there = {path.removeprefix("published/") for path in folder.files("published")}
    assert sorted(table.column("path").to_pylist()) == sorted(there)
    assert not len(missing_files(table))
    assert not len(possibly_changed(table))
    assert table.column("checked_at").null_count == 0
    deleted, touched, *_ = listed_files(folder)
    (built.folder / "out/small/published" / deleted.path).unlink()
    (built.folder / "out/small/published" / touched.path).touch()
    table = pa.concat_tables(file_states(folder, manifest))
    assert missing_files(table).column("path").to_pylist() == [deleted.path]
    assert possibly_changed(table).column("path").to_pylist() == [touched.path]


@pytest.mark.parametrize("url", ["memory://stamps", "s3"])
def test_stores_list_the_stamps_of_one_folder_only(request, url):
    base = f"{request.getfixturevalue('s3')}/stamps" if url == "s3" else url
    folder = Folder(base)
    for path in ("published/a.json", "published/b/1", "published/b/2", "published/bc/3"):
        folder.write(path, b"x")
    assert sorted(current_stamps(folder, "b/").column("path").to_pylist()) == ["b/1", "b/2"]
    assert current_stamps(folder).column("path").to_pylist() == ["a.json"]
    assert len(current_stamps(folder, "c/")) == 0


def test_stamps_of_local_files_equal_stamps_of_a_listing(tmp_path):
    folder = Folder(str(tmp_path))
    folder.write("published/a/x", b"four")
    (row,) = current_stamps(folder, "a/").to_pylist()
    assert row == {"path": "a/x", "now": stamp_of(folder.listed("published/a")["published/a/x"])}


@pytest.mark.slow
def test_stray_file_with_an_undecodable_name_leaves_the_corpus_up_to_date(built):
    recipe = built.load()
    stranger = os.fsencode(built.folder / "out/small/published/best") + b"/\xff\xfe"
    with open(stranger, "wb") as file:
        file.write(b"x")
    assert ledger_if_complete(recipe) is not None
    assert "\nup to date: yes\n" in zyda_here("status", str(built.path)).stdout


DAMAGES = {
    "is missing": lambda content: None,
    "bytes, expected": lambda content: content[:-30],
    "another footer": lambda content: content[:-20] + bytes([content[-20] ^ 1]) + content[-19:],
}


@pytest.mark.slow
@pytest.mark.parametrize("said", DAMAGES)
def test_damaged_table_is_reported_in_one_line_and_rebuilt(built, said):
    recipe = built.load()
    undisturbed = contents(recipe)
    (path,) = (built.folder / "out/small/published").glob("files-*.parquet")
    content = DAMAGES[said](path.read_bytes())
    path.unlink()
    if content:
        path.write_bytes(content)
    line = rf"{path.name} .*{said}.*; zyda verify --repair repairs it"
    assert re.search(line, zyda_here("status", str(built.path)).stdout)
    assert re.fullmatch(f"zyda: .*{line}\n", zyda_here("explain", str(built.path), "0").stderr)
    assert ledger_if_complete(recipe) is None
    build_here(recipe)
    assert contents(recipe) == undisturbed
