"""Requests of the command line as a host: what any host can do, from a shell."""

import base64
import binascii
import json
import os
import sys
from contextlib import suppress
from functools import cache
from typing import Any, Final

from config.loading.checks.profiles import OWN_LABEL
from hub.cli.client.answers import completion, prompt, prompts, result, titles
from hub.cli.client.arguments import build_arguments, depends_on_schema, split
from hub.cli.client.connection import CallRefused, HubSession, for_people
from hub.cli.client.person_at_terminal import may_call_again, request_of
from hub.cli.client.retry_while_servers_start import anyone, once_connected, owns, why_away
from hub.cli.context import EX_FAILED, Context, Output, UsageError, as_json, ask_hub, nearest
from hub.cli.profiles.session_in_profile import profile_that_renames, say_refused_file, session_as, why_refused
from hub.cli.render.blocks import Table
from hub.control.client_errors import ControlFailed
from hub.control.methods import EXPLAIN_POLICY
from hub.wire.printable import printable
from hub.wire.vocabulary import HUB_FAILURE, HUB_SERVER, HUB_TOOLS, INVALID_PARAMS

MAX_FILE_BYTES: Final = 16 << 20
"""The largest file that an argument may be read from."""
Object = dict[str, Any]


# --- tools ------------------------------------------------------------------------------------------------------------


def run_call(options: Context, output: Output) -> None:
    failed: tuple[Object, str] | None = None
    with session_as(options, options.profile) as hub:
        tool = options.name

        def act() -> Object:
            nonlocal tool
            tool, arguments = _tool_and_arguments(options, hub)
            if not output.json and "logging" in hub.capabilities:
                hub.request("logging/setLevel", {"level": "info"})
            return hub.request("tools/call", {"name": tool, "arguments": arguments, "_meta": {"progressToken": "call"}})

        try:
            # a profile may have given the tool a name that does not say whose it is
            answer = once_connected(act, owns(options.name) if options.profile is None else anyone)
            while may_call_again((answer.get("_meta") or {}).get(HUB_FAILURE), output, yes=options.yes):
                answer = act()
        except CallRefused as refused:
            why = _why(refused, tool, hub) if options.profile is None else why_refused(refused, tool, hub, options)
            failed = refused.error, why
            if refused.error.get("code") == INVALID_PARAMS:
                say_refused_file(output)
    if failed is not None:
        error, why = failed
        if not options.raw:
            return output.fail(printable(why, keep="\n"))
        answer = {"error": {**error, "message": why}}
    is_error = failed is not None or answer.get("isError") is True
    if options.raw:
        print(as_json(answer))
    elif is_error and (told := for_people(facts := (answer.get("_meta") or {}).get(HUB_FAILURE))):
        id = request_of(facts)
        output.fail(f"{told}; say yes by `hubd approve {id}` and call again, or call with --yes" if id else told)
    else:
        print(result(answer), file=sys.stderr if is_error else sys.stdout)
    if is_error:
        output.exit_with(EX_FAILED)


def _tool_and_arguments(options: Context, hub: "HubSession") -> tuple[str, Object]:
    """The tool that is meant and its arguments, from `--json` or from words. `SERVER TOOL` is a tool's name, too."""
    name, words = options.name, list(options.arguments)
    if words and "=" not in words[0] and any(tool.get("name") == f"{name}__{words[0]}" for tool in _tools(hub)):
        name = f"{name}__{words.pop(0)}"
    if options.object is not None:
        if words:
            raise UsageError("give arguments either as KEY=VALUE or with --json, not both")
        return name, _object(_file("-") if options.object == "-" else options.object)
    try:
        pairs = split(words)
        schema: Any = {}
        if depends_on_schema(pairs) or any(text.startswith("@") for _, text in pairs):
            schema = next((tool.get("inputSchema") for tool in _tools(hub) if tool.get("name") == name), {})
        return name, build_arguments(pairs, schema if isinstance(schema, dict) else {}, _file)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _tools(hub: "HubSession") -> list[Object]:
    return hub.items("tools/list", "tools")


def _why(refused: "CallRefused", name: str, hub: "HubSession") -> str:
    code, message = refused.error.get("code"), str(refused)
    known = [str(tool.get("name")) for tool in _tools(hub)] if code == INVALID_PARAMS else [name]
    if name in known or (name.startswith(HUB_TOOLS) and not message.startswith("Unknown tool")):
        return message
    if away := why_away(owns(name)):
        return f"{name} cannot be called: {away}"
    if profile := profile_that_renames(name):
        return f"only the profile {profile} has a tool {name}: `hubd call --profile {profile} {name}`"
    with suppress(ControlFailed):  # there is none
        row = ask_hub(EXPLAIN_POLICY, name=name, host=OWN_LABEL).row
        if row.effect == "deny":
            return f"a rule denies {name} ({row.rule}); `hubd policy explain {name}` says more"
    ends = [each for each in known if each.endswith(f"__{name}")]
    meant = f'did you mean "{ends[0]}"?' if len(ends) == 1 else nearest(name, known)
    if len(ends) > 1:
        meant = f"there are {', '.join(ends[:10])}"
    return f"there is no tool {name}; {meant or '`hubd tools` lists all'}"


def _object(text: str) -> Object:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--json: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError("--json: the arguments of a tool are a JSON object")
    return value


def _file(path: str) -> str:
    """The text of a file; `-` is standard input."""
    try:
        if path == "-":
            data = _standard_input()
        else:
            with open(os.path.expanduser(path), "rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise UsageError(f"{path}: larger than {MAX_FILE_BYTES >> 20} MiB")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not UTF-8, so it is no text that a tool can be given") from None


@cache
def _standard_input() -> bytes:
    """Standard input as far as it is taken: once, for a call may be tried again."""
    return sys.stdin.buffer.read(MAX_FILE_BYTES + 1)


# --- resources --------------------------------------------------------------------------------------------------------


def run_resources(options: Context, output: Output) -> None:
    with session_as(options, options.profile) as hub:
        found = hub.items("resources/list", "resources")
        templates = hub.items("resources/templates/list", "resourceTemplates")
    nothing = "no server has resources"
    if (name := options.name) is not None:
        chosen = _of_server_or_like(name, [*found, *templates])
        found, templates = ([each for each in items if each in chosen] for items in (found, templates))
        nothing = f"no server {name} has resources, and none has {name} in its URI"
    output.set(resources=found, resourceTemplates=templates)
    _list([*titles(found, "uri"), *titles(templates, "uriTemplate")], nothing, output)


def _of_server_or_like(name: str, items: list[Object]) -> list[Object]:
    """The resources and templates of the server of this name; if it has none, those with it in their URI or name."""
    own = [each for each in items if (each.get("_meta") or {}).get(HUB_SERVER) == name]
    return own or [
        each for each in items if any(name in str(each.get(at, "")) for at in ("uri", "uriTemplate", "name"))
    ]


def _list(rows: list[tuple[str, str]], nothing: str, output: Output) -> None:
    """Show a list for people."""
    if not rows:
        output.remark(nothing)
    output.show(Table((), rows, shorten=(1,)))


def run_read(options: Context, output: Output) -> None:
    with session_as(options, options.profile) as hub:
        result = once_connected(lambda: hub.request("resources/read", {"uri": options.uri}), anyone)
    if output.json:
        return output.set(**result)
    for part in result.get("contents") or ():
        if isinstance(part, dict):
            _write(part)


def _write(part: Object) -> None:
    """Write one content of a resource: as it is into a file or pipe, made safe on a terminal."""
    terminal = sys.stdout.isatty()
    if isinstance(text := part.get("text"), str):
        if terminal:
            print(text, end="" if text.endswith("\n") else "\n")
            return
        data = text.encode(errors="surrogatepass")
    else:
        try:
            data = base64.b64decode(str(part.get("blob", "")), validate=True)
        except (binascii.Error, ValueError):
            raise ControlFailed("the server sent content that is neither text nor base64") from None
        if terminal:
            kind = part.get("mimeType", "binary")
            said = f"{len(data)} bytes of {kind}: send them to a file, `hubd read {part.get('uri')} > FILE`"
            raise ControlFailed(said)
    sys.stdout.flush()
    sys.stdout.buffer.write(data)


# --- prompts ----------------------------------------------------------------------------------------------------------


def run_prompts(options: Context, output: Output) -> None:
    with session_as(options, options.profile) as hub:
        found = hub.items("prompts/list", "prompts")
    if options.name is not None:
        found = [each for each in found if str(each.get("name")).startswith(options.name)]
    output.set(prompts=found)
    nothing = "no server has prompts" if options.name is None else f"no prompt begins with {options.name}"
    _list(prompts(found), nothing, output)


def run_prompt(options: Context, output: Output) -> None:
    with session_as(options, options.profile) as hub:
        try:
            params = {"name": options.name, "arguments": _texts(options)}
            result = once_connected(lambda: hub.request("prompts/get", params), owns(options.name))
        except CallRefused as refused:
            known = [str(each.get("name")) for each in hub.items("prompts/list", "prompts")]
            if options.name in known:
                raise
            if away := why_away(owns(options.name)):
                raise ControlFailed(f"{options.name} cannot be filled in: {away}") from refused
            meant = nearest(options.name, known) or "`hubd prompts` lists all"
            raise ControlFailed(f"there is no prompt {options.name}; {meant}") from refused
    output.set(**result)
    output.say(prompt(result))


def run_complete(options: Context, output: Output) -> None:
    texts = _texts(options)
    if not texts:
        raise UsageError("say which argument to complete: KEY=BEGINNING", options.parser.format_usage())
    name = options.arguments[-1].partition("=")[0]
    is_uri = "{" in options.name or "://" in options.name
    kind, member = ("ref/resource", "uri") if is_uri else ("ref/prompt", "name")
    ref = {"type": kind, member: options.name}
    params: Object = {"ref": ref, "argument": {"name": name, "value": texts.pop(name)}}
    if texts:
        params["context"] = {"arguments": texts}
    with session_as(options, options.profile) as hub:
        result = hub.request("completion/complete", params)
    output.set(**result)
    if shown := completion(result):
        output.say(shown)


def _texts(options: Context) -> dict[str, str]:
    """KEY=VALUE words; arguments of prompts are texts."""
    try:
        return dict(split(options.arguments))
    except ValueError as error:
        raise UsageError(str(error)) from None
