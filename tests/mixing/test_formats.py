"""Test the registry of trainer formats, and the example format of CONTRIBUTING.md."""

import re
from typing import get_args

import numpy as np
import pytest
from small_corpus import REPOSITORY

from zyda_flows.tasks.errors import NotConserved
from zyda_flows.tasks.mixing import formats
from zyda_flows.tasks.mixing.formats import WRITERS, Batch, Target
from zyda_flows.tasks.mixing.gathering import ORIGINS
from zyda_flows.tasks.mixing.mixture import Format, expect_writers

NAMES = get_args(Format)
BATCHES = [[3, 4, 5], [9], [7, 8]]


@pytest.fixture
def guide():
    """Return the writer of the guide, executed with the names of its module."""
    text = (REPOSITORY / "CONTRIBUTING.md").read_text()
    code = re.search(r"## Add a trainer format\n.*?```python\n(.*?)```", text, re.DOTALL)[1]
    names = dict(vars(formats))
    exec(code, names)
    return names["Numpy"]


def write_batches(writer, folder):
    """Write each batch as a sequence; return the closed writer."""
    closed = writer(Target(folder, "train-00000", 2, "a tokenizer", ("a corpus",)))
    for ids in BATCHES:
        closed.add(Batch(np.array(ids, "<u2"), np.array([0, len(ids)]), ORIGINS.empty_table()))
    closed.close()
    return closed


def test_writer_of_the_guide_writes_and_checks_all_tokens(guide, tmp_path):
    closed = write_batches(guide, tmp_path)
    assert np.load(tmp_path / "train-00000.npy").tolist() == [token for ids in BATCHES for token in ids]
    closed.check(6)
    with pytest.raises(NotConserved, match=r"train-00000\.npy has 6 tokens, not 7"):
        closed.check(7)
    expect_writers([*NAMES, "numpy"], [*WRITERS, "numpy"])


@pytest.mark.parametrize("name", WRITERS)
def test_every_writer_raises_if_tokens_are_missing(name, tmp_path):
    closed = write_batches(WRITERS[name], tmp_path)
    closed.check(6)
    with pytest.raises(NotConserved):
        closed.check(7)


def test_format_without_a_writer_and_writer_without_a_format_fail_at_import():
    for names, writers in (([*NAMES, "numpy"], WRITERS), (NAMES, [*WRITERS, "numpy"])):
        with pytest.raises(TypeError, match="differ in numpy"):
            expect_writers(names, writers)
