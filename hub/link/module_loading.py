"""Loading of modules that are needed by few hubs, or late: in a thread, so that the loop goes on meanwhile.

Functions that use such modules import them where they use them, as ever; that takes no time once they are loaded.
"""

import importlib
import sys

import trio


async def load(*names: str) -> None:
    """Have these modules loaded. A checkpoint only if one is not. Cancellation: they are loaded all the same."""
    missing = [name for name in names if not _is_loaded(name)]
    if missing:
        await trio.to_thread.run_sync(lambda: [*map(importlib.import_module, missing)])


def _is_loaded(name: str) -> bool:
    """True if nobody who imports it has to wait: another thread may be at it just now."""
    module = sys.modules.get(name)
    return module is not None and not getattr(module.__spec__, "_initializing", False)
