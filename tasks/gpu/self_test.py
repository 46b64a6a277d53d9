"""Test each GPU before its results are used: its bits must equal the bits of the CPU."""

import socket
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from zyda_flows.tasks.errors import WrongBits

VERIFIED_KERNELS = set[Hashable]()  # kernels whose results on this process's GPU equalled the CPU's


def expect_same(name: str, by_gpu: Sequence[Any], by_cpu: Sequence[Any]) -> None:
    """Compare arrays that a GPU has computed with the arrays of the CPU. name: of the arrays. Raises WrongBits."""
    if not all(np.array_equal(computed, expected) for computed, expected in zip(by_gpu, by_cpu, strict=True)):
        raise WrongBits(
            f"the GPU of {socket.gethostname()} computes other {name} than its CPU from the same input"
        )
