"""Upstreams that are reconfigured while they run, and projects that come and go."""

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import trio
from msgspec import structs

from config.diff import compare
from config.projects import Project
from config.settings import HubConfig, UpstreamConfig
from hub.projects.find_project_of_host import FoundProject, TrustedProjects
from hub.wire.mcp import L4, MODERN
from tests.simulation.players import Player
from tests.support.fakes import Conversation, FakeSession

BAD = ("bad",)
"""Arguments with which no upstream starts."""
HANG_S = 100.0


class _Started:
    """A player started with one configuration, as a `FakeSession` needs it."""

    def __init__(self, player: "Shifter", config: UpstreamConfig) -> None:
        self._player = player
        self._config = config

    @property
    def refuses(self) -> bool:
        return self._player.main.trouble == "refuse" or self._config.args == BAD

    async def serve(self, stream: Any) -> None:
        await self._player.serve(stream, self._config)


class Shifter(Player):
    """An upstream whose first argument, if any, is the name of one more tool.

    With `both` it also speaks the legacy era, through its `elder`, a second one that shares its memory.
    """

    def __init__(self, name: str, version: str, *, both: bool = False, main: "Shifter | None" = None) -> None:
        super().__init__(name.replace("@", "-"), version)
        self.name = name
        self.main = main or self
        self.config: UpstreamConfig | None = None
        """Its configuration; None: it is not configured."""
        self.trouble: str | None = None
        """The fate of new connections: `refuse`, `hang`, `die`."""
        self.dismissed: set[Conversation] = set()
        """Conversations that may get no more calls."""
        self.wrong: list[str] = []
        self.elder: Shifter | None = None
        if both:
            self.elder = Shifter(name, L4, main=self)
            self.elder.lists, self.elder.begun, self.elder.crossings = self.lists, self.begun, self.crossings
        self.on["tools/list"] = self._list_tools
        for method in ("initialize", "server/discover"):
            self.on[method] = self._greet

    def open(self, config: Any, name: str, events: Any, memory: Any, terms: Any = None) -> FakeSession:
        of = self.elder if self.elder is not None and config.era == "legacy" else self
        session = FakeSession(_Started(of, config), config, name, events, memory, terms)  # type: ignore[arg-type]
        session.transport = "stdio" if config.url is None else "http"
        return session

    @property
    def all_conversations(self) -> list[Conversation]:
        """The conversations of both eras."""
        return self.conversations + (self.elder.conversations if self.elder else [])

    @property
    def going_on(self) -> list[Conversation]:
        return [each for each in self.all_conversations if not each.over]

    def offers(self, config: UpstreamConfig) -> list[str]:
        """Its tools."""
        return [tool["name"] for tool in self.lists["tools"]] + list(config.args[:1])

    def _list_tools(self, message: dict[str, Any], conversation: Conversation) -> Any:
        result = dict(self.answer(message))
        more = [{**self.lists["tools"][0], "name": name} for name in conversation.config.args[:1]]
        result["tools"] = [*result["tools"], *more]
        return result

    async def _greet(self, message: dict[str, Any], conversation: Conversation) -> Any:
        if self.main.trouble == "hang":
            await trio.sleep(HANG_S)
        if self.main.trouble == "die":
            await conversation.close()
            return None
        return self.answer(message)

    async def work(self, message: dict[str, Any], conversation: Conversation) -> Any:
        self.main.look_at(message, conversation)
        return await super().work(message, conversation)

    def look_at(self, message: dict[str, Any], conversation: Conversation) -> None:
        """Record a complaint if a call may not come here."""
        marker = message["params"]["arguments"]["marker"]
        if self.config is None or self.config.disabled:
            self.wrong.append(f"{marker} came to {self.name}, which is not configured")
        elif conversation in self.dismissed:
            self.wrong.append(f"{marker} came to {self.name} as it was before")
        elif self.is_wronged(conversation):
            self.wrong.append(f"{marker} came to {self.name}, started as it must not be: {conversation.config}")

    def configured(self, config: UpstreamConfig | None) -> None:
        """Take this configuration from now on."""
        self.config = config
        self.dismissed.update(each for each in self.conversations if config is None or self.is_wronged(each))

    def is_wronged(self, conversation: Conversation) -> bool:
        """Whether it began with rights that were withdrawn since."""
        assert self.config is not None
        change = compare(structs.replace(conversation.config, era=self.config.era), self.config)
        return change is not None and change.withdraws

    async def crash(self) -> None:
        """End every session."""
        for conversation in self.going_on:
            await conversation.close()

    async def tell_all(self, method: str, params: dict[str, Any] | None = None) -> None:
        await super().tell_all(method, params)
        if self.elder is not None:
            await self.elder.tell_all(method, params)

    def stock(self, dice: Random) -> None:
        super().stock(dice)
        if self.elder is not None:
            self.elder.stock(dice)
            shared = ("versions", "heard", "settled", "readings")
            for each in shared:
                setattr(self.elder, each, getattr(self, each))

    @property
    def connections(self) -> list[Conversation]:
        return self.all_conversations


class Atlas(TrustedProjects):
    """Projects, their files, and the permissions of the user."""

    def __init__(self) -> None:
        self.trust: Any = self
        self.watched = []
        self.roots: dict[Path, Path] = {}
        """The projects by folder."""
        self.projects: dict[Path, Project] = {}
        self.allowed: set[str] = set()

    def write(self, root: Path, upstreams: dict[str, UpstreamConfig], *, allowed: bool) -> None:
        """Write the files of a project."""
        digest = repr((root, upstreams))
        more: dict[str, Any] = {"accounts": {}, "origins": {}, "warnings": ()}
        self.projects[root] = Project(root=root, files=(), digest=digest, upstreams=upstreams, **more)
        if allowed:
            self.allowed.add(digest)

    def find(self, directory: Path, base: HubConfig, running: Mapping[Path, Project]) -> FoundProject | None:
        root = self.roots.get(directory)
        project = self.projects.get(root) if root else None
        if root is None or project is None:
            return None
        if self.is_allowed(project):
            return FoundProject(root, project)
        before = running.get(root)
        kept = before if before is not None and self.is_allowed(before) else None
        return FoundProject(root, kept, "it is not allowed")

    def is_allowed(self, project: Project) -> bool:
        return project.digest in self.allowed

    def allows_any(self) -> bool:
        return bool(self.allowed)


class NoWatcher:
    """Replaces `config.file_watcher.Watcher`, since there are no files."""

    def __init__(self, changed: Any) -> None:
        pass

    def watch(self, files: Any, directories: Any) -> None:
        pass

    def look_again(self) -> None:
        pass

    async def run(self) -> None:
        await trio.sleep_forever()


__all__ = ["BAD", "L4", "MODERN", "Atlas", "NoWatcher", "Shifter"]
