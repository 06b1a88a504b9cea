"""The texts of the help: all commands with what each does, and the pages above them."""

from collections.abc import Mapping
from typing import Final

FAMILIES: Final[Mapping[str, Mapping[str, Mapping[str, str]]]] = {
    "the hub": {
        "hub.cli.serve": {"serve": "run the hub in the foreground"},
        "hub.cli.hub_commands": {
            "start up": "start the hub in the background, unless it runs, and wait until it listens",
            "connect": "bridge stdio to the hub (hosts run this); see `hubd connect --help`",
            "status ls list ps": "how servers, hosts and the configuration are doing, and what is wrong",
            "restart": "restart a server and detect its protocol again",
            "reload": "reload the configuration and show what changed",
            "stop down": "stop the hub and wait until it has ended",
            "version": "the version, and the protocol versions that are spoken",
            "cache": "the cache of resources: what is in it, how often it is used, why entries were dropped",
        },
        "hub.cli.live.logs_command": {
            "logs": "the log of the hub and of all its servers by time, or of one: its output, starts and exits"
        },
        "hub.cli.live.top_command": {"top": "servers and what runs, on the whole terminal, as it goes on"},
        "hub.cli.live.calls_command": {"calls": "what hosts have called, how it ended, and how long it took"},
        "hub.cli.token_commands": {
            "token": "print the token that hosts send over HTTP, or deal with those of single hosts"
        },
        "hub.cli.live.metrics_command": {"metrics": "print what the hub counts, for Prometheus, or rules for alerts"},
        "hub.cli.live.dashboard_command": {"dashboard": "open the dashboard of the hub in your browser"},
        "hub.cli.rules.audit_commands": {"audit": "the audit log: who called what, by which rule, and how it ended"},
        "hub.cli.service": {"service": "keep the hub running, by systemd"},
        "hub.cli.check_command": {"check": "say whether servers and tools are ready for a run that nobody watches"},
        "hub.cli.doctor": {"doctor": "find what is wrong between hosts, hub and servers, with the fixes"},
        "hub.cli.completion": {"completion": "print the script that lets a shell complete commands and names"},
        "hub.cli.parser": {"help": "this page, or a command's"},
    },
    "its servers": {
        "hub.cli.tools_command": {"tools": "the tools of all servers, or of one, as hosts see them"},
        "hub.cli.client.declare_commands": {
            "call": "call a tool and print its answer",
            "resources": "the resources of all servers, or of one",
            "read": "read a resource and print its content",
            "prompts": "the prompts of all servers, or of one",
            "prompt": "fill in a prompt and print its messages",
            "complete": "values that fit the beginning of an argument",
        },
        "hub.cli.sign_in.commands": {
            "auth login": "sign in at a server that wants it, or show where somebody is signed in",
            "logout": "sign out of a server, and forget the tokens",
        },
    },
    "its configuration": {
        "hub.cli.configuration.add_command": {
            "add": "add a server to the configuration",
            "search": "search registries of servers by name",
            "outdated": "list servers of registries of which there is something newer",
            "update": "bring a server of a registry or bundle to its newest version, after showing what changes",
        },
        "hub.cli.configuration.remove_and_switch": {
            "remove rm": "remove a server from the configuration",
            "enable": "turn a server of the configuration on",
            "disable": "turn a server off and keep its settings",
        },
        "hub.cli.configuration.edit_command": {
            "edit": "edit hubd.toml with $VISUAL or $EDITOR; saved when it is right"
        },
        "hub.cli.secret_commands": {"secret": "keep secrets of servers, which settings name as ${secret:NAME}"},
        "hub.cli.configuration.env_command": {
            "env": "the environment that servers get, and where each value comes from"
        },
        "hub.cli.configuration.file_commands": {
            "config": "what the configuration says, and which file says it",
            "validate": "check the configuration, or one file, and say all that is wrong",
            "schema": "the JSON Schema of hubd.toml, for editors",
            "trust": "allow what the files of a project start, as they are now",
            "untrust": "allow nothing of a project any more",
        },
    },
    "rules": {
        "hub.cli.rules.approvals": {
            "approvals": "the calls that wait for your yes, and what you have agreed to",
            "deny": "say no to a call that waits",
            "approve": "say yes to a call that waits, or to what a server has changed",
        },
        "hub.cli.rules.pins": {"pins": "what servers have changed of their definitions since you approved them"},
    },
    "hosts": {
        "hub.cli.setup.command": {
            "setup": "put the hub between your hosts and their servers: find, try, ask once, done"
        },
        "hub.cli.hosts.install": {
            "install": "put the hub into the configuration of hosts; without a name, list them",
            "uninstall": "take the hub out of the configuration of hosts",
        },
        "hub.cli.hosts.import_command": {"import": "take over the MCP servers that hosts have"},
        "hub.cli.rules.policy": {"policy": "what the rules say: who may use what, and why"},
        "hub.cli.profiles.list_suggest_remove": {
            "profiles": "what each profile of hosts shows",
            "profile": "choose what hosts are shown of all servers",
        },
    },
}
"""The commands with what each does, by the module whose `add_commands` describes their arguments, by titles in the
help. Other names of a command stand behind its own. A module is loaded once one of its commands is asked for."""

DESCRIPTION: Final = """One MCP server for every AI host on this machine, and the client of all their
MCP servers.

A host is a program that uses MCP servers, such as Claude or Cursor; the
configuration calls the servers behind the hub its upstreams. To begin:
`hubd setup` finds what hosts have, tries it, and puts the hub between;
`hubd doctor` finds what is wrong."""
FIRST_PAGE: Final = {
    "to begin": {
        "setup": "find the servers of your hosts, put the hub between",
        "add": "add a server: hubd add NAME -- COMMAND, or hubd add URL",
        "search": "find servers in registries; hubd add NAME adds one",
        "doctor": "find what is wrong, with the fixes",
    },
    "to look": {
        "status": "servers and hosts, what is wrong first (--watch)",
        "tools": "the tools that hosts see",
        "top": "the same on the whole terminal, with what runs",
        "logs": "what the hub and its servers said (-f)",
        "calls": "what hosts have called, and how it ended (-f)",
    },
    "to do": {
        "call": "call a tool: hubd call TOOL KEY=VALUE ...",
        "auth": "sign in at a server that wants it; logout",
        "enable": "turn a server on; disable, remove, restart",
        "edit": "edit the configuration",
        "start": "start the hub in the background; stop, serve",
    },
}
"""The page that plain `hubd` prints: at most 25 lines."""
EPILOG: Final = """`hubd help COMMAND` says more about each. ls, list and ps are status; up is
start; down is stop.

--json, which all take but `serve`, `connect`, `top` and `call` (there it is
--raw), prints one JSON value on standard output: what was found, what was done,
or with --dry-run what would be done. If it fails that is an object with the
member "error": {"code": EXIT_CODE, "message": "what happened, and what to do"},
beside what was done until then; the message is on standard error as well.
Nothing is asked. `hubd logs` and `hubd calls` print one object per line, and so
does `hubd auth`: what is to be opened, at once, and the outcome.

Colours are shown on a terminal, unless NO_COLOR is set or TERM is dumb.

exit codes:
  0    done
  1    it failed or was refused, the tool reported an error, the doctor found
       something, or the service does not run
  2    wrong usage
  69   no hub is running, it hangs, its address is taken, or what is needed
       (a registry) cannot be reached
  70   a fault of the hub's own, or it answers what this version does not
       understand
  75   another hub of this user is running; of `connect`: the hub goes away
       again and again; of `add`, `enable`, `edit` and `restart`: the server is
       still starting
  78   the configuration cannot be used
  130  interrupted

files:
  $XDG_CONFIG_HOME/hubd (~/.config/hubd)
    hubd.toml              the configuration, where --config names no other
    upstreams.d/           further servers, as .toml or in any host's form
    imported/              servers that `hubd import` took over
    hubd.env               variables for the hub and its servers; they win over
                           the environment
  .hubd.toml, .mcp.json    servers of a project, once allowed by `hubd trust`
  $XDG_STATE_HOME/hubd (~/.local/state/hubd)
    token, keys            of the HTTP listener; that seal what hosts carry
    metrics-token          of `hubd token --metrics`
    tokens.json            the tokens of single hosts, as hashes
    memory.json, sessions.json, catalogue/
                           hints that spare work after a restart
    usage.json             how often tools are called: names and counts
    dashboard              what pages of the dashboard are signed in by
    audit/                 who called what, and how it ended; no arguments
    trust.json             the projects that are allowed
    grants.json            what you have approved for longer than a call
    pins/                  what was approved of servers: their definitions
    secrets.json           what `hubd secret` keeps, or that the keyring has it
    oauth/                 sign-ins at servers, sealed
    installed.json         what `hubd install` put into files of hosts
    originals.json         what `hubd import --disable-originals` took out of them
    backups/               files as they were before hubd edited them
    hubd.log               of a hub that `hubd connect` started
  $HUBD_RUNTIME_DIR, or $XDG_RUNTIME_DIR/hubd
    hubd.sock, control.sock, hubd.lock
"""

ELSEWHERE: Final = {"usage": "`hubd tools --cost` shows how much of the tools is used"}
"""Commands that people look for, and what does that."""
