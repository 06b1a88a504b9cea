"""Gate of pins: refuses calls of what is held back, also by names that hosts know from before.

It goes by what the server lists at the moment of the call: a change that no catalogue has yet counts at once.
"""

from collections.abc import Callable, Mapping
from typing import Final

from hub.calls.chain import Intent, Stage
from hub.link.hub_errors import ApprovalRequired, HubError
from hub.rules.fingerprints import key_of
from hub.rules.pins.pins import Pins
from hub.wire.jsonrpc import Reply
from hub.wire.mcp import COMPLETE, PROMPTS_GET, TOOLS_CALL, Kind

METHODS: Final[Mapping[str, tuple[Kind, ...]]] = {
    TOOLS_CALL: (Kind.TOOL,),
    PROMPTS_GET: (Kind.PROMPT,),
    COMPLETE: (Kind.PROMPT, Kind.TEMPLATE),
}
"""The methods that may ask for what is held back, and the lists that it is in."""
_NOUNS: Final = {Kind.TOOL: "tool", Kind.PROMPT: "prompt", Kind.TEMPLATE: "template"}
Refuse = Callable[[HubError, Intent], Reply]
"""Makes the reply of a refusal, as the host of the intent may see it."""


class PinGate(Stage):
    """The gate of all upstreams of which something may be held back."""

    def __init__(self, pins: Pins, refuse: Refuse) -> None:
        self._pins = pins
        self._refuse = refuse

    def admits(self, intent: Intent) -> Reply | None:
        name, original = intent.target.route.upstream, intent.target.route.original
        review = self._pins.of(name)
        if review is None or not review.held:
            return None
        kinds = METHODS[intent.operation.method]
        kind = next((kind for kind in kinds if (kind, original) in review.held), None)
        if kind is None:
            return None
        self._pins.note("refuse", **intent.facts(), by="pin")
        return self._refuse(ApprovalRequired(self._why(name, kind, original), upstream=name), intent)

    def _why(self, name: str, kind: Kind, original: str) -> str:
        key, review = key_of(kind, original), self._pins.of(name)
        what, then = f"this {_NOUNS[kind]}", f"the user can look at it with hubd pins {name}."
        if review is not None and key in review.hides:
            return f"Not run: {name} hides characters in its definition of {what}; {then}"
        if key in self._pins.newest(name):
            return f"Not run: {name} changed {what}; {then}"
        return f"Not run: nobody has approved {what} of {name} yet; {then}"
