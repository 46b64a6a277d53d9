"""Workers: all that knows of Dask, and nothing else does.

`dask_cluster` starts one on this machine, `process` says what its processes are born with, `security` who may use
it, `ports` where servers listen. `window` keeps items in flight over it, `host_limits` the requests of all workers
to one host, `events` carries what workers say to the flow, and `trouble` explains how a cluster ended.
"""
