"""Prefect's command line in a process whose garbage is collected in a thread of its own.

    python -m flows.server.prefect_server server start ...

A cursor of SQLite that is garbage is reset when it is collected, and that waits while another thread
uses the cursor's connection. In Prefect's server that thread may be waiting for the write lock of the
database, which a request holds that goes on in the main thread: where that is the one that collects,
all of them stand still until SQLite gives up after a minute. In another thread the wait harms nobody.
"""

import gc
import threading
import time

SECONDS = 1  # between collections of what is young
FULL = 60  # of these, then one of everything


def collect_elsewhere() -> None:
    """Collect no garbage in this thread any more, nor in any but a new one."""
    gc.disable()
    threading.Thread(target=collect, name="garbage", daemon=True).start()


def collect() -> None:
    """Collect garbage every second for as long as the process lives."""
    turn = 0
    while True:
        time.sleep(SECONDS)
        turn += 1
        gc.collect(2 if turn % FULL == 0 else 1)


def main() -> None:
    """Run `prefect` with the arguments of this process."""
    from prefect.cli import app

    collect_elsewhere()
    app()


if __name__ == "__main__":
    main()
