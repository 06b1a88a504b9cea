"""`hubd add`: a new server, which is a command to run, a URL to open, or one of a registry (`hub.cli.registry`)."""

import os
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from config.diagnostics import ConfigError
from config.hosts.secret_literals import NewSecrets, refer_to_store, spots_of
from config.secrets.store import SecretStore
from config.server_names import id_of_url
from config.setting_declarations import declarations
from config.settings import UpstreamConfig
from hub.cli.configuration.make_change import MEMBERS, add_server
from hub.cli.context import Context, Output, UsageError, agreed, nearest_or_all
from hub.cli.parser import Parser, add, add_config, add_no_wait, load_when_run, on_main_file
from hub.cli.shell_secrets import keep_in, settle_of_new

_EPILOG: Final = """examples:
  hubd add files -- npx -y @modelcontextprotocol/server-filesystem /home/me/notes
  hubd add https://mcp.linear.app/mcp
  hubd add io.github.example/filesystem --input target_dir=~/notes
  hubd add ~/Downloads/filesystem.mcpb
  hubd add github https://example.com/mcp --header 'Authorization=Bearer ${GITHUB_TOKEN}'
  hubd add db --env 'DATABASE_URL=${file:~/.secrets/db-url}' --set timeouts.call=600 -- db-mcp
"""
PACKAGES: Final = ("npm", "pypi", "oci", "mcpb")
_FOUND: Final = """\
  servers  of each: name, version, registry, runs_as, status, message (why), published, title, description
  more     whether there are more than were asked for"""
_OUTDATED: Final = """\
  servers  of each that came from a registry: name, source, version (what it has), newest, status (of what it has;
           "gone": the registry does not have it any more), message (why), problem (why nothing is known)"""

_UPDATED: Final = """\
  source     the entry of a registry that it was made of until now
  newest     the newest version there
  version    of a bundle in a file, and before: that of the one that runs until now
  changes    what differs, each in words: commands, arguments, variables, headers"""
BUNDLE: Final = ".mcpb"


def add_commands(commands: Any) -> None:
    """`add`, `search`, `outdated`, `update`."""
    new = add(commands, "add", on_main_file(_add), json=MEMBERS)
    new.usage = (
        "hubd add NAME [options] -- COMMAND [ARGUMENT ...]\n       hubd add [NAME] URL [options]\n"
        "       hubd add REGISTRY/NAME[@VERSION] [options]\n"
        "       hubd add [NAME] FILE.mcpb [options]"
    )
    new.hint = "the command to run goes behind `--`"
    new.epilog = f"{_EPILOG}\n{new.epilog}"
    text = "lower-case words joined by single dashes; made of the URL if there is only that. With a slash it is a name"
    new.add_value("name", "NAME", f"{text} in a registry, as `hubd search` shows it")
    new.add_value("opened", "URL", "a server to open, in place of a command to run; or a bundle (.mcpb)", nargs="?")
    new.add_value("--url", "URL", "the same")
    new.add_value("--env", "KEY=VALUE", "a variable for the command", action="append", default=[])
    new.add_value("--header", "KEY=VALUE", "a header for the URL", action="append", default=[])
    new.add_value("--cwd", "DIRECTORY", "where the command runs")
    new.add_flag("--disabled", "known, not started")
    new.add_value("--set", "KEY=VALUE", "any other setting, as in --set timeouts.call=600", action="append", default=[])
    text = "what looks secret: kept as by `hubd secret set`, or written into the file; asked on a terminal"
    new.add_argument("--secrets", choices=("store", "keep"), help=text)
    _add_registry_options(new)
    new.add_flag("--dry-run", "show what would be changed, and change nothing")
    add_no_wait(new)
    add_config(new)
    _add_registry_commands(commands)


def _add_registry_commands(commands: Any) -> None:
    search = add(commands, "search", "hub.cli.registry.search_and_outdated:search", json=_FOUND)
    search.add_value("words_of_search", "WORD", "a part of a server's name", nargs="+")
    _add_registry(search)
    outdated = add(commands, "outdated", "hub.cli.registry.search_and_outdated:list_outdated", json=_OUTDATED)
    command = on_main_file(load_when_run("hub.cli.registry.update_command:update"))
    update = add(commands, "update", command, json=f"{MEMBERS}\n{_UPDATED}")
    update.add_value("name", "NAME", "the server's name as `hubd status` shows it")
    update.add_value("file", "FILE", "another version of its bundle (.mcpb)", nargs="?")
    update.add_flag("--ask", "ask again what its bundle asks for")
    _add_agreement(update)
    update.add_flag("--dry-run", "show what would be changed, and change nothing")
    add_no_wait(update)
    for each in (search, outdated, update):
        add_config(each)


def _add_registry_options(parser: Parser) -> None:
    parser.add_value("--as", "NAME", "its name here; made of that in the registry", dest="called")
    _add_registry(parser)
    parser.add_argument("--package", choices=PACKAGES, help="the package to run, where there are several ways")
    parser.add_flag("--remote", "open its address, where there are several ways")
    _add_agreement(parser)


def _add_registry(parser: Parser) -> None:
    parser.add_value("--registry", "NAME", "ask this one only, of [registries.NAME], or official")


def _add_agreement(parser: Parser) -> None:
    text = "a value that the server needs; again for each"
    parser.add_value("--input", "KEY=VALUE", text, action="append", default=[])
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask; what has a default gets that")


# --- add --------------------------------------------------------------------------------------------------------------


def _add(options: Context, output: Output) -> None:
    if (path := _bundle_of(options)) is not None:
        options = options if options.opened is None else options.replace(called=options.name)
        return load_when_run("hub.cli.bundles.add_bundle:add_file")(options, path, _own_settings(options, {}))
    if _is_listed(options):
        return load_when_run("hub.cli.registry.add_from_registry:add_listed")(options, _own_settings(options, {}))
    own = {"--as": "called", "--registry": "registry", "--package": "package", "--remote": "remote", "--input": "input"}
    if option := next((option for option, name in own.items() if getattr(options, name)), ""):
        text = f"{option} is for a bundle, or a server of a registry"
        raise UsageError(f"{text}, such as `hubd add io.github.someone/something`")
    options = options.replace(**_name_and_url(options))
    add_server(options, *_take_out_secrets(options, _settings_of(options)))


def _bundle_of(options: Context) -> str | None:
    """The path of a bundle that is to be added; None: it is something else. Raises: UsageError."""
    path: str = options.name if options.opened is None else options.opened
    if not path.endswith(BUNDLE):
        return None
    if "://" in path:
        raise UsageError("a bundle is not taken from an address: download it, look at it, and add the file")
    if options.words or options.url is not None or options.registry or options.package or options.remote:
        raise UsageError(f"{path} is a bundle, which says itself what runs")
    if options.opened is not None and options.called:
        raise UsageError("the name was given twice")
    return os.path.abspath(os.path.expanduser(path))


def _is_listed(options: Context) -> bool:
    """True if the name is one of a registry: it holds a slash, and no `://`."""
    if "/" not in options.name or "://" in options.name:
        return False
    if options.words or options.opened is not None or options.url is not None:
        text = f"{options.name} is a name in a registry, which says itself what runs; for a command or a URL of yours"
        raise UsageError(f"{text} give it a name without a slash")
    return True


def _name_and_url(options: Context) -> dict[str, str | None]:
    """The options `name` and `url`: what holds `://` is a URL, and a name is made of one that stands alone."""
    given = [each for each in (options.opened, options.url) if each is not None]
    is_alone = "://" in options.name
    if len(given) + is_alone > 1:
        options.parser.error("a URL was given twice")
    if options.opened is not None and "://" not in options.opened:
        options.parser.refuse([options.opened])
    if not is_alone:
        return {"name": options.name, "url": next(iter(given), None)}
    taken: Mapping[str, UpstreamConfig] = {}
    with suppress(ConfigError):  # which is said when it is changed
        taken = options.loaded.config.upstreams
    try:
        name = id_of_url(options.name, taken)
    except ValueError as error:
        raise UsageError(f"{options.name} is no URL that can be opened: {error}") from None
    options.output.say(f"its name is {name}; for another one: hubd add NAME URL")
    return {"name": name, "url": options.name}


# --- the settings of a new server -------------------------------------------------------------------------------------


def _settings_of(options: Context) -> dict[str, Any]:
    """The settings of the new server, in the order in which they are written."""
    if bool(options.words) == (options.url is not None):
        raise UsageError("say either which command to run, after `--`, or which URL to open")
    if not options.words:
        return _own_settings(options, {"url": options.url})
    command, *arguments = options.words
    return _own_settings(options, {"command": command, **({"args": arguments} if arguments else {})})


def _own_settings(options: Context, found: dict[str, Any]) -> dict[str, Any]:
    """`found` with what the options say of it besides."""
    for setting, pairs in (("env", options.env), ("headers", options.header)):
        if pairs:
            found[setting] = dict(_pair(pair, setting) for pair in pairs)
    if options.cwd is not None:
        found["cwd"] = os.path.abspath(os.path.expanduser(options.cwd))
    if options.disabled:
        found["disabled"] = True
    for pair in options.set:
        path, text = _pair(pair, "set")
        setting, known = path.split(".")[0], declarations(UpstreamConfig)
        if setting not in known:
            raise UsageError(f'--set: there is no setting "{setting}"; {nearest_or_all(setting, sorted(known))}')
        _set(found, path, text)
    return found


def _take_out_secrets(options: Context, values: dict[str, Any]) -> tuple[dict[str, Any], NewSecrets | None]:
    """The settings with references in the places of secrets, and the secrets; None: they stay where they are."""
    spots = spots_of(values)
    where = ", ".join(f"{setting}.{at}" if at else setting for setting, at in spots)
    chosen = options.secrets
    if chosen is None and spots and not options.dry_run and options.output.is_attended():
        looks = "looks" if len(spots) == 1 else "look"
        question = f"{where} {looks} secret. Keep it as `hubd secret` does, out of the file?"
        chosen = "store" if agreed(question, default=True) else "keep"
    kept = [] if options.dry_run else settle_of_new(options, values)
    is_moved = bool(spots) and chosen == "store"
    if not kept and not is_moved:
        return values, None
    new = NewSecrets(SecretStore.open())
    keep_in(new, kept)
    return (refer_to_store(values, options.name, spots, new) if is_moved else values), new


def _pair(text: str, setting: str) -> tuple[str, str]:
    """Key and value. A header may also be written with a colon."""
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
    values[last] = _read_value(text)


def _read_value(text: str) -> Any:
    """The text as a TOML value; if it is none, the text itself."""
    try:
        value = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    plain = isinstance(value.get("value"), bool | int | float | str | list | dict)
    return value["value"] if plain and len(value) == 1 else text
