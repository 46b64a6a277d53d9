"""The engine of GPUs: band keys, edges and forests, bit for bit as `tasks.kernels` makes them on CPUs.

`sketch_kernels` and `word_kernels` are compiled by numba for CUDA, `shard_keys` sends them the text of a shard, and
`joining` finds edges and forests. `rapids` alone imports cuDF, cuGraph and CuPy.
"""
