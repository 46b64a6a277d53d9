"""Claims of living processes on a corpus: removal of documents and reading exclude each other."""

import multiprocessing
import os
import signal
import time

import pytest

from zyda_flows.tasks.errors import Denied
from zyda_flows.tasks.storage import claims
from zyda_flows.tasks.storage.claims import CLAIMS, Claim, forgetting, own_claim, reading, write_claim
from zyda_flows.tasks.storage.folder import Folder


@pytest.fixture(params=["disk", "memory"])
def folder(request, tmp_path):
    """Return the folder of a corpus, on a disk or in a store."""
    url = str(tmp_path / "corpus") if request.param == "disk" else f"memory://{tmp_path.name}/corpus"
    corpus_folder = Folder(url)
    corpus_folder.write("published/manifest.json", b"{}")
    return corpus_folder


def test_removal_excludes_readers_and_other_removals(folder):
    with (
        reading([folder], "zyda mix a"),
        reading([folder, folder], "zyda export"),
        pytest.raises(
            Denied, match=r"corpus: zyda (mix a|export) \(process \d+ on .*, since 20.*\) is at work"
        ),
    ):
        forgetting(folder, "zyda forget").__enter__()
    with forgetting(folder, "zyda forget"):
        for other in (reading([folder], "zyda mix b"), forgetting(folder, "zyda forget")):
            with pytest.raises(
                Denied, match=rf"corpus: zyda forget \(process {os.getpid()} on .*start again when"
            ):
                other.__enter__()
    assert folder.files("") == ["published/manifest.json"]


def test_claim_ends_with_its_process_or_with_its_lease_on_another_host(folder, monkeypatch):
    ended = own_claim("zyda mix").model_copy(update={"birth": "another"})
    write_claim(folder, f"{CLAIMS}/read-1.json", ended)
    other_host = ended.model_copy(update={"host": "elsewhere"})
    with forgetting(folder, "zyda forget"):
        assert [path for path in folder.files(CLAIMS) if "read" in path] == []
    write_claim(folder, f"{CLAIMS}/read-2.json", other_host)
    with pytest.raises(Denied, match="on elsewhere"):
        forgetting(folder, "zyda forget").__enter__()
    monkeypatch.setattr(claims, "LEASE_SECONDS", -1)
    with forgetting(folder, "zyda forget"):
        pass
    folder.write(f"{CLAIMS}/read-3.json", b"\0")  # an invalid claim is ignored
    with forgetting(folder, "zyda forget"):
        pass


def test_claim_is_renewed_while_its_block_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "RENEW_SECONDS", 0.01)
    folder = Folder(str(tmp_path))
    with reading([folder], "zyda mix"):
        (path,) = folder.files(CLAIMS)
        os.utime(tmp_path / path, (1, 1))
        while folder.written_at(path) < time.time() - 60:
            time.sleep(0.01)
    assert not (tmp_path / CLAIMS).exists()


def test_read_only_corpus_is_read_without_a_claim(tmp_path, monkeypatch):
    folder = Folder(str(tmp_path))

    def refused(self):
        raise Denied("read only")

    monkeypatch.setattr(Folder, "check_writable", refused)
    with reading([folder], "zyda mix"):
        assert folder.files("") == []
    write_claim(folder, f"{CLAIMS}/forget-1.json", own_claim("zyda forget"))
    with pytest.raises(Denied, match="zyda forget"):
        reading([folder], "zyda mix").__enter__()


def hold(url, is_held):
    with forgetting(Folder(url), "zyda forget"):
        is_held.set()
        time.sleep(600)


def test_claim_of_a_killed_process_is_ignored(tmp_path):
    context = multiprocessing.get_context("spawn")
    is_held = context.Event()
    process = context.Process(target=hold, args=(str(tmp_path), is_held))
    process.start()
    is_held.wait()
    with pytest.raises(Denied, match=f"process {process.pid} on"):
        reading([Folder(str(tmp_path))], "zyda mix").__enter__()
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    with forgetting(Folder(str(tmp_path)), "zyda forget"):
        pass
    assert isinstance(Claim.model_validate(own_claim("x").model_dump()), Claim)
