"""Checks of `[[hooks]]`. Pure. A hook that cannot be asked refuses the whole file: whoever wrote it relies on it."""

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from config.loading.findings import Problem
from config.selectors import TOOL, BadSelector, read_selector
from config.settings import LOOPBACK, HubConfig
from config.tables import HookConfig

MAX_HOOKS: Final = 50
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def problems_of_hooks(config: HubConfig) -> Iterator[Problem]:
    """Problems of the hooks of a hub."""
    if len(config.hooks) > MAX_HOOKS:
        yield Problem("hooks", f"has {len(config.hooks)} hooks, and {MAX_HOOKS} are the most")
    names = [hook.name for hook in config.hooks]
    for number, hook in enumerate(config.hooks):
        for key, text in _problems(hook, names[:number]):
            yield Problem(("hooks", str(number), key), text)


def _problems(hook: HookConfig, before: list[str]) -> Iterator[tuple[str, str]]:
    if not _NAME.fullmatch(hook.name):
        yield "name", "must be lower-case letters, digits, dots, dashes or underscores, at most 64"
    elif hook.name in before:
        yield "name", f"there is another hook {hook.name}"
    if hook.on is None:
        yield "on", 'is missing: "before" or "after" a call'
    if not hook.match:
        yield "match", 'is missing: selectors of the tools that it is asked about, such as ["github__*"]'
    for text in hook.match:
        try:
            if read_selector(text).kind != TOOL:
                yield "match", f'"{text[:60]}" means no tools, and only calls of tools are asked about'
        except BadSelector as error:
            yield "match", f'"{text[:60]}" {error}'
    if bool(hook.command) == bool(hook.url):
        yield "command", "give a program (`command`) or an address (`url`), one of them"
    if hook.url and not _is_safe(hook.url):
        yield "url", "must be https, or http to this machine (127.0.0.1, localhost, [::1])"


def _is_safe(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and (
            parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
        )
    except ValueError:
        return False
