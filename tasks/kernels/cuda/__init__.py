"""The kernels that are compiled for GPUs too, by numba's CUDA; bit for bit as those of `tasks.kernels`."""
