"""Workers: the only package that uses Dask.

`dask_cluster` starts a local cluster, `process` configures its processes, `tls` restricts access to it, and `ports`
reserves ports for servers. `window` keeps items in flight, `host_limits` limits the requests of all workers to a
host, `events` sends messages of workers to the flow, and `trouble` explains the failure of a cluster.
"""
