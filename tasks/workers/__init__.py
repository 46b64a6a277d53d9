"""Workers: the only modules of the tasks that use Dask.

`dask_cluster` starts a cluster on this machine, `scheduler_address` finds an existing cluster, `process` prepares
worker processes, `tls` restricts access to a cluster, and `ports` chooses where servers listen. `window` keeps
several items in flight on a cluster, `waiting_calls` makes several calls that wait for it, `host_limits` limits the
requests of all workers to a host, `events` carries reports from workers to the flow, and `trouble` explains why a
cluster ended.
"""
