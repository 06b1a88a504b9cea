"""Contents: arguments and results of calls of those servers whose configuration has them recorded, in memory only.

The stage stands in no other server's chain. Secrets of the configuration are masked, and what is long is cut.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec import Raw

from config.settings import UpstreamConfig
from hub.calls.chain import Intent, Outcome, Stage
from hub.link.bounded_dict import BoundedDict
from hub.wire.jsonrpc import Failure, Result
from upstreams.redact import MAX_ERROR_BYTES, Mask

MAX_CHARS: Final = 4_096
"""Characters that are kept of each text."""
MAX_CALLS: Final = 1_000
CUT: Final = "..."


class CallContent(NamedTuple):
    """What was recorded of one call. None: nothing was."""

    upstream: str = ""
    arguments: str | None = None
    result: str | None = None


NO_CONTENT: Final = CallContent()


class ContentRecorder(Stage):
    """Records contents of calls as they end."""

    def __init__(self) -> None:
        self._found: BoundedDict[int, CallContent] = BoundedDict(MAX_CALLS)

    def admits(self, intent: Intent) -> None:
        return None

    def left(self, intent: Intent, outcome: Outcome) -> None:
        upstream = intent.target.upstream
        wanted, mask = upstream.config.record, upstream.availability.history.mask
        arguments, result = intent.operation.params.get("arguments"), None
        if isinstance(outcome, Result):
            result = _show(outcome.value, mask)
        elif outcome is not None:
            result = mask(outcome.message if isinstance(outcome, Failure) else str(outcome))[:MAX_CHARS]
        found = None if arguments is None or "arguments" not in wanted else _show(arguments, mask)
        self._found.put(intent.ref, CallContent(upstream.name, found, result if "result" in wanted else None))

    def find(self, ref: int) -> CallContent:
        """What was recorded of a call."""
        return self._found.get(ref, NO_CONTENT)

    def adjust(self, configs: Mapping[str, UpstreamConfig]) -> None:
        """Forget what these configurations do not have recorded."""
        for ref, content in list(self._found.items()):
            if (config := configs.get(content.upstream)) is None or not config.record:
                del self._found[ref]


def _show(data: Raw, mask: Mask) -> str:
    """JSON as people may see it."""
    whole = memoryview(data)
    if whole.nbytes <= MAX_ERROR_BYTES:
        data = mask.data(data)  # secrets may be spelled in another way there
    text = mask(bytes(memoryview(data)[:MAX_ERROR_BYTES]).decode(errors="replace"))
    return text if len(text) <= MAX_CHARS and whole.nbytes <= MAX_ERROR_BYTES else text[:MAX_CHARS] + CUT
