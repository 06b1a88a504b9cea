"""Manifests of bundles: what runs, by what, with which values, and what is refused."""

import json

import pytest

from config.registry.bundle_manifest import read_manifest, refuse_runtime, way_of_bundle
from config.registry.entry_of_answers import entry
from config.registry.places_to_fill import NotRunnable, all_asked
from config.registry.server_json import Unreadable
from tests.support.bundles import manifest
from tests.support.registry_entries import answers_of

FOLDER, HOME = "/data/hubd/bundles/notes/0123456789abcdef", "/home/me"
FILES = ("manifest.json", "server/main.py", "server/index.js", "bin/tool", "src/server.py")


def way(**changes):
    return way_of_bundle(read_manifest(json.dumps(manifest(**changes)).encode()), FOLDER, HOME, FILES)


def made(said=None, **changes):
    """The settings that come of a manifest and answers."""
    found = way(**changes)
    return entry(found, answers_of(found, said or {}), None)


def server(kind="python", entry_point="server/main.py", **launch):
    return {"type": kind, "entry_point": entry_point, "mcp_config": launch}


OPTIONS = {
    "dirs": {"type": "directory", "title": "Folders", "multiple": True, "default": ["${HOME}/a", "${HOME}/b"]},
    "key": {"type": "string", "title": "Key", "description": "of the API", "sensitive": True, "required": True},
    "most": {"type": "number", "title": "Most", "default": 10, "min": 1, "max": 100},
    "deep": {"type": "boolean", "title": "Deep", "default": False},
    "log": {"type": "file", "title": "Log"},
}

GOLDEN = [
    (server(command="python", args=["${__dirname}/server/main.py"]), "python3", [f"{FOLDER}/server/main.py"]),
    (server(command="python3", args=["-m", "x"]), "python3", ["-m", "x"]),
    (server(), "python3", [f"{FOLDER}/server/main.py"]),
    (server(command="uv", args=["run", "--directory", "${__dirname}", "x"]), "uv", ["run", "--directory", FOLDER, "x"]),
    (server(command="uvx", args=["x@1"]), "uvx", ["x@1"]),
    (server("node", "server/index.js", command="node", args=["${__dirname}${/}server/index.js"]), "node",
     [f"{FOLDER}/server/index.js"]),
    (server("node", "./server/index.js"), "node", [f"{FOLDER}/server/index.js"]),
    (server("uv", "src/server.py"), "uv", ["run", "--directory", FOLDER, f"{FOLDER}/src/server.py"]),
    (server("binary", "bin/tool", command="${__dirname}/bin/tool", args=["-v"]), f"{FOLDER}/bin/tool", ["-v"]),
    (server("binary", "bin/tool", command="bin/tool"), f"{FOLDER}/bin/tool", None),
    (server("binary", "bin/tool"), f"{FOLDER}/bin/tool", None),
    (server(command="python", args=["a"], platform_overrides={"win32": {"args": ["w"]}, "linux": {"args": ["l"]}}),
     "python3", ["l"]),
    (server(command="x.exe", platform_overrides={"linux": {"command": "python3"}}), "python3",
     [f"{FOLDER}/server/main.py"]),
    (server(args=["${DOCUMENTS}/x", "${HOME}", "a${pathSeparator}b"]), "python3",
     ["/home/me/Documents/x", "/home/me", "a/b"]),
    (server(args=["${PATH}", "${secret:KEY}", "{user_config.x}", "${user_config.nothing}", "${cmd:rm -r}"]), "python3",
     ["$${PATH}", "$${secret:KEY}", "{user_config.x}", "$${user_config.nothing}", "$${cmd:rm -r}"]),
]  # fmt: skip


@pytest.mark.covers("EB-4")
@pytest.mark.parametrize(("server", "program", "words"), GOLDEN, ids=range(len(GOLDEN)))
def test_what_runs(server, program, words):
    found = made(server=server)
    assert (found["command"], found.get("args", None) or None) == (program, words)


@pytest.mark.covers("EB-4")
@pytest.mark.parametrize("version", ["0.1", "0.2", "0.3", "0.4"])
@pytest.mark.parametrize("key", ["manifest_version", "dxt_version"])
def test_each_version_of_the_format(version, key):
    assert made(**{"manifest_version": None, key: version})["command"] == "python3"


@pytest.mark.covers("EB-4", "EB-5")
def test_values_are_filled_in():
    launch = {
        "args": [
            "${__dirname}/server/main.py",
            "${user_config.dirs}",
            "--most=${user_config.most}",
            "${user_config.log}",
        ],
        "env": {
            "KEY": "${user_config.key}",
            "DEEP": "${user_config.deep}",
            "PYTHONPATH": "${__dirname}/a:${__dirname}/b",
        },
    }
    changes = {"user_config": OPTIONS, "server": server(**launch)}
    assert made({"key": "${secret:X}"}, **changes) == {
        "command": "python3",
        "args": [f"{FOLDER}/server/main.py", "/home/me/a", "/home/me/b", "--most=10"],
        "env": {"KEY": "${secret:X}", "DEEP": "false", "PYTHONPATH": f"{FOLDER}/a:{FOLDER}/b"},
    }
    found = made({"key": "k", "dirs": ["~/x", "/y", "/z"], "most": "7", "log": "/l", "deep": "yes"}, **changes)
    assert found["args"] == [f"{FOLDER}/server/main.py", "/home/me/x", "/y", "/z", "--most=7", "/l"]
    assert found["env"]["DEEP"] == "true"


@pytest.mark.covers("EB-5")
def test_each_value_is_asked_once():
    texts = {"args": ["${user_config.key}", "${user_config.key}"], "env": {"A": "x${user_config.key}"}}
    asked = [each for _, each in all_asked(way(user_config=OPTIONS, server=server(**texts)).slots)]
    assert [(each.key, each.required, each.secret) for each in asked] == [("key", True, True)]
    assert asked[0].input.description == "Key: of the API"


@pytest.mark.covers("EB-5")
@pytest.mark.parametrize(
    ("text", "why"), [("0", "at least 1"), ("101", "at most 100"), ("x", "a number"), ("1", None), ("100.0", None)]
)
def test_numbers_have_bounds(text, why):
    changes = {"user_config": OPTIONS, "server": server(args=["${user_config.most}"])}
    if why is None:
        assert made({"most": text}, **changes)["args"] == [text]
    else:
        with pytest.raises(ValueError, match=why):
            made({"most": text}, **changes)


@pytest.mark.covers("EB-1", "EB-4")
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"server": server("wasm")}, "of a type that is not known"),
        ({"server": server(entry_point="../main.py")}, "its entry point is no file in it"),
        ({"server": server(entry_point="/etc/passwd")}, "its entry point is no file in it"),
        ({"server": server(entry_point="server/other.py")}, "its entry point is no file in it"),
        ({"server": server(entry_point="")}, "its entry point is no file in it"),
        ({"server": server(command="sh", args=["-c", "x"])}, "it runs sh in place of python; add it by hand"),
        ({"server": server(command="/bin/python3")}, "it runs /bin/python3 in place of python"),
        ({"server": server("node", "server/index.js", command="npx")}, "it runs npx in place of node"),
        ({"server": server("binary", "bin/tool", command="/bin/sh")}, "its program is no file in it"),
        ({"server": server("binary", "bin/tool", command="${__dirname}/../sh")}, "its program is no file in it"),
        ({"server": server("uv", "src/server.py", command="bash")}, "it runs bash in place of uv"),
        ({"server": server(env={"LD_PRELOAD": "/tmp/x.so"})}, "it sets LD_PRELOAD, which decides which code runs"),
        ({"server": server(env={"PYTHONPATH": "${__dirname}/a:/tmp"})}, "it sets PYTHONPATH"),
        ({"server": server(env={"PYTHONPATH": "${__dirname}x"})}, "it sets PYTHONPATH"),
        ({"server": server(env={"A=B": "1"})}, "a name that no variable can have"),
        ({"server": server(args=["a\u202eb"])}, "cannot be printed"),
        ({"compatibility": {"platforms": ["darwin", "win32"]}}, "it is made for darwin, win32, and this is linux"),
    ],
)
def test_what_is_not_run_says_why(changes, why):
    with pytest.raises(NotRunnable, match=why):
        way(**changes)


@pytest.mark.parametrize("count", [65, 2])
def test_a_manifest_is_bounded(count):
    options = {f"k{number}": {"type": "string"} for number in range(count)}
    text = json.dumps(manifest(user_config=options)).encode()
    if count > 64:
        with pytest.raises(Unreadable):
            read_manifest(text)
    else:
        assert len(read_manifest(text).user_config) == count


@pytest.mark.covers("EB-4")
@pytest.mark.parametrize(
    ("wanted", "version", "is_met"),
    [
        (">=3.8.0 <4", "Python 3.11.7", True),
        (">=3.12", "Python 3.11.7", False),
        ("<3.11", "Python 3.11.7", False),
        (">=3.8,<3.11", "Python 3.11.7", False),
        ("3.11", "Python 3.11.7", True),
        ("3.x", "Python 3.11.7", True),
        ("=3.10", "Python 3.11.7", False),
        ("^3.9", "Python 3.11.7", True),
        ("^2.7", "Python 3.11.7", False),
        ("~3.11.2", "Python 3.11.7", True),
        ("~3.10", "Python 3.11.7", False),
        ("<=3.11", "Python 3.11.7", True),
        (">3.11", "Python 3.11.7", False),
        ("2 || >=3.10", "Python 3.11.7", True),
        ("*", "Python 3.11.7", True),
        ("", "Python 3.11.7", True),
        (">=99", "no version", True),
    ],
)
def test_versions_of_runtimes(wanted, version, is_met):
    found = read_manifest(json.dumps(manifest(compatibility={"runtimes": {"python": wanted}})).encode())
    refuse_runtime(found, "uv", lambda: "uv 0.1")
    refuse_runtime(found, "node", lambda: "v20.1.1")
    if is_met:
        refuse_runtime(found, "python3", lambda: version)
    else:
        with pytest.raises(NotRunnable, match=r"it needs python .*, and this is Python 3\.11\.7"):
            refuse_runtime(found, "python3", lambda: version)
