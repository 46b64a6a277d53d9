"""Turn garbage collection off during the imports of the process from which workers are forked; see `preload`."""

import gc

gc.disable()
