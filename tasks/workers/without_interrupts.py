"""Imported first by the process that workers are forked from: Ctrl-C is for the build that started it.

That process ignores it by itself, but only when it has imported all else, which takes seconds.
"""

import signal

signal.signal(signal.SIGINT, signal.SIG_IGN)
