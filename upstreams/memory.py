"""Memory: facts about upstreams that outlive the hub, as its parts need it. Pure.

`config.saved_state.Memory` is one.
"""

from typing import Protocol

from upstreams.session import EraMemory


class Memory(Protocol):
    """Facts by section and key, remembered between runs."""

    def get(self, section: str, key: str) -> object: ...

    def keys(self, section: str) -> list[str]: ...

    def put(self, section: str, key: str, value: object) -> None: ...


class UpstreamMemory(EraMemory, Memory, Protocol):
    """All that is remembered of an upstream: facts, and the era that it spoke."""
