"""Imports all that a worker needs, once, in the process that workers are forked from.

Nothing is garbage while modules are imported, so collections are off meanwhile. Afterwards the collector ignores
the imported objects: it would write to each of them, and each worker would get a copy of memory that all share.
"""

import gc
from importlib import import_module

# pyarrow imports pandas, where it is there, to see whether a list is one of its columns.
MODULES = ["prefect_dask", "prefect.task_engine", "zyda_flows.tasks.pipeline", "pandas"]

gc.disable()
for name in MODULES:
    import_module(name)
gc.freeze()
gc.enable()
