"""Files of hosts that describe a subagent: with an entry of the hub in such a file a subagent is shown a profile,
whatever the host itself is shown. Pure.

    Claude Code, Copilot CLI    Markdown with a head of YAML; the entry has a name that the host itself has not
    Codex                       TOML; the entry has the name of the host's own, in whose place it stands there
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from config.diagnostics import quote_toml
from config.hosts.hub_entries import KEY
from config.hosts.known_hosts import KnownHost

SUBJECT = "Say here when it is to be used."
TEXT = "Say here what it does."


def subagent_file(host: KnownHost, profile: str, entry: Mapping[str, Any]) -> str:
    """The content of a new file of a subagent with this entry of the hub. The host has such files."""
    form = host.subagent
    assert form is not None, "the host has files of subagents"
    if form.is_toml:
        table = f"{form.servers}.{KEY}"
        head = [("name", profile), ("description", SUBJECT), ("developer_instructions", TEXT)]
        return "\n".join([*_toml(head), "", f"[{table}]", *_toml(entry.items(), table), ""])
    key = f"{KEY}-{profile}"
    lines = [f"name: {json.dumps(profile)}", f"description: {json.dumps(SUBJECT)}"]
    lines += [f"# tools: {json.dumps([form.tools.replace('{key}', key)])}  # these, and nothing else of the host's"]
    lines.append(f"{form.servers}:")
    indent = "  "
    lines.append(f"{indent}{'- ' if form.listed else ''}{json.dumps(key)}:")
    indent += "    " if form.listed else "  "
    lines += [f"{indent}{json.dumps(name)}: {json.dumps(value)}" for name, value in entry.items()]
    return "\n".join(["---", *lines, "---", "", TEXT, ""])


def _toml(values: Any, above: str = "") -> Iterator[str]:
    tables = []
    for name, value in values:
        if isinstance(value, dict):
            tables += ["", f"[{above}.{name}]", *_toml(value.items())]
        else:
            yield f"{name} = {quote_toml(value) if isinstance(value, str) else json.dumps(value)}"
    yield from tables
