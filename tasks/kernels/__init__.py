"""The arithmetic that touches every character, behind one choice of engine.

An engine is a module with the functions of `tasks.kernels.cpu`: same names, same arguments, same
bits, so that artifacts made by one engine can be used by another.
"""

from types import ModuleType


def engine() -> ModuleType:
    """Return the module that computes signatures on this machine."""
    from tasks.kernels import cpu

    return cpu
