"""Imports all that a worker needs, once, in the process that workers are forked from.

Nothing is garbage while modules are imported, so collections are off meanwhile. Afterwards the collector ignores
the imported objects: it would write to each of them, and each worker would get a copy of memory that all share.
"""

import gc
from contextlib import suppress
from importlib import import_module

MODULES = ["prefect_dask", "prefect.task_engine", "zyda_flows.tasks.pipeline"]

gc.disable()
for name in MODULES:
    import_module(name)
with suppress(
    ImportError
):  # pandas is no dependency; pyarrow imports it, if installed, to look for its columns
    import_module("pandas")
gc.freeze()
gc.enable()
