"""Settings of profiles, which `config.settings` puts together with all others: what some hosts are shown of all
servers, under which names, and with which arguments fixed; and of pipelines, tools made of several calls."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Final, Literal

from msgspec import Struct

from config.name_globs import ALL
from config.setting_declarations import Secret, live

MAX_NAME_BUDGET: Final = 64
"""Tool names of more characters are refused by several hosts."""
MIN_NAME_BUDGET: Final = 32
DEFAULT_PROFILE: Final = "default"
"""The profile of hosts that nothing else gives one. It is always there: everything, unless it is configured."""


class ToolOverride(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One tool as the hosts of a profile see it, by its visible name before renaming."""

    description: Annotated[str, live(mask="never", hints="describe descriptions")] = ""
    """The description, in place of the server's."""
    fix: Annotated[dict[str, Any], live(expanded=True, hints="fixed")] = {}
    """Arguments with values that hosts neither see nor send: the hub puts them in. Texts may hold ${VAR},
    ${file:path}, ${secret:NAME} and ${credential:NAME}, no ${cmd:ARGV}; while one has no value the tool is left out."""

    def __repr__(self) -> str:
        return f"<ToolOverride that fixes {', '.join(self.fix) or 'nothing'}>"  # values may be secrets


class ResolvedOverride(ToolOverride, frozen=True, kw_only=True):
    """An override among whose fixed values are some that files do not say themselves."""

    read: Annotated[tuple[Secret, ...], live()] = ()
    """The values that references gave, wherever in `fix` they stand now: masked in all that servers say."""
    unread: Annotated[dict[str, str], live(mask="never")] = {}
    """Arguments whose references have no value now, each with the reason and what to do. The tool is not shown, since
    without them it would be called with what a host sends."""


class Profile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The part of all servers that some hosts are shown: a choice, and other names and texts."""

    hosts: Annotated[tuple[str, ...], live(mask="never", hints="host labels")] = ()
    """Labels of `hubd connect --host` whose hosts are shown this profile; of a token, its `host`."""
    servers: Annotated[tuple[str, ...], live(mask="never", hints="upstreams server")] = ()
    """Servers whose tools, prompts, resources and instructions are shown; `[]`: those of all."""
    tools: Annotated[tuple[str, ...], live(mask="never", hints="allowed_tools")] = ALL
    """Globs over visible names of tools, as they are before renaming, such as "github__*"; what begins with `!` is
    taken away, and if all do, the rest is left. Tools that are left out do not exist for these hosts."""
    always: Annotated[tuple[str, ...], live(mask="never")] = ()
    """Globs over the same names: tools that are shown in search mode, and loaded at once by hosts that load tools when
    they are needed."""
    search: Annotated[Literal["auto", "on", "off"], live()] = "auto"
    """Search mode: hosts are shown tools to find and call tools, in place of all. `auto`: where there are too many."""
    name_budget: Annotated[int | None, live(min=MIN_NAME_BUDGET, max=MAX_NAME_BUDGET, unit="characters")] = None
    """Characters of a visible name, if not as many as for all."""
    max_tools: Annotated[int | None, live(min=1, unit="tools")] = None
    """Number of tools above which `hubd status` warns; nothing is cut."""
    instructions: Annotated[str, live(mask="never")] = ""
    """Text for the model, in front of what the servers say."""
    large_results_bytes: Annotated[int | None, live(min=0, unit="bytes", zero="all passes whole")] = None
    """Bytes of the text of a result above which it is cut, in place of what servers say. 0: all passes whole."""
    resource_tools: Annotated[bool, live()] = False
    """Two tools list and read resources, for hosts that show their model none."""
    rename: Annotated[dict[str, str], live(mask="never")] = {}
    """New names of tools by their visible names; both can be called, the new one is listed."""
    accounts: Annotated[dict[str, str], live(mask="never")] = {}
    """The account that serves these hosts, by server: `{ github = "work" }`."""
    override: Annotated[dict[str, ToolOverride], live()] = {}
    """Tools that are described otherwise, or have arguments with fixed values, by visible name before renaming."""


Profiles = Mapping[str, Profile]
"""By name."""


def profile_problem(name: str, known: Collection[str]) -> str:
    """The reason why `name` is no profile that can be chosen, as a sentence; "": it is one."""
    if name == DEFAULT_PROFILE or name in known:
        return ""
    return f"there is no profile {name[:60]!r}; there are: {', '.join(sorted(known)) or 'none'}"


# --- pipelines --------------------------------------------------------------------------------------------------------


class PipelineStep(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One call of a pipeline."""

    id: Annotated[str, live(mask="never", pattern=r"[a-z][a-z0-9_]{0,31}$", hints="name")] = ""
    """A short name, by which later steps refer to its result, and errors and progress to it."""
    tool: Annotated[str, live(mask="never", hints="call uses")] = ""
    """The visible name of the tool of a server, such as "github__get_issue"."""
    args: Annotated[dict[str, Any], live(mask="never", hints="arguments with input params")] = {}
    """Its arguments. Texts may hold `${input.number}` (an argument of the pipeline), `${issue.text}` (the text of the
    result of the step "issue") and `${issue.data.title}` (a part of its structured content); `$${` is a plain `${`."""


class Pipeline(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A tool of the hub's own, which calls tools of servers one after the other."""

    description: Annotated[str, live(mask="never", hints="describe")] = ""
    """Text for the model: what it is for."""
    input: Annotated[dict[str, Any], live(mask="never", hints="inputSchema input_schema schema arguments")] = {}
    """The JSON Schema of its arguments, an object; by default it takes none."""
    steps: Annotated[tuple[PipelineStep, ...], live(hints="step")] = ()
    """The calls, in order."""
