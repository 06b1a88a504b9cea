"""A session with the hub as a host of a profile, which is named by itself or by the label of a host."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from config.diagnostics import ConfigError
from config.hosts.known_hosts import all_hosts
from config.profile_settings import DEFAULT_PROFILE, Profile
from hub.cli.client.connection import CallRefused, HubSession, session
from hub.cli.client.retry_while_servers_start import config_of_hub
from hub.cli.context import Context, Output, ask_hub, nearest
from hub.cli.profiles.write_profile import status_now
from hub.control.client_errors import ControlFailed
from hub.control.methods import STATUS, TOOLS
from hub.wire.vocabulary import INVALID_PARAMS


@contextmanager
def session_as(options: Context, name: str | None) -> "Iterator[HubSession]":
    """A session as a host sees it. `name` is a profile, or the label of a host that has one; None: without a profile.
    Raises HubNotRunning, ControlFailed, NotUnderstood: as `session`; the text says what `name` is, if it is no
    profile."""
    with ExitStack() as stack:
        try:
            hub = stack.enter_context(session(options, name))
        except CallRefused as refused:
            if name is None:
                raise
            hub = stack.enter_context(session(options, _profile_of(options, name, refused)))
        yield hub


def say_refused_file(output: Output) -> None:
    """Note that the hub goes by an earlier configuration, if it does."""
    if output.json:  # what these commands print for programs is the answer alone
        return
    if ask_hub(STATUS).config.problem:
        output.note("the configuration has an error, so the previous one is in use: `hubd validate` says more")


def profile_that_renames(tool: str) -> str:
    """The first profile of the running hub that gives a tool the name `tool`; "": none does."""
    return next((name for name, profile in _profiles_of_hub().items() if tool in profile.rename.values()), "")


def why_not_shown(tool: str, profile: str) -> str:
    """The reason why hosts of a profile, which is named by itself or by a label, do not see a tool under this name; "":
    there is no such tool."""
    if not _is_known(tool):
        return ""
    found = _profiles_of_hub()
    rules = found.get(profile) or next((each for each in found.values() if profile in each.hosts), None)
    if rules is not None and (new := rules.rename.get(tool)):
        return f"the profile {profile} calls {tool} {new}: `hubd tools --profile {profile} {new}`"
    return f"the profile {profile} leaves {tool} out; `hubd tools --profile {profile}` lists what it shows"


def _is_known(tool: str) -> bool:
    return any(each.get("name") == tool for each in ask_hub(TOOLS))


def _profiles_of_hub() -> Mapping[str, Profile]:
    """The profiles in the files of the running hub; none, if these cannot be read."""
    return config_of_hub(ask_hub(STATUS)).profiles


def _profile_of(options: Context, name: str, refused: "CallRefused") -> str:
    """The profile of the hosts with the label `name`. Raises: ControlFailed."""
    say_refused_file(options.output)
    try:
        profiles = options.loaded.config.profiles
    except ConfigError:
        raise refused from None
    found = next((each for each, profile in profiles.items() if name in profile.hosts), None)
    if found is not None:
        options.output.remark(f"{name} is a label of the profile {found}")
        return found
    if name in all_hosts():
        searches = any(host.label == name and host.search for host in status_now().hosts)
        raise ControlFailed(_without(name, profiles, searches=searches))
    meant = nearest(name, [*profiles, *all_hosts()])
    raise ControlFailed(f"{refused}{f'; {meant}' if meant else ''}")


def _without(label: str, profiles: "Mapping[str, Profile]", *, searches: bool) -> str:
    """The view of hosts whose label no profile lists. `searches`: one of them is in search mode."""
    shown = "all there is: `hubd tools`"
    if DEFAULT_PROFILE in profiles:
        shown = "the profile default: `hubd tools --profile default`"
    how = "finds by searching (search mode)" if searches else "is shown"
    return f"{label} has no profile of its own, so it {how} {shown}; `hubd tools --pick {label}` makes one"


def why_refused(refused: "CallRefused", tool: str, hub: "HubSession", options: Context) -> str:
    """The answer to a host of the profile whose call is refused; for people also whether the profile is why."""
    if options.raw or refused.error.get("code") != INVALID_PARAMS:
        return str(refused)
    if any(each.get("name") == tool for each in hub.items("tools/list", "tools")) or not _is_known(tool):
        return str(refused)
    shows = f"`hubd tools --profile {options.profile}` shows what it has"
    return f"{refused} (the profile {options.profile} leaves it out, or gives it another name: {shows})"
