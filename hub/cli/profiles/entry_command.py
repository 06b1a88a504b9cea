"""`hubd profile entry NAME HOST`: the entry with which a host gives one profile to one of its subagents."""

from typing import Final

from config.hosts.hub_entries import stdio_entry, variables_to_carry
from config.hosts.known_hosts import all_hosts
from config.hosts.subagent_files import subagent_file
from config.profile_settings import DEFAULT_PROFILE, profile_problem
from hub.cli.context import CommandFailed, Context, Output, UsageError, nearest, own_command

MEMBERS: Final = """\
  profile, host  as given
  file           where the host looks for a subagent of that name
  text           its content"""


def print_entry(options: Context, output: Output) -> None:
    """Print the file of a subagent.
    Raises: UsageError: there is no such profile or host; CommandFailed: the host has no such files."""
    known, profiles = all_hosts(), options.loaded.config.profiles
    if problem := profile_problem(options.name, profiles):
        raise UsageError(f"{problem}; {nearest(options.name, [*profiles]) or '`hubd tools --pick NAME` makes one'}")
    if (host := known.get(options.host)) is None:
        raise UsageError(f"no host {options.host!r} is known; {nearest(options.host, known) or 'see `hubd install`'}")
    if host.subagent is None:
        able = ", ".join(each.id for each in known.values() if each.subagent is not None)
        text = f"{host.title} has no subagents with servers of their own, as far as hubd knows; these have: {able}"
        raise CommandFailed(f"{text}. `hosts` of a profile gives it to all of {host.id}")
    machine = options.machine
    variables = variables_to_carry(machine.environ, machine.home)
    entry = stdio_entry(host, own_command(), variables, profile=options.name)
    path = machine.path(host.subagent.file.replace("{name}", options.name))
    text = subagent_file(host, options.name, entry)
    output.set(profile=options.name, host=host.id, file=str(path), text=text)
    output.show(*text.splitlines())
    output.note(f"{host.title} looks for it in {path}, or in the project below {host.subagent.project}; {host.note}")
    if options.name == DEFAULT_PROFILE and DEFAULT_PROFILE not in profiles:
        output.note("the profile default is not configured, so it shows all there is")
