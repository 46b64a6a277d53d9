"""The libraries of ablations, which are installed with `zyda-flows[ablation]`."""

from importlib.util import find_spec

from zyda_flows.tasks.errors import BadRequest

LIBRARIES = ("torch", "transformers", "scipy")


def expect_libraries() -> None:
    """Raise BadRequest if a library of ablations is not installed."""
    if missing := [name for name in LIBRARIES if find_spec(name) is None]:
        raise BadRequest(f"{' and '.join(missing)} not installed; pip install 'zyda-flows[ablation]'")
