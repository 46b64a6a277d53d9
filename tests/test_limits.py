"""Bounds of outside input: each is described, used, and can be replaced in a test."""

import contextlib
import dataclasses
import re

import pytest
from small_corpus import REPOSITORY

from zyda_flows.tasks.limits import Limits, limits, replaced_limits

CODE = "".join(
    path.read_text()
    for chapter in ("tasks", "flows")
    for path in (REPOSITORY / chapter).rglob("*.py")
    if path.name != "limits.py"
)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Limits)])
def test_limit_is_used(name):
    assert re.search(rf"\.{name}\b", CODE)


def test_limits_are_replaced_within_a_block_alone():
    before = limits()
    with contextlib.suppress(KeyError), replaced_limits(http_body=7) as replaced:
        assert limits() is replaced
        assert limits() == dataclasses.replace(before, http_body=7)
        raise KeyError
    assert limits() is before


def test_unknown_limit_is_an_error():
    with pytest.raises(TypeError), replaced_limits(no_such_bound=1):
        pass
