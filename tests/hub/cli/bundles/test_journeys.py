"""`hubd add`, `update` and `remove` of bundles, as commands in a home of their own."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from tests.hub.cli.configuration.test_make_change import Home
from tests.hub.cli.registry.conftest import home, recorded  # noqa: F401
from tests.support.bundles import bundle, manifest, python_server
from tests.support.processes import HUBD, running_hub
from tests.support.registry_server import Answer
from tests.support.terminal import Terminal

OPTIONS = {
    "folder": {"type": "directory", "title": "Folder", "required": True},
    "key": {"type": "string", "title": "Key", "sensitive": True, "required": True},
    "most": {"type": "number", "title": "Most", "default": 5, "min": 1, "max": 9},
}
LAUNCH = {
    "command": "python",
    "args": ["${__dirname}/server/main.py", "${user_config.folder}", "--most=${user_config.most}"],
    "env": {"KEY": "${user_config.key}", "PUBLISHER": "${secret:GITHUB}"},
}
ASKING = manifest(user_config=OPTIONS, server={"type": "python", "entry_point": "server/main.py", "mcp_config": LAUNCH})


def folders(home):  # noqa: F811
    """The folders of bundles, by the names of servers."""
    above = Path(home.env["XDG_DATA_HOME"], "hubd", "bundles")
    return {each.name: sorted(one.name for one in each.iterdir()) for each in above.iterdir()} if above.is_dir() else {}


def write(tmp_path, data, name="notes.mcpb"):
    path = tmp_path / name
    path.write_bytes(data)
    return path, hashlib.sha256(data).hexdigest()


@pytest.mark.covers("EB-2", "EB-3", "EB-4")
def test_a_bundle_is_added_and_removed(home, tmp_path):  # noqa: F811
    path, sha256 = write(tmp_path, bundle(manifest()))
    said = home.run("add", path, "--yes", "--disabled")
    folder = f"{home.env['XDG_DATA_HOME']}/hubd/bundles/bundled-notes/{sha256[:16]}"
    for line in (
        f"sha256      {sha256}",
        "bundled-notes 1.0.0, a bundle",
        "Keeps notes",
        "This program gets your rights.",
    ):
        assert line in said
    assert f"runs        python3 {folder}/server/main.py" in re.sub(r"\n +", " ", said)
    entry = {"command": "python3", "args": [f"{folder}/server/main.py"], "cwd": folder, "disabled": True}
    assert home.upstreams() == {"bundled-notes": entry}
    assert Path(folder, "server", "main.py").read_text() == python_server()
    assert "there is a server" in home.run("add", path, "--yes", "--as", "bundled-notes", code=1)
    assert folders(home) == {"bundled-notes": [sha256[:16]]}
    home.run("add", "other", path, "--yes", "--disabled")
    home.run("remove", "bundled-notes")
    assert folders(home) == {"other": [sha256[:16]]}
    home.run("remove", "other")
    assert folders(home) == {}


@pytest.mark.covers("EB-5", "EB-4")
def test_what_it_asks_for(home, tmp_path):  # noqa: F811
    path, _ = write(tmp_path, bundle(ASKING))
    said = home.run("add", path, "--yes", code=2)
    assert "these have to be said: folder (Folder), key (Key); pass --input KEY=VALUE for each" in said
    for wrong, why in (
        ("folder=/nowhere/at/all", "there is no folder /nowhere/at/all"),
        ("most=10", "at most 9"),
        ("most=x", "a number"),
        ("more=1", 'it has no "more"'),
    ):
        assert why in home.run("add", path, "--yes", "--input", wrong, code=2)
    assert folders(home) == {}
    inputs = ("--input", f"folder={tmp_path}", "--input", "key=hunter2")
    home.run("add", path, "--yes", "--disabled", *inputs, "--dry-run")
    assert (folders(home), home.upstreams()) == ({}, {})
    home.run("add", path, "--yes", "--disabled", *inputs)
    [entry] = home.upstreams().values()
    assert entry["args"][1:] == [str(tmp_path), "--most=5"]
    assert entry["env"] == {"KEY": "${secret:BUNDLED_NOTES_KEY}", "PUBLISHER": "$${secret:GITHUB}"}
    assert "hunter2" not in home.file.read_text()

    said = home.run("update", "bundled-notes", "--ask", "--yes", "--input", "most=9")
    assert "argument: --most=5 becomes --most=9" in said
    [entry] = home.upstreams().values()
    assert (entry["args"][1:], entry["env"]["KEY"]) == ([str(tmp_path), "--most=9"], "${secret:BUNDLED_NOTES_KEY}")
    assert "nothing changes" in home.run("update", "bundled-notes", "--ask", "--yes")
    said = home.run("update", "bundled-notes", code=1)
    assert "came from a file: name the one with its new version, or --ask" in said.replace("\n", " ")


GREETING = {
    "greeting": {"type": "string", "title": "Greeting", "default": "hello"},
    "name": {"type": "string", "title": "Name", "required": True},
    "key": {"type": "string", "title": "Key", "sensitive": True},
}
GREET = {
    "command": "python",
    "args": ["${__dirname}/server/main.py"],
    "env": {
        "GREETING": "${user_config.greeting}, ${user_config.name}",
        "OPENING": "<${user_config.greeting}>",
        "KEY": "${user_config.key}",
        "FIXED": "as is",
    },
}


@pytest.mark.covers("EB-5", "ER-2")
def test_what_is_asked_is_shown_as_such_and_not_as_the_manifest_writes_it(home, tmp_path):  # noqa: F811
    server = {"type": "python", "entry_point": "server/main.py", "mcp_config": GREET}
    path, _ = write(tmp_path, bundle(manifest(user_config=GREETING, server=server)))

    def shown(*inputs, code=0):
        words = [word for each in inputs for word in ("--input", each)]
        said = home.run("add", path, "--yes", "--dry-run", *words, code=code)
        return said, [" ".join(line.split()) for line in said.partition("This program")[0].splitlines()]

    said, lines = shown(code=2)
    assert "user_config" not in said
    assert lines[-4:] == [
        "environment GREETING: name, asked for",
        "environment OPENING=<hello>",
        "environment KEY: key, if you say it",
        "environment FIXED=as is",
    ]
    said, lines = shown("name=Ann", "key=hunter2")
    assert "hunter2" not in said
    assert lines[-4:-1] == [
        "environment GREETING=hello, Ann",
        "environment OPENING=<hello>",
        "environment KEY: key, as given, kept as a secret",
    ]


@pytest.mark.covers("EB-2")
def test_a_bundle_that_is_there_is_not_added_under_another_name(home, tmp_path):  # noqa: F811
    path, _ = write(tmp_path, bundle(manifest()))
    home.run("add", path, "--yes", "--disabled")
    before = home.file.read_text()
    said = " ".join(home.run("add", path, "--yes").split())
    assert 'bundled-notes 1.0.0 is there already, as "bundled-notes", from this bundle: nothing to do' in said
    assert "`hubd update bundled-notes --ask` asks for its values again" in said
    newer, _ = write(tmp_path, bundle(manifest(version="1.1.0")), "newer.mcpb")
    said = " ".join(home.run("add", newer, "--yes", code=1).split())
    assert f"`hubd update bundled-notes {newer}` changes it to bundled-notes 1.1.0" in said
    assert f"`hubd add NAME {newer}` adds it once more" in said
    assert "is there already" in home.run("add", path, "--yes", "--set", "timeouts.call=9", code=1)
    assert home.file.read_text() == before
    home.run("add", "other", newer, "--yes", "--disabled")
    assert sorted(home.upstreams()) == ["bundled-notes", "other"]


@pytest.mark.covers("EB-2")
def test_an_update_says_from_which_version_to_which(home, tmp_path):  # noqa: F811
    one, _ = write(tmp_path, bundle(manifest()))
    two, _ = write(tmp_path, bundle(manifest(version="1.1.0")), "two.mcpb")
    built, _ = write(tmp_path, bundle(manifest(version="1.1.0", description="Built anew")), "built.mcpb")
    home.run("add", one, "--yes", "--disabled")
    said = home.run("update", "bundled-notes", two, "--yes")
    assert "bundled-notes: bundled-notes 1.0.0 becomes bundled-notes 1.1.0\n" in said
    assert "nothing changes" in (said := home.run("update", "bundled-notes", two, "--yes"))
    assert "bundled-notes: bundled-notes 1.1.0 as before\n" in said
    said = home.run("update", "bundled-notes", built, "--yes")
    assert "bundled-notes: bundled-notes 1.1.0 as before, from another file\n" in said
    found = home.told("update", "bundled-notes", one, "--yes")
    assert (found["version"], found["before"]) == ("1.0.0", "1.1.0")
    home.run("update", "bundled-notes", two, "--yes")
    said = " ".join(home.run("update", "bundled-notes", one, "--yes").split())
    assert "bundled-notes 1.1.0 becomes bundled-notes 1.0.0, which is older" in said


@pytest.mark.covers("EB-5")
def test_a_person_is_asked(home, tmp_path):  # noqa: F811
    path, _ = write(tmp_path, bundle(ASKING))
    with Terminal([HUBD, "add", path, "--disabled"], home.env) as terminal:
        terminal.wait_for(r"folder \(Folder\):")
        terminal.type("/nowhere/at/all\n")
        terminal.wait_for("there is no folder /nowhere/at/all")
        terminal.type(f"{tmp_path}\n")
        terminal.wait_for(r"key \(Key\):")
        terminal.type("hunter2\n")
        terminal.wait_for('Add it as "bundled-notes"?')
        assert folders(home) == {}  # nothing before that
        terminal.type("y\n")
        code, out = terminal.end()
    assert (code, "hunter2" in out) == (0, False), out
    [entry] = home.upstreams().values()
    assert entry["args"][1:] == [str(tmp_path), "--most=5"]
    with Terminal([HUBD, "update", "bundled-notes", "--ask"], home.env) as terminal:
        terminal.wait_for(r"folder \(Folder\):")
        terminal.type("/\n")
        terminal.wait_for(r"most \(Most; a number\) \[5\]:")
        terminal.type("7\n")
        terminal.wait_for(r"key \(Key\):")
        terminal.type("hunter3\n")
        terminal.wait_for("Update bundled-notes?")
        terminal.type("y\n")
        code, out = terminal.end()
    assert code == 0, out
    [entry] = home.upstreams().values()
    assert entry["args"][1:] == ["/", "--most=7"]


@pytest.mark.covers("EB-1", "EB-4")
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (bundle(manifest(), {"../../x": "", "server/main.py": ""}), "is no name that a file of a bundle may have"),
        (bundle(manifest(server={"type": "python", "entry_point": "../x"})), "its entry point is no file in it"),
        (bundle(manifest(compatibility={"platforms": ["win32"]})), "it is made for win32, and this is linux"),
        (bundle(manifest(compatibility={"runtimes": {"python": ">=99"}})), "it needs python >=99, and this is"),
        (b"PK", "it is no zip file"),
    ],
    ids=range(5),
)
def test_what_is_refused_leaves_nothing(home, tmp_path, data, why):  # noqa: F811
    path, _ = write(tmp_path, data)
    said = home.run("add", path, "--yes", code=1)
    assert why in said.replace("\n", " ")
    assert f"hubd: {path}: " in said, "many are added at once by scripts"
    assert (folders(home), home.upstreams()) == ({}, {})
    assert not (tmp_path / "x").exists()


@pytest.mark.covers("EB-4")
def test_a_program_that_is_missing(home, tmp_path):  # noqa: F811
    path, _ = write(tmp_path, bundle(manifest(server={"type": "node", "entry_point": "server/main.py"})))
    said = home.run("add", path, "--yes", code=1, PATH="/nowhere")
    assert "it needs node, which is not on the PATH: install Node.js" in said.replace("\n", " ")


def test_wrong_usage(home, tmp_path):  # noqa: F811
    path, _ = write(tmp_path, bundle(manifest()))
    assert "there is nobody to ask: pass --yes" in home.run("add", path, code=2)
    assert "cannot name a server" in home.run("add", path, "--yes", "--as", "../../x", code=1)
    assert "cannot be read: No such file or directory" in home.run("add", "nothing.mcpb", "--yes", code=1)
    assert "it is a bundle, which says itself what runs" not in home.run("add", path, "--yes", "--disabled")
    home.run("add", "a", "--disabled", "--", "true")
    assert "does not run from a bundle" in home.run("update", "a", "--ask", code=2)
    assert "does not run from a bundle" in home.run("update", "a", path, code=2)


def publish(recorded, data, version="1.0.0", sha256=None):  # noqa: F811
    """Publish a bundle in the registry, which has its file, too."""
    name = f"/files/notes-{version}.mcpb"
    recorded.faults[f"/away{name}"] = Answer(302, headers={"location": name})
    recorded.faults[name] = Answer(200, data)
    package = {
        "registryType": "mcpb",
        "identifier": f"{recorded.url.rstrip('/')}/away{name}",
        "fileSha256": sha256 or hashlib.sha256(data).hexdigest(),
        "transport": {"type": "stdio"},
    }
    recorded.add({"name": "io.example/notes", "version": version, "description": "x", "packages": [package]})


@pytest.mark.covers("EB-3", "EB-2")
def test_a_bundle_of_a_registry(home, recorded, tmp_path):  # noqa: F811
    publish(recorded, bundle(ASKING), sha256="0" * 64)
    said = home.run("add", "io.example/notes", "--yes", code=1).replace("\n", " ")
    assert "it is not the bundle that the registry means" in said
    assert (folders(home), home.upstreams()) == ({}, {})
    one, two = bundle(ASKING), bundle({**ASKING, "version": "2.0.0"}, {"server/main.py": python_server("2")})
    publish(recorded, one)
    inputs = ("--input", f"folder={tmp_path}", "--input", "key=hunter2")
    home.run("add", "io.example/notes", "--yes", "--disabled", *inputs)
    [(name, entry)] = home.upstreams().items()
    hashes = [hashlib.sha256(each).hexdigest()[:16] for each in (one, two)]
    assert (name, entry["source"]) == ("notes", "official:io.example/notes@1.0.0")
    assert folders(home) == {"notes": hashes[:1]}
    assert "has the newest version, 1.0.0" in home.run("update", "notes")
    assert json.loads(home.run("outdated", "--json"))["servers"][0]["newest"] == "1.0.0"

    publish(recorded, two, "2.0.0")
    said = home.run("update", "notes", "--yes")
    assert f"argument: {entry['args'][0]} becomes" in said.replace("\n  ", " ")
    [changed] = home.upstreams().values()
    assert changed["source"] == "official:io.example/notes@2.0.0"
    assert hashes[1] in changed["args"][0]
    assert hashes[1] in changed["cwd"]
    assert (changed["args"][1:], changed["env"]) == (entry["args"][1:], entry["env"])
    assert folders(home) == {"notes": sorted(hashes)}  # nothing has shown yet that the new one runs
    home.run("remove", "notes")
    assert folders(home) == {}


@pytest.mark.covers("EB-3")
@pytest.mark.parametrize("answer", [Answer(404), Answer(302, headers={"location": "/files/notes-1.0.0.mcpb"})])
def test_a_bundle_that_cannot_be_had(home, recorded, answer):  # noqa: F811
    publish(recorded, b"")
    recorded.faults["/files/notes-1.0.0.mcpb"] = answer
    said = home.run("add", "io.example/notes", "--yes", code=69)
    assert "the bundle that registry official names" in said.replace("\n", " ")


@pytest.mark.covers("EB-2")
def test_the_old_version_stays_until_the_new_one_is_connected(tmp_path):
    home = Home(tmp_path)  # noqa: F811
    with running_hub(tmp_path, "page_size = 100\n") as hub:
        home.env, home.file = hub.env, hub.config
        files = {name: {"server/main.py": python_server(name)} for name in "123"}
        files["2"]["server/main.py"] = "raise SystemExit('it hurts')"
        paths = {name: write(tmp_path, bundle(manifest(), each), f"{name}.mcpb") for name, each in files.items()}
        hashes = {name: sha256[:16] for name, (_, sha256) in paths.items()}

        def add(*arguments, code=0):
            home.run(*arguments, "--yes", "--config", hub.config, code=code)
            return folders(home)

        assert add("add", "notes", paths["1"][0]) == {"notes": [hashes["1"]]}
        call = ("call", "notes__tell", "--raw")
        told = json.loads(json.loads(home.run(*call))["content"][0]["text"])
        assert (told["version"], Path(told["cwd"]).name) == ("1", hashes["1"])
        assert add("update", "notes", paths["2"][0], code=1) == {"notes": sorted((hashes["1"], hashes["2"]))}
        assert add("update", "notes", paths["3"][0]) == {"notes": [hashes["3"]]}
        assert json.loads(json.loads(home.run(*call))["content"][0]["text"])["version"] == "3"
        home.run("remove", "notes", "--config", hub.config)
        assert folders(home) == {}


@pytest.mark.covers("EB-2")
def test_what_a_crash_left_is_deleted(home, tmp_path):  # noqa: F811
    path, sha256 = write(tmp_path, bundle(manifest()))
    above = Path(home.env["XDG_DATA_HOME"], "hubd", "bundles", "bundled-notes")
    for name in (".unpacking-abc", "0123456789abcdef"):
        (above / name).mkdir(parents=True, mode=0o700)
    for each in (above, above.parent, above.parent.parent):
        each.chmod(0o700)
    home.run("add", path, "--yes", "--disabled")
    assert folders(home) == {"bundled-notes": [sha256[:16]]}
