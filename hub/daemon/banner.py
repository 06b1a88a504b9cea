"""The banner at the start: where the hub listens, with entries to paste into hosts.

A hub that runs as root says there that it, and every server that it starts, has more rights than it needs.
"""

import json
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from config.hub_paths import socket_path
from config.hubd_executable import lasting_command
from config.settings import HubConfig
from hub.app import OPEN_DOOR
from hub.daemon.http_listener import HttpListener
from hub.downstream.access.hub_urls import WaysIn, resource_of, shows_token, ways_in, who_comes

log = logging.getLogger("hubd")


def announce(listener: HttpListener, config: HubConfig, *, shown: bool) -> None:
    """Log where the hub listens; with `shown`, print it as well."""
    ways = ways_in(config, *listener.address)
    if shown:
        with suppress(OSError, AttributeError):  # nobody reads it; the log has it, too
            resource = resource_of(config, *listener.address)
            print("\n".join(_entries(config, listener.url, ways, resource)), flush=True)  # noqa: T201
    log.info("listening on %s and %s", listener.url, socket_path())
    if ways.proxied:
        log.info("reached through the proxy by %s", ", ".join(ways.proxied))
    if come := who_comes(config):
        log.info("%s; tokens of `hubd token` count, too", come)
    if config.auth == "none":
        log.warning(OPEN_DOOR)


def _entries(config: HubConfig, url: str, ways: WaysIn, resource: str) -> list[str]:
    """The lines of the banner."""
    lines = [
        f"hubd listens on {url} and {socket_path()}",
        "",
        "A host that starts commands (stdio):",
        json.dumps({"mcpServers": {"hub": {"command": lasting_command() or "hubd", "args": ["connect"]}}}, indent=2),
    ]
    if config.behind_tls_proxy:
        lines += _entry_by_url(config, "beyond the proxy", ways.proxied or ("https://NAME/mcp",), resource)
        if not ways.proxied:
            lines.append('NAME is what hosts call the proxy; write it into allowed_hosts, such as "NAME:443"')
    if ways.here or not config.behind_tls_proxy:
        whose = "of this machine" if config.behind_tls_proxy else ""
        lines += _entry_by_url(config, whose, (ways.here or url,), resource)
    return lines


def _entry_by_url(config: HubConfig, whose: str, urls: Sequence[str], resource: str) -> list[str]:
    """An entry for a host that opens URLs, with the first of `urls`; the others are named."""
    entry: dict[str, object] = {"url": urls[0]}
    notes = []
    if shows_token(config, urls[0], resource):
        entry["headers"] = {"Authorization": "Bearer TOKEN"}
        notes.append("TOKEN stands for what `hubd token` prints")
    elif come := who_comes(config):
        notes.append(come)
    notes += [f"{url} leads here, too" for url in urls[1:]]
    title = f"A host {whose} that opens URLs" if whose else "A host that opens URLs"
    title += f" ({'; '.join(notes)})" if notes else ""
    return [f"{title}:", json.dumps({"mcpServers": {"hub": entry}}, indent=2)]


MARKS: Final = ("/.dockerenv", "/run/.containerenv", "/run/systemd/container")
"""Files that exist in containers only."""
CONTAINER_VARIABLE: Final = "KUBERNETES_SERVICE_HOST"
ROOT: Final = "the hub runs as root, and so does every server it starts"
ADVICE: Final = "run hubd as a user, or `hubd service install --system` for a service with a user of its own"


def is_root(uid: int | None = None, marks: Iterable[str] = MARKS, environ: Mapping[str, str] = os.environ) -> bool:
    """True if this process, or one of `uid`, has the rights of root outside of a container."""
    if (os.geteuid() if uid is None else uid) != 0:
        return False
    return CONTAINER_VARIABLE not in environ and not any(map(os.path.exists, marks))
