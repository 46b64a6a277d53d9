"""Import all modules that a worker needs, once, in the process from which workers are forked.

Imports create no garbage, so garbage collection is off during them. Afterwards the collector ignores the imported
objects: otherwise it would write to each object, and each worker would get its own copy of the shared memory.
"""

import gc
from contextlib import suppress
from importlib import import_module

MODULES = [
    "prefect_dask",
    "prefect.task_engine",
    "zyda_flows.tasks.pipeline",
    *("numba.cpython.unicode", "numba.np.arraymath", "numba.typed"),  # imported with the first kernel
]

gc.disable()
for name in MODULES:
    import_module(name)
with suppress(
    ImportError
):  # pandas is no dependency; if it is installed, pyarrow imports it to check for its columns
    import_module("pandas")
gc.freeze()
gc.enable()
