"""Run a command that ends with the process that started it, even if that process is killed.

    python -m zyda_flows.flows.server.die_with_parent COMMAND...

Its standard input is a pipe that its parent keeps open. A killed parent cannot stop its children, but the system
closes its pipes.
"""

import signal
import subprocess
import sys
import threading

STOP_SECONDS = 15


def main() -> int:
    """Run the command until it ends, until SIGTERM, or until the end of standard input."""
    process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)  # noqa: S603
    signal.signal(signal.SIGTERM, lambda *_: stop(process))
    threading.Thread(target=wait_for_parent, args=(process,), daemon=True).start()
    return process.wait()


def wait_for_parent(process: subprocess.Popen[bytes]) -> None:
    """Stop the process when the parent has ended."""
    sys.stdin.buffer.read()
    stop(process)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()


if __name__ == "__main__":
    sys.exit(main())
