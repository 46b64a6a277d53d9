"""A kernel is compiled by a single process, even if several need it."""

import multiprocessing
import os
import signal
import sys
from importlib.util import module_from_spec, spec_from_file_location

import numba
import pytest

from zyda_flows.textkernels import compiled

KERNELS = """
from zyda_flows.textkernels.compiled import njit

@njit(cache=True)
def inner(x):
    return x + 1

@njit(cache=True)
def outer(x):
    return inner(x) * 2

@njit(cache=True)
def plus(x, y):
    return x + y

@njit(cache=True)
def plus_constants(x):
    return plus(x, 1) + plus(x, 2)
"""
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """Return two kernels that were not compiled before."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "two_kernels.py"
    path.write_text(KERNELS)
    spec = spec_from_file_location("two_kernels", path)
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "two_kernels", module)
    spec.loader.exec_module(module)
    return module


def call(kernels, name, start, answers):
    start.wait()
    answer = getattr(kernels, name)(20)
    compiled_here = [kernel.stats.cache_misses for kernel in (kernels.inner, kernels.outer)]
    answers.put((answer, sum(sum(times.values()) for times in compiled_here)))


def called_by_three(kernels, *names):
    """Return the results of three processes, and how many kernels they compiled in all."""
    start, answers = FORK.Barrier(3), FORK.SimpleQueue()
    processes = [FORK.Process(target=call, args=(kernels, name, start, answers)) for name in names]
    for process in processes:
        process.start()
    found = [answers.get() for _ in processes]
    for process in processes:
        process.join()
    return sorted(answer for answer, _ in found), sum(times for _, times in found)


def test_one_of_three_processes_compiles_and_the_others_load_the_kernel(kernels):
    assert called_by_three(kernels, "outer", "outer", "outer") == ([42, 42, 42], 2)


def test_kernel_called_by_another_kernel_is_compiled_once(kernels):
    assert called_by_three(kernels, "outer", "inner", "inner") == ([21, 21, 42], 2)


def test_constant_arguments_do_not_compile_another_kernel(kernels):
    assert kernels.plus_constants(20) == 43
    assert kernels.plus.signatures == [(numba.int64, numba.int64)]


def hold_and_die():
    with compiled.only_process("two_kernels.outer"):
        os.kill(os.getpid(), signal.SIGKILL)


def test_killed_process_releases_its_lock(kernels):
    process = FORK.Process(target=hold_and_die)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert kernels.outer(20) == 42


def test_failed_compilation_releases_the_lock(kernels):
    with pytest.raises(numba.TypingError):
        kernels.outer("text")
    assert called_by_three(kernels, "outer", "outer", "outer")[0] == [42, 42, 42]


@pytest.mark.parametrize("refusal", ["no folder", "no locks"])
def test_without_locks_each_process_compiles(kernels, tmp_path, monkeypatch, refusal):
    if refusal == "no folder":
        (tmp_path / "file").write_bytes(b"")
        monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "file" / "cache"))
        assert compiled.lock_file(numba.config.CACHE_DIR) is None
    else:
        file = os.open(tmp_path, os.O_RDONLY)  # a folder cannot be opened as a file
        monkeypatch.setattr(compiled, "lock_file", lambda _: file)
        assert not compiled.change_lock(file, compiled.fcntl.LOCK_EX, 0)
    assert kernels.outer(20) == 42
