"""Workers: the only modules of the tasks that use Dask.

`dask_cluster` starts a cluster on this machine, `process` prepares its processes, `tls` restricts access to it, and
`ports` chooses where servers listen. `window` keeps several items in flight on a cluster, `host_limits` limits the
requests of all workers to a host, `events` carries reports from workers to the flow, and `trouble` explains why a
cluster ended.
"""
