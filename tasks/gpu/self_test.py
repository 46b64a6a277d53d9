"""No GPU is believed before it has shown that its bits are those of the CPU beside it."""

import socket
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from zyda_flows.tasks.errors import WrongBits

VERIFIED_KERNELS = set[Hashable]()  # what this process's GPU has made as its CPU does


def expect_same(name: str, by_gpu: Sequence[Any], by_cpu: Sequence[Any]) -> None:
    """Compare arrays that a GPU has made with those of the CPU. name: of what they are. Raises WrongBits."""
    if not all(np.array_equal(computed, expected) for computed, expected in zip(by_gpu, by_cpu, strict=True)):
        raise WrongBits(
            f"the GPU of {socket.gethostname()} makes other {name} than its CPU, of the same input"
        )
