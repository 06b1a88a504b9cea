"""What may be done on the dashboard: a golden list. Servers are neither added nor edited, no tool is called, no secret
is shown, and the hub is not stopped.

Each says what it did in a sentence, and is written to the audit log as `dashboard`.
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import trio

from config.atomic_writes import lock_edits
from config.diagnostics import ConfigError
from config.editing.draft_across_files import UNUSABLE, Draft
from config.hub_paths import backup_dir, state_dir
from config.server_names import server_of
from hub.app import WALL
from hub.daemon.dashboard.dependencies import Parts
from hub.daemon.dashboard.inbox_items_and_decisions import Inbox
from hub.daemon.dashboard.messages import Said

Action = Callable[..., Awaitable[Said]]
ACTIONS: Final = (
    *("restart", "enable", "disable", "reload", "clear_cache"),
    *("approve", "deny", "approve_pins", "trust", "sign_in"),
)


class Actions:
    """Carries them out, by the names of `ACTIONS`. Each raises HubError, ConfigError, EditError or OSError,
    if it refuses."""

    def __init__(self, parts: Parts, inbox: Inbox) -> None:
        self._parts = parts
        self.by_name: Mapping[str, Action] = {
            name: getattr(self if hasattr(self, name) else inbox, name) for name in ACTIONS
        }

    def write_down(self, principal: str, action: str, given: Mapping[str, Any], outcome: str) -> None:
        """Have the audit log say what was done; `outcome`: "", or why not."""
        about = {key: given[key] for key in ("name", "id", "item", "lasting") if given.get(key)}
        failed = {"why": outcome} if outcome else {}
        self._parts.hub.audit.note("dashboard", p=principal, m=action, **about, **failed)

    async def restart(self, name: str) -> Said:
        """Restart a server."""
        await self._parts.api.restart(name)
        return Said(text=f"restarting {name}")

    async def reload(self) -> Said:
        """Read the configuration again."""
        found = await self._parts.api.reload()
        return Said(text=found.summary, problem=found.problem or "", warnings=found.warnings)

    async def clear_cache(self, name: str | None = None) -> Said:
        """Drop the cached resources of a server, or of all."""
        cleared = (await self._parts.api.cache_clear(name)).cleared
        return Said(text=f"cleared: {cleared} {'resource' if cleared == 1 else 'resources'}")

    async def enable(self, name: str) -> Said:
        """Turn a server on."""
        return await self._switch(name, disabled=False)

    async def disable(self, name: str) -> Said:
        """Turn a server off, and keep its settings."""
        return await self._switch(name, disabled=True)

    async def _switch(self, name: str, *, disabled: bool) -> Said:
        """Turn a server off or on, by the change of a file that the commands make."""
        word = "disabled" if disabled else "enabled"
        saved = await trio.to_thread.run_sync(partial(self._edit, name, disabled=disabled))
        if not saved:
            return Said(text=f"{name} is {word}")
        found = await self._parts.api.reload()
        return Said(text=f"{word} {name}: {'; '.join(saved)}", problem=found.problem or "", warnings=found.warnings)

    def _edit(self, name: str, *, disabled: bool) -> list[str]:
        """The files that were changed, as sentences. Blocks."""
        files = self._parts.reloader.loaded.files
        with lock_edits(state_dir()):
            draft = Draft(files[0] if files else None, os.environ)
            if not draft.switch(server_of(name), disabled=disabled):
                return []
            if problems := draft.problems():
                raise ConfigError("; ".join([UNUSABLE, *map(str, problems)]))
            saved = draft.save(datetime.fromtimestamp(WALL(), UTC), backup_dir())
        return [f"{path} (before: {backup})" if backup else str(path) for path, backup in saved.items()]
