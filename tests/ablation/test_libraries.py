"""Without its libraries, an ablation names the command that installs them."""

import pytest

from zyda_flows.tasks.ablation import libraries
from zyda_flows.tasks.errors import BadRequest


def test_missing_libraries_are_named(monkeypatch):
    libraries.expect_libraries()
    monkeypatch.setattr(libraries, "find_spec", lambda name: None if name in {"torch", "scipy"} else name)
    with pytest.raises(
        BadRequest, match=r"^torch and scipy not installed; pip install 'zyda-flows\[ablation\]'$"
    ):
        libraries.expect_libraries()
