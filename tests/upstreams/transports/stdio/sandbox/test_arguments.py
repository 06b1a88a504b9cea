"""The command in front of a server's: what each preset shows and hides, in the order in which it counts."""

import pytest

from upstreams.transports.stdio.sandbox.arguments import (
    OPEN,
    Bind,
    Enclosure,
    SandboxPlaces,
    bubblewrap_arguments,
    is_shown,
    is_within,
    limit_arguments,
    outermost,
)

PLACES = SandboxPlaces(
    hidden=("/home/me/.local/state/hubd", "/run/user/1000/hubd"),
    closed=("/home/me/.config/hubd/hubd.env",),
    guarded=(Bind("/home/me/.config/hubd/hubd.toml", "/home/me/.config/hubd/hubd.toml"),),
    home="/home/me",
    own="/home/me/.local/state/hubd/homes/x",
    shown=(Bind("/data/src", "/home/me/src"),),
    writable=(Bind("/home/me/src/out", "/home/me/src/out"), Bind("/srv/in", "/srv/in")),
)
ABOVE = (
    *("/home", "/home/me", "/home/me/.config", "/home/me/.config/hubd", "/home/me/.local", "/home/me/.local/state"),
    *("/run", "/run/user", "/run/user/1000"),
)
"""The directories that hold these of the hub's."""


def steps(words):
    """The arguments as steps: an option with its values."""
    found = []
    for word in words:
        if word.startswith("--"):
            found.append([])
        found[-1].append(word)
    return [tuple(each) for each in found]


@pytest.mark.covers("BOX-12")
def test_a_shield_hides_what_is_the_hubs_and_leaves_the_rest():
    assert steps(bubblewrap_arguments("shield", PLACES)) == [
        ("--unshare-user",),
        ("--cap-drop", "ALL"),
        ("--die-with-parent",),
        ("--dev-bind", "/", "/"),
        *(("--dev-bind", path, path) for path in ABOVE),
        ("--tmpfs", "/home/me/.local/state/hubd"),
        ("--tmpfs", "/run/user/1000/hubd"),
        ("--ro-bind", "/home/me/.config/hubd/hubd.toml", "/home/me/.config/hubd/hubd.toml"),
        ("--ro-bind", "/dev/null", "/home/me/.config/hubd/hubd.env"),
        ("--remount-ro", "/home/me/.local/state/hubd"),
        ("--remount-ro", "/run/user/1000/hubd"),
    ]


@pytest.mark.covers("BOX-12")
@pytest.mark.parametrize(("preset", "option"), [("shield", "--bind"), ("own-home", "--ro-bind")])
def test_what_is_not_the_hubs_in_its_directory_is_as_outside(preset, option):
    config = "/home/me/.config/hubd"
    there = Bind("/home/me/.config", "/home/me/.config")
    places = SandboxPlaces(
        home="/home/me", own="/own", hidden=(config,), beside=(f"{config}/programs",), shown=(there,)
    )
    assert steps(bubblewrap_arguments(preset, places))[-3:] == [
        ("--tmpfs", config),
        (option, f"{config}/programs", f"{config}/programs"),
        ("--remount-ro", config),
    ]


@pytest.mark.covers("BOX-12")
def test_a_home_of_its_own_shows_what_is_named():
    found = steps(bubblewrap_arguments("own-home", PLACES))
    assert found[3:] == [
        ("--ro-bind", "/", "/"),
        ("--dev", "/dev"),
        ("--proc", "/proc"),
        ("--unshare-pid",),
        ("--unshare-ipc",),
        ("--unshare-uts",),
        ("--bind", "/home/me/.local/state/hubd/homes/x", "/home/me"),
        ("--ro-bind", "/data/src", "/home/me/src"),
        ("--bind", "/home/me/src/out", "/home/me/src/out"),
        ("--tmpfs", "/run"),
        ("--bind", "/srv/in", "/srv/in"),
        ("--tmpfs", "/tmp"),
        ("--unsetenv", "TMPDIR"),
        ("--chdir", "/home/me"),
    ]
    assert ("--new-session",) not in found


@pytest.mark.covers("BOX-12")
def test_offline_is_that_without_a_network():
    own, offline = (steps(bubblewrap_arguments(preset, PLACES)) for preset in ("own-home", "offline"))
    assert [step for step in offline if step not in own] == [("--unshare-net",)]


@pytest.mark.covers("BOX-12")
def test_what_is_the_hubs_stays_hidden_where_a_server_may_read_and_write_around_it():
    wide = SandboxPlaces(
        hidden=PLACES.hidden, closed=PLACES.closed, guarded=PLACES.guarded, home="/home/me", own="/o",
        writable=(Bind("/home/me", "/home/me"),),
    )  # fmt: skip
    found = steps(bubblewrap_arguments("own-home", wide))
    opened = found.index(("--bind", "/home/me", "/home/me"))
    assert found[opened + 1 :].count(("--bind", "/home/me", "/home/me")) == 0
    for wall in (
        *(("--bind", path, path) for path in ABOVE[2:6]),
        ("--tmpfs", "/home/me/.local/state/hubd"),
        ("--remount-ro", "/home/me/.local/state/hubd"),
        ("--ro-bind", "/dev/null", "/home/me/.config/hubd/hubd.env"),
        ("--ro-bind", *PLACES.guarded[0]),
    ):
        assert found.index(wall) > opened
    assert ("--tmpfs", "/run/user/1000/hubd") not in found  # /run is empty already


@pytest.mark.covers("BOX-12")
def test_what_lies_in_a_hidden_directory_is_shown_there_and_cannot_be_written():
    whole = SandboxPlaces(hidden=("/c",), closed=("/c/hubd.env",), guarded=(Bind("/c/hubd.toml", "/c/hubd.toml"),))
    assert steps(bubblewrap_arguments("shield", whole))[4:] == [
        ("--tmpfs", "/c"),
        ("--ro-bind", "/c/hubd.toml", "/c/hubd.toml"),
        ("--remount-ro", "/c"),
    ]


def test_the_whole_system_is_shown_already():
    all_of_it = SandboxPlaces(home="/home/me", own="/o", shown=(Bind("/", "/"),))
    assert steps(bubblewrap_arguments("own-home", all_of_it)).count(("--ro-bind", "/", "/")) == 1


@pytest.mark.covers("BOX-14")
def test_limits_stand_in_front_of_the_command():
    assert limit_arguments("/usr/bin/prlimit", 1 << 20, 9) == ["/usr/bin/prlimit", "--data=1048576", "--nproc=9"]
    assert limit_arguments("prlimit", 0, 9) == ["prlimit", "--nproc=9"]
    assert limit_arguments("prlimit", 0, 0) == []
    words = Enclosure("shield", "", ("bwrap", "x"), ("prlimit",)).words("ulimit -c 0")
    assert words[2].startswith("ulimit -c 0; exec")
    assert [word for word in words if word != "/bin/sh" and "exec" not in word] == ["-c", "bwrap", "x", "-c", "prlimit"]
    assert Enclosure(limits=("prlimit",)).words() == ["prlimit"]
    assert OPEN.words() == []


def test_paths_within():
    assert is_within("/a/b", ("/a",))
    assert is_within("/a", ("/a",))
    assert is_within("/a", ("/",))
    assert not is_within("/ab", ("/a",))
    assert not is_within("/a", ())
    assert [*outermost(("/b/c", "/b", "/a/x", "/bc"))] == ["/a/x", "/b", "/bc"]
    assert is_shown("/usr", PLACES)
    assert is_shown("/home/me/src/x", PLACES)
    assert not is_shown("/home/me/.ssh", PLACES)
    assert not is_shown("/tmp/x", PLACES)


def test_what_a_process_does_not_see():
    shield = Enclosure("shield", places=PLACES)
    assert shield.hides("/run/user/1000/hubd/x")
    assert not shield.hides("/home/me/.ssh")
    assert Enclosure("own-home", places=PLACES).hides("/home/me/.ssh")
    assert not OPEN.hides("/home/me/.ssh")


def test_where_others_find_the_home_of_a_process():
    text = "at /home/me/.npm/_npx/x"
    assert Enclosure("own-home", places=PLACES).outside(text) == f"at {PLACES.own}/.npm/_npx/x"
    assert OPEN.outside(text) == Enclosure("shield", places=SandboxPlaces(hidden=("/s",))).outside(text) == text
