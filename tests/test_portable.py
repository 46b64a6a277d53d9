"""Test that the sources call nothing that exists on one operating system only: macOS and containers are supported."""

import ast
import re

import pytest
from small_corpus import REPOSITORY

FOLDERS = ("flows", "tasks", "deployments", "recipes", "infra")
NOT_PORTABLE = {
    r"os\.sched_\w+": "Linux only, and blind to a container's quota: dask.system.CPU_COUNT",
    r"os\.cpu_count|multiprocessing\.cpu_count": "blind to a container's quota: dask.system.CPU_COUNT",
    r"psutil\.net_connections": "needs root on macOS: try to bind the port",
    r"\w+\.(renameat2|memfd_create|prctl|posix_fadvise|sendfile|splice|copy_file_range|pidfd_open)": "Linux only",
    r"os\.(fork|forkpty|register_at_fork)|pty\.fork": "unsafe beside threads, which macOS ends a process for",
    r"(mp|multiprocessing)\.(get_context|set_start_method)\.(fork|forkserver)": "unsafe beside threads",
    r"signal\.(sigtimedwait|sigwaitinfo|SIGRTMIN|SIGCLD|SIGPOLL|SIGPWR)": "not on macOS",
    r"socket\.(SO_REUSEPORT|AF_NETLINK|AF_PACKET|SO_BINDTODEVICE)": "not the same everywhere",
    r"(select|selectors)\.(epoll|EpollSelector)": "Linux only",
    r"resource\.prlimit": "Linux only",
    r"ctypes\.(CDLL|cdll)": "what is in a library differs from system to system",
}
LINUX_PATHS = re.compile(r"^/(proc|sys|dev/shm|run)(/|$)")
ALLOWED = {  # (file, name): the reason why it is allowed
    (
        "tasks/storage/births.py",
        "/proc/sys/kernel/random/boot_id",
    ): "where there is none, births go by other clocks",
    **dict.fromkeys(
        [("tasks/spent.py", "/proc/self/status"), ("tasks/spent.py", "/proc/self/clear_refs")],
        "where there is none, a process's peak is that of its whole life",
    ),
}


def names_in(tree):
    """Yield every dotted name of a syntax tree, with the names of its imports resolved."""
    imported = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            imported |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name):
            text = ast.unparse(node)
            head, dot, rest = text.partition(".")
            yield imported.get(head, head) + dot + rest


def faults_in(text):
    """Return the names of a source that are not portable, with the reasons."""
    tree = ast.parse(text)
    found = [
        (name, why)
        for name in names_in(tree)
        for pattern, why in NOT_PORTABLE.items()
        if re.fullmatch(pattern, name)
    ]
    texts = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return found + [(text, "Linux only") for text in texts if LINUX_PATHS.match(text)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [path for folder in FOLDERS for path in sorted((REPOSITORY / folder).rglob("*.py"))],
    ids=lambda path: str(path.relative_to(REPOSITORY)),
)
def test_source_calls_nothing_that_only_one_system_has(path):
    name = str(path.relative_to(REPOSITORY))
    assert [fault for fault in faults_in(path.read_text()) if (name, fault[0]) not in ALLOWED] == []


@pytest.mark.parametrize(
    "text",
    [
        "import os\nlen(os.sched_getaffinity(0))",
        "from os import sched_getaffinity as cores\ncores(0)",
        "import psutil\npsutil.net_connections('tcp')",
        "open('/proc/self/status')",
        "from os import fork\nfork()",
    ],
)
def test_scan_finds_what_it_is_for(text):
    assert len(faults_in(text)) >= 1
