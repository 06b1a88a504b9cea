"""The ways by which hosts come to be shown a profile, as far as they are written down, entries in files of hosts and
tokens; in sentences for whoever has written the profile (`arrivals`, pure).

A host is shown the profile that its token names, else the one that its entry names, else the one that lists its label.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct, structs

from config.diagnostics import ConfigError, EditError
from config.editing.text import serverfile
from config.editing.text.change import EditRefused
from config.hosts.hub_entries import our_entries, url_of
from config.hosts.install import text_at
from config.hosts.known_hosts import KnownHost, all_hosts, every_user_file
from config.hub_paths import tokens_path
from config.loading.checks.profiles import OWN_LABEL
from config.loading.translate_host_file import command_of
from config.profile_settings import DEFAULT_PROFILE
from config.secrets.private_state_files import StateUnreadable
from config.security_settings import AccessToken
from hub.catalog.endpoint_views import PROFILE_MARK
from hub.cli.context import Context
from hub.cli.render.costs import find_known
from hub.control.answers import HostRow, Status
from hub.downstream.access.token_files import TOKENS


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


class HostWays(Struct, frozen=True):
    """All that is written down."""

    entries: dict[str, tuple[WrittenEntry, ...]] = {}
    """By the host whose file it is."""
    tokens: tuple[AccessToken, ...] = ()
    """Tokens of single hosts, each with its label."""


def ways_in(options: Context, hosts: list[str]) -> HostWays:
    """The entries of these hosts, and all tokens. What cannot be read is passed over: a sentence less is said."""
    configured: Sequence[AccessToken] = ()
    with suppress(ConfigError):
        configured = options.loaded.config.access.tokens
    return HostWays({host: tuple(_entries(host, options)) for host in hosts}, tuple(tokens(configured)))


def _entries(label: str, options: Context) -> Iterator[WrittenEntry]:
    host = all_hosts().get(label)
    if host is None:
        return
    with suppress(EditError, OSError):
        for place in every_user_file(host, options.machine):
            with suppress(EditError, EditRefused, OSError):
                entries = serverfile.entries(place.kept, text_at(place.path))
                for key in our_entries(place, entries, options.records):
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
    """The part of the hub that a URL names; "": the whole."""
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


def tokens(configured: Sequence[AccessToken]) -> Iterator[AccessToken]:
    """The tokens of `hubd token new`, as far as they can be read, and those of the configuration."""
    with suppress(StateUnreadable):
        for name, kept in TOKENS.read(tokens_path()).items():
            yield AccessToken(name=name, host=kept.host or name, profile=kept.profile)
    for each in configured:
        yield structs.replace(each, host=each.host or each.name)


MAX_SAID: Final = 6
"""Hosts of which something is said; of further ones, only how many there are."""


def arrivals(name: str, labels: Sequence[str], status: Status, ways: HostWays, *, changed: bool = True) -> list[str]:
    """The sentences about the hosts of the profile `name`, which lists these labels. `changed`: it has just been
    written."""
    hosts = all_hosts()
    found = [] if labels or name == DEFAULT_PROFILE else [_without_labels(name, status)]
    found += [text for label in labels for text in _of_label(name, label, status, ways, hosts)]
    if changed:
        attached = dict.fromkeys(each.label for each in status.hosts if each.profile == name)
        titles = [hosts[label].title for label in attached if label in hosts and hosts[label].lists_once]
        found += [f"restart {title}: it asks for its tools only when it starts" for title in titles]
    if len(found) > MAX_SAID:
        found[MAX_SAID:] = [f"and {len(found) - MAX_SAID} more hosts of it are not shown it now: see `hubd profiles`"]
    return found


def _without_labels(name: str, status: Status) -> str:
    """The way in which a profile without labels gets a host."""
    named = [each for each in status.hosts if each.profile == name]
    if named:
        whose = "the attached host" if len(named) == 1 else f"the {len(named)} attached hosts"
        return f"it is shown to {whose} whose entry or token names it, and lists no label of a host"
    labels = sorted({each.label for each in status.hosts if each.label not in ("", OWN_LABEL)})
    example = f", such as {labels[0]}" if labels else ""
    text = f"no host is shown it yet: list labels of hosts{example} as `hosts` of [profiles.{name}] (`hubd edit`), or"
    return f"{text} have the entry of a host name it: `hubd connect --profile {name}`, or the URL /mcp/~{name}"


def _of_label(name: str, label: str, status: Status, ways: HostWays, hosts: Mapping[str, KnownHost]) -> Iterator[str]:
    title = hosts[label].title if label in hosts else label
    attached = [each for each in status.hosts if each.label == label]
    yield from dict.fromkeys(text for each in attached if (text := _why_other_view(name, title, each)))
    if not attached:
        yield from _when_detached(name, label, title, status, ways, known=label in hosts)


def _why_other_view(name: str, title: str, row: HostRow) -> str:
    """The reason why an attached host is not shown the profile that lists its label; "": it is."""
    if row.profile == name:
        return ""
    if row.profile and row.profile != DEFAULT_PROFILE:
        text = f"{title} is shown the profile {row.profile} all the same: its token or its entry names that"
        return f"{text} (`--profile`, or the URL /mcp/~{row.profile}), which counts more than its label"
    if row.endpoint.startswith("/mcp/") and not row.endpoint.startswith(("/mcp/@", "/mcp/~")):
        return f"{title} has opened {row.endpoint}, one server alone, and no profile chooses from that"
    return ""


def _when_detached(name: str, label: str, title: str, status: Status, ways: HostWays, *, known: bool) -> Iterator[str]:
    """The way in which a host without an attached one comes to be shown the profile."""
    for row in status.hosts:
        if row.label != label and row.profile != name and (found := find_known(row)) is not None and found.id == label:
            has = f"has the label {row.label}" if row.label else "has no label"
            text = f"{title} is attached and {has}, so it is not shown {name}: its entry needs `--host {label}` (`hubd"
            yield f"{text} install {label}` writes it), `--profile {name}`, or the URL /mcp/~{name}"
            return
    tokens = [each for each in ways.tokens if each.host == label]
    entries = ways.entries.get(label, ())
    said = [_when_entry_starts(name, label, title, each) for each in entries]
    for token in tokens:
        if token.profile and token.profile != name:
            said.append(f"the token {token.name} opens the profile {token.profile} and nothing else, whatever lists it")
        else:
            how = f"with its token {token.name} it will be shown the profile {name} when it comes"
            said.append(f"{title} is not attached now; {how}")
    if said:
        yield from dict.fromkeys(said)
    elif known:
        yield f"{title} does not have the hub yet, and is shown {name} once it has: `hubd install {label}`"
    else:
        text = f"no host of the label {label} is attached: one with the entry `hubd connect --host {label}` is shown"
        yield f"{text} {name}, and so is the URL /mcp/~{name}"


def _when_entry_starts(name: str, label: str, title: str, entry: WrittenEntry) -> str:
    if entry.profile == name or (entry.label == label and not entry.profile and not entry.server):
        return f"{title} is not attached now; it will be shown the profile {name} when it starts"
    if entry.profile:
        how = f"its URL, /mcp/~{entry.profile}" if entry.opens_url else f"`--profile {entry.profile}`"
        return f"{title} will be shown the profile {entry.profile}: its entry in {entry.path} names that by {how}"
    if entry.server:
        whole = f"`hubd install {label}` gives it one for all"
        return f"the entry of {title} in {entry.path} is for one server, and no profile chooses from that: {whole}"
    if entry.opens_url:
        text = f"the entry of {title} in {entry.path} opens the hub's URL, which has no label: end it with"
        return f"{text} /mcp/~{name}, or run `hubd install {label}`"
    has = f"has the label {entry.label}" if entry.label else "has no label"
    return f"the entry of {title} in {entry.path} {has}: `hubd install {label}` gives it this one"


def say_arrivals(options: Context, name: str, labels: Sequence[str], status: Status, *, changed: bool = True) -> None:
    """Note how hosts come to be shown the profile, or why they are not."""
    ways = ways_in(options, [*labels])
    for text in arrivals(name, labels, status, ways, changed=changed):
        options.output.note(text)
