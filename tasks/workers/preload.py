"""Import all modules that a worker needs, once, in the process from which workers are forked.

`collector_off` has turned garbage collection off, because imports create no garbage. Afterwards the collector
ignores the imported objects: otherwise it would write to each object, and each worker would get its own copy of the
shared memory.
"""

import gc
from contextlib import suppress
from importlib import import_module

from numba.core.registry import cpu_target

MODULES = [
    "prefect_dask",
    "prefect.task_engine",
    "zyda_flows.tasks.pipeline",
    *("numba.cpython.unicode", "numba.np.arraymath", "numba.typed"),  # imported with the first kernel
]

for name in MODULES:
    import_module(name)
with suppress(
    ImportError
):  # pandas is no dependency; if it is installed, pyarrow imports it to check for its columns
    import_module("pandas")
# Numba does this with the first kernel of a process, which takes a quarter of a second.
cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()
gc.freeze()
gc.enable()
