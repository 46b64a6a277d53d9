"""Kernels that numba compiles for GPUs; with the same results as on CPUs, bit for bit."""

from numba.core import config

config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # the last shard of a source may be small
