"""A whole build from the command line, on a cluster with a worker that has a GPU."""

from contextlib import contextmanager, nullcontext
from pathlib import Path

import dask
import distributed
import pretend_gpu
import pytest
from disturbances import using
from small_corpus import Corpus, build_here, contents, edited, prose, rows, write_rows

from benchmarks import gpu_build
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.workers.dask_cluster import SHARE, gpu_count

FIXTURES = Path(pretend_gpu.__file__).parent


@contextmanager
def cluster_that_pretends(noted):
    """Start a cluster with a CPU worker, and a worker that simulates a GPU and records its tasks.

    The processes are spawned: numba enables its simulator if it is imported with the worker's environment.
    """
    environment = {
        "NUMBA_ENABLE_CUDASIM": "1",
        "PYTHONPATH": str(FIXTURES),
        pretend_gpu.PRETENDED: str(noted),
    }
    cores = {"nthreads": 2, "resources": {"CPU": 2}}
    preload = {"env": environment, "preload": [str(FIXTURES / "pretend_gpu.py")]}
    gpu = {"nthreads": round(1 / SHARE), "resources": {"GPU": 1}, **preload}
    workers = {
        name: {"cls": distributed.Nanny, "options": {"dashboard": False, **options}}
        for name, options in {"cores": cores, "gpu": gpu}.items()
    }
    options = {"dashboard_address": "127.0.0.1:0", "host": "127.0.0.1", "port": 0}
    scheduler = {"cls": distributed.Scheduler, "options": options}
    with (
        dask.config.set({"distributed.worker.multiprocessing-method": "spawn"}),
        distributed.SpecCluster(workers=workers, scheduler=scheduler) as cluster,
    ):
        yield cluster


@pytest.mark.parametrize("is_real", [
    False, pytest.param(True, marks=pytest.mark.skipif(not gpu_count(), reason="needs a GPU")),
], ids=["pretended", "real"])  # fmt: skip
def test_corpus_built_with_gpus_equals_the_corpus_of_cpus(tmp_path, is_real, server, monkeypatch):
    corpus, noted = Corpus(tmp_path), tmp_path / "noted"
    words = {name: prose(name, 25) for name in ("one", "two", "three")}
    write_rows(tmp_path / "in/best-0.parquet", rows(**words, naïve="naïve café 漢字 🙂 " * 4, nothing=""))
    write_rows(tmp_path / "in/worst-0.jsonl.zst", rows(copy=words["one"], near=edited(words["two"])))
    sources = [{"name": name, "files": f"in/{name}-0.*"} for name in ("best", "worst")]
    dedup = {"width": 5, "bands": 2, "rows": 2}
    monkeypatch.setenv("ZYDA_ENGINE", "cpu")
    by_cpus = corpus.load(sources=sources, dedup=dedup, storage=str(tmp_path / "cpu"))
    build_here(by_cpus)
    build_here(corpus.load(sources=sources[:1], dedup=dedup, storage=str(tmp_path / "gpu")))
    path = corpus.write(sources=sources, dedup=dedup, storage=str(tmp_path / "gpu"))
    environment = using(server)
    with nullcontext() if is_real else cluster_that_pretends(noted) as cluster:
        if cluster:
            environment["DASK_SCHEDULER_ADDRESS"] = cluster.scheduler_address
        assert gpu_build.build_seconds(str(path), tmp_path / "gpu", "gpu", **environment) > 0
    assert gpu_build.different_files(tmp_path / "cpu", tmp_path / "gpu") == []
    assert contents(load_recipe(path)) == contents(by_cpus)
    if not is_real:
        assert set(noted.read_text().split()) == {"keys_of_shard", "stars", "forest_of"}
