"""The kernels that are compiled for GPUs too, by numba's CUDA; bit for bit as those of `textkernels`."""

from numba.core import config

config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # the last shard of a source is as small as it is
