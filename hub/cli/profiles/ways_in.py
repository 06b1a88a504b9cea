"""The ways by which hosts reach the hub, as far as they are written down: entries in files of hosts, and tokens."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from config.editing.text import serverfile
from config.editing.text.change import EditRefused
from config.errors import ConfigError, EditError
from config.hosts.entry import url_of
from config.hosts.facts import Machine, all_hosts, every_user_file
from config.hosts.install import text_at
from config.hosts.installed import Records, our_entries
from config.hub_paths import install_records_path, tokens_path
from config.loading.assemble import load_all
from config.loading.host_files import command_of
from config.secrets.state_file import StateUnreadable
from config.tables.access import AccessToken
from hub.catalog.view import PROFILE_MARK
from hub.cli.subcommand import Desk
from hub.downstream.access.host_tokens import TOKENS


class WrittenEntry(Struct, frozen=True):
    """An entry of the hub in a file of a host."""

    path: Path
    label: str = ""
    """By `--host`; "": it says none, as one with a URL cannot."""
    profile: str = ""
    """The profile that it names by `--profile` or its URL."""
    server: str = ""
    """The one server that it is for; "": all."""
    opens_url: bool = False


class TokenWay(Struct, frozen=True):
    """A token of a single host."""

    name: str
    label: str
    profile: str
    """The profile that it opens, and nothing else; "": it chooses none."""


class HostWays(Struct, frozen=True):
    """All that is written down."""

    entries: dict[str, tuple[WrittenEntry, ...]] = {}
    """By the host whose file it is."""
    tokens: tuple[TokenWay, ...] = ()


def ways_in(options: Desk, hosts: list[str]) -> HostWays:
    """The entries of these hosts, and all tokens. What cannot be read is passed over: a sentence less is said."""

    configured: Sequence[AccessToken] = ()
    with suppress(ConfigError):
        configured = load_all(options.config, os.environ, partly=True).config.access.tokens
    return HostWays({host: tuple(_entries(host)) for host in hosts}, tuple(tokens(configured)))


def _entries(label: str) -> Iterator[WrittenEntry]:
    host = all_hosts().get(label)
    if host is None:
        return
    with suppress(EditError, OSError):
        records = Records(install_records_path())
        for place in every_user_file(host, Machine.this()):
            with suppress(EditError, EditRefused, OSError):
                entries = serverfile.entries(place.kept, text_at(place.path))
                for key in our_entries(place, entries, records):
                    yield entry_of(place.path, entries[key])


def entry_of(path: Path, entry: Any) -> WrittenEntry:
    """The words of an entry of the hub in this file about the view of its host. Pure."""

    if (url := url_of(entry)) is not None:
        last = _behind_mcp(url)
        profile = last.removeprefix(PROFILE_MARK) if last.startswith(PROFILE_MARK) else ""
        return WrittenEntry(path, profile=profile, server="" if profile else last, opens_url=True)
    words = command_of(entry)
    return WrittenEntry(path, _say(words, "--host"), _say(words, "--profile"), _say(words, "--upstream"))


def _behind_mcp(url: str) -> str:
    """What names a part of the hub in a URL; "": nothing does."""
    try:
        path = urlsplit(url).path.rstrip("/")
    except ValueError:
        return ""
    return path.rpartition("/mcp/")[2] if "/mcp/" in path else ""


def _say(words: list[str], option: str) -> str:
    """The value of an option of `hubd connect`; the last one counts."""
    found = ""
    for at, word in enumerate(words):
        if word == option and at + 1 < len(words):
            found = words[at + 1]
        elif word.startswith(f"{option}="):
            found = word.partition("=")[2]
    return found


def tokens(configured: "Sequence[AccessToken]") -> Iterator[TokenWay]:
    """The tokens of `hubd token new`, as far as they can be read, and those of the configuration."""

    with suppress(StateUnreadable):
        for name, kept in TOKENS.read(tokens_path()).items():
            yield TokenWay(name, kept.host or name, kept.profile)
    for each in configured:
        yield TokenWay(each.name, each.host or each.name, each.profile)
