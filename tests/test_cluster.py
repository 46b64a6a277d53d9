"""Where a stage's shards run, on a real Dask cluster."""

import distributed
import pytest

from tasks.cluster import fan_out


def name_of_worker(_):
    return distributed.get_worker().name


def spread_over_workers(on_gpu):
    return set(fan_out(name_of_worker, range(8), stage="where", source=None, on_gpu=on_gpu))


@pytest.mark.parametrize(
    ("offered", "expected"),
    [({"cpu": {}, "gpu": {"GPU": 1}}, {"gpu"}), ({"cpu": {}, "other": {}}, {"cpu", "other"})],
)
def test_shards_that_want_a_gpu_run_on_workers_with_one_where_there_are_any(offered, expected):
    workers = {
        name: {"cls": distributed.Worker, "options": {"nthreads": 1, "resources": resources}}
        for name, resources in offered.items()
    }
    scheduler = {
        "cls": distributed.Scheduler,
        "options": {"dashboard": False, "port": 0, "host": "127.0.0.1"},
    }
    with (
        distributed.SpecCluster(workers=workers, scheduler=scheduler) as cluster,
        distributed.Client(cluster) as client,
    ):
        assert client.submit(spread_over_workers, True, pure=False).result(60) <= expected
        assert client.submit(spread_over_workers, False, pure=False).result(60) <= set(offered)
