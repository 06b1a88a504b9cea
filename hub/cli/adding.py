"""What `hubd add` was told, as the settings of a new server; and what is doubtful about them."""

import argparse
import os
import re
from collections.abc import Iterator
from typing import Any

from hub.cli.subcommand import UsageError, nearest


def settings_of(options: argparse.Namespace) -> dict[str, Any]:
    """The settings of the new server, in the order in which they are written.

    Raises:
        UsageError: they make no sense.
    """
    if bool(options.words) == (options.url is not None):
        raise UsageError("say either which command to run, after `--`, or which URL to open, with --url")
    found: dict[str, Any] = {}
    if options.words:
        found["command"], *arguments = options.words
        found |= {"args": arguments} if arguments else {}
    else:
        found["url"] = options.url
    for setting, pairs in (("env", options.env), ("headers", options.header)):
        if pairs:
            found[setting] = dict(_pair(pair, setting) for pair in pairs)
    if options.cwd is not None:
        found["cwd"] = os.path.abspath(os.path.expanduser(options.cwd))
    if options.disabled:
        found["disabled"] = True
    for pair in options.set:
        path, text = _pair(pair, "set")
        _refuse_unknown(path.split(".")[0])
        _set(found, path, text)
    return found


def _refuse_unknown(setting: str) -> None:
    from config.schema import UpstreamConfig

    known = UpstreamConfig.__struct_fields__
    if setting not in known:
        hint = nearest(setting, known) or f"there are: {', '.join(sorted(known))}"
        raise UsageError(f'--set: there is no setting "{setting}"; {hint}')


def _pair(text: str, setting: str) -> tuple[str, str]:
    """Key and value; a header may be written with a colon, too."""
    found = re.fullmatch(r"([^=:]+)[=:]\s*(.*)" if setting == "headers" else r"([^=]+)=(.*)", text, re.S)
    if found is None:
        option = {"headers": "header"}.get(setting, setting)
        raise UsageError(f"--{option} takes KEY=VALUE")
    return found[1].strip(), found[2]


def _set(values: dict[str, Any], path: str, text: str) -> None:
    *above, last = path.split(".")
    for key in above:
        values = values.setdefault(key, {})
        if not isinstance(values, dict):
            raise UsageError(f"--set {path}: {key} has a value already")
    if last in values:
        raise UsageError(f"--set {path}: it has a value already")
    values[last] = _typed(text)


def _typed(text: str) -> Any:
    """The value that TOML reads there, or else the text itself."""
    import tomllib

    try:
        value = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    plain = isinstance(value.get("value"), bool | int | float | str | list | dict)
    return value["value"] if plain and len(value) == 1 else text


def warnings(name: str, values: dict[str, Any]) -> list[str]:
    """What is doubtful about a new server beyond what the configuration itself says. Shows no values (SEC-61)."""
    import shutil

    found = [_of_secret(name, setting, key, value) for setting, key, value in _secrets(values)]
    command = values.get("command")
    if isinstance(command, str) and "${" not in command and "/" not in command and shutil.which(command) is None:
        found.append(f"there is no command {command} on the PATH of this shell")
    return found


def _secrets(values: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """What looks like a secret: the setting, the name in it ("" for none), and the value. Types may be wrong yet."""
    from config.secret_detection import secrets_in

    for setting in ("env", "headers", "url", "args"):
        value = values.get(setting)
        if isinstance(value, dict):
            for key, each in value.items():
                yield from ((setting, key, secret) for secret in secrets_in(each, key))
        elif next(secrets_in(value), None) is not None:
            yield setting, "", ""


def _of_secret(name: str, setting: str, key: str, value: str) -> str:
    if not key:
        return f"{setting} seems to hold a secret; better write ${{VAR}} or ${{file:path}} in its place"
    variable = re.sub(r"\W+", "_", key if setting == "env" else f"{name}_token").upper()
    scheme = "Bearer " if value.startswith("Bearer ") else ""
    return (
        f"{setting}.{key} looks like a secret and now stands in the file as it is; better write "
        f"'{scheme}${{{variable}}}' (a variable of the hub's environment) "
        f"or '{scheme}${{file:~/.secrets/{variable.lower()}}}'"
    )
