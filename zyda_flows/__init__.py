"""Pretraining corpora from many datasets.

    import zyda_flows as zyda

    corpus = zyda.build("recipe.yaml")
    corpus.documents(["text"]).head()

The packages in this folder are links to the folders beside it. A module is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zyda_flows.flows.python.builds import BuildStopped, build, check
    from zyda_flows.flows.python.corpus import Corpus
    from zyda_flows.flows.python.corpus import open_corpus as open  # noqa: A004
    from zyda_flows.flows.server.local_server import NoServer
    from zyda_flows.tasks.errors import (
        BadInput,
        BadRecipe,
        BadRequest,
        Damaged,
        Denied,
        LostWorkers,
        NoCorpus,
        NotConserved,
        PoisonShards,
        TooMuchLost,
        Unavailable,
        WrongBits,
        WrongTokens,
        ZydaError,
    )
    from zyda_flows.tasks.lookup.published_rows import Rows
    from zyda_flows.tasks.planning.checked import CheckResult

    __version__: str

__all__ = [
    "BadInput",
    "BadRecipe",
    "BadRequest",
    "BuildStopped",
    "CheckResult",
    "Corpus",
    "Damaged",
    "Denied",
    "LostWorkers",
    "NoCorpus",
    "NoServer",
    "NotConserved",
    "PoisonShards",
    "Rows",
    "TooMuchLost",
    "Unavailable",
    "WrongBits",
    "WrongTokens",
    "ZydaError",
    "__version__",
    "build",
    "check",
    "open",
]
MODULES = {
    "BuildStopped": "flows.python.builds",
    "build": "flows.python.builds",
    "check": "flows.python.builds",
    "Corpus": "flows.python.corpus",
    "open": "flows.python.corpus",
    "NoServer": "flows.server.local_server",
    "Rows": "tasks.lookup.published_rows",
    "CheckResult": "tasks.planning.checked",
}
OTHER_NAMES = {"open": "open_corpus"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "__version__":
        from importlib.metadata import version

        return version("zyda-flows")
    module = import_module(f"{__name__}.{MODULES.get(name, 'tasks.errors')}")
    return getattr(module, OTHER_NAMES.get(name, name))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
