"""Lists of files, deny lists and evaluation sets that decompress to gigabytes raise clear errors."""

import gzip
import re

import lz4.frame
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from bombs import run_bounded

from zyda_flows.tasks.documents.deny_list import requests_in
from zyda_flows.tasks.documents.evaluation_sets import rows_of
from zyda_flows.tasks.documents.language_rules import read_language_rules
from zyda_flows.tasks.documents.measures import content_of
from zyda_flows.tasks.documents.url_rules import entries_of_kind
from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.limits import replaced_limits
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.sources.listing import list_files
from zyda_flows.tasks.sources.small_files import planned_files

MIB = 1 << 20
BOMBS = {
    "gz": lambda content: gzip.compress(content * (16 * MIB // len(content))) * 200,
    "zst": lambda content: zstandard.compress(content * (64 * MIB // len(content))) * 60,
    "lz4": lambda content: lz4.frame.compress(content * (16 * MIB // len(content))) * 80,
}
LARGE = r"(it has more than|it decompresses to more than|lines, expected at most)"


@pytest.mark.slow
@pytest.mark.parametrize("ending", BOMBS)
@pytest.mark.parametrize("content", [b"\n", b"example.org\n", b"x"])
def test_list_that_expands_to_gigabytes_raises(tmp_path, ending, content):
    path = tmp_path / f"list.{ending}"
    path.write_bytes(BOMBS[ending](content))

    def faults():
        found = []
        for read in (
            lambda: list_files(Source(name="s", files_from=str(path))),
            lambda: list(entries_of_kind("domains", planned_files("url_rules.domains", (str(path),)))),
            lambda: list(requests_in(planned_files("deny", (str(path),))[0])),
            lambda: list(rows_of(path.read_bytes(), "set s")),
        ):
            with pytest.raises(BadInput) as raised:
                read()
            found.append(str(raised.value))
        return found

    for fault in run_bounded(faults).result:
        assert re.search(LARGE, fault), fault


def test_parquet_evaluation_set_that_expands_raises(tmp_path):
    one = pa.DictionaryArray.from_arrays(pa.array(np.zeros(100_000, np.int32)), pa.array(["x" * (8 * MIB)]))
    pq.write_table(pa.table({"question": one}), tmp_path / "x.parquet", compression="zstd")
    content = (tmp_path / "x.parquet").read_bytes()
    with pytest.raises(BadInput, match="more than 1,000 times its size"):
        run_bounded(lambda: [None for _ in rows_of(content, "set s")])


def test_too_large_lists_of_rules_and_words_raise(tmp_path):
    (tmp_path / "deu_Latn.yml").write_text("a: 1\n" * 1000)
    with replaced_limits(rules_bytes=1000):
        with pytest.raises(BadInput, match="it has 5,000 bytes, expected at most 1,000"):
            read_language_rules("rules", [str(tmp_path / "deu_Latn.yml")])
        with pytest.raises(ValueError, match="it has 5,000 bytes, expected at most 1,000"):
            content_of(str(tmp_path / "deu_Latn.yml"))
