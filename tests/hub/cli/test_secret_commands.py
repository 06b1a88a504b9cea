"""`hubd secret` as a command, in a home of its own without a keyring."""

import json
import os
import pty
from pathlib import Path

import pytest

from tests.support.commands import run_hubd
from tests.support.processes import HUBD, own_directories

CANARY = "s3cret-canary-0123456789"
NO_KEYRING = {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}


class Home:
    """A user's directories, and commands that run there."""

    def __init__(self, directory: Path) -> None:
        self.env = own_directories(directory) | NO_KEYRING
        self.file = Path(self.env["XDG_CONFIG_HOME"], "hubd", "hubd.toml")
        self.secrets = Path(self.env["XDG_STATE_HOME"], "hubd", "secrets.json")

    def write(self, text: str) -> None:
        self.file.parent.mkdir(mode=0o700, exist_ok=True)
        self.file.write_text(text)

    def run(self, *arguments: str, stdin: str = "", code: int = 0) -> tuple[str, str]:
        done = run_hubd(["secret", *arguments], self.env, input=stdin)
        assert done.returncode == code, done.stdout + done.stderr
        assert CANARY not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout, done.stderr


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path)


USES = """
[upstreams.github]
command = "true"
env = { TOKEN = "${secret:GITHUB_TOKEN}", PLAIN = "$${secret:OTHER}" }
[upstreams.off]
url = "https://example.com/mcp"
headers = { Authorization = "Bearer ${secret:GITHUB_TOKEN}" }
disabled = true
[upstreams.waits]
command = "true"
args = ["${secret:MISSING}"]
"""


def test_a_name_that_no_secret_can_have_is_refused_before_anything_is_asked(home):
    assert "no secret can have this name" in home.run("set", "a b", code=1)[1]


def test_a_secret_from_standard_input_is_kept_in_a_file_and_it_is_said(home):
    out, _ = home.run("set", "GITHUB_TOKEN", stdin=f"{CANARY}\nsecond line\n")
    assert f"GITHUB_TOKEN is kept in {home.secrets}, which only you can read: no keyring answers here" in out
    assert json.loads(home.secrets.read_text())["secrets"]["GITHUB_TOKEN"]["value"] == CANARY


def test_ls_names_the_place_and_the_servers_and_no_value(home):
    home.write(USES)
    home.run("set", "GITHUB_TOKEN", stdin=CANARY)
    home.run("set", "unused", stdin=CANARY)
    out, _ = home.run("ls")
    assert [line.split() for line in out.splitlines()] == [
        ["NAME", "KEPT", "IN", "USED", "BY"],
        ["GITHUB_TOKEN", "a", "file", "github,", "off"],
        ["MISSING", "not", "set", "waits"],
        ["unused", "a", "file", "-"],
    ]
    out, _ = home.run("ls", "--json")
    assert json.loads(out) == {
        "secrets": [
            {"name": "GITHUB_TOKEN", "principal": None, "kept": "file", "servers": ["github", "off"]},
            {"name": "MISSING", "principal": None, "kept": None, "servers": ["waits"]},
            {"name": "unused", "principal": None, "kept": "file", "servers": []},
        ]
    }


def test_one_in_use_is_removed_only_by_force(home):
    home.write(USES)
    home.run("set", "GITHUB_TOKEN", stdin=CANARY)
    _, err = home.run("rm", "GITHUB_TOKEN", code=1)
    assert "GITHUB_TOKEN is used by github, off; change these first, or pass --force" in err
    home.run("rm", "GITHUB_TOKEN", "--force")
    assert CANARY not in home.secrets.read_text()
    _, err = home.run("rm", "GITHUB_TOKEN", code=1)
    assert "there is no secret GITHUB_TOKEN" in err


EACH = """
[upstreams.mail]
command = "true"
env = { TOKEN = "${secret:MAIL_KEY}" }
account = "each"
[upstreams.github]
command = "true"
env = { TOKEN = "${secret:GITHUB_TOKEN}" }
[[access.tokens]]
name = "laptop"
principal = "eve"
token = "0123456789abcdef0123456789abcdef"
"""


def test_a_secret_of_nobody_or_that_no_server_takes_is_refused_before_it_is_asked_for(home):
    home.write(EACH)
    _, err = home.run("set", "MAIL_KEI", "--for", "eve", code=1)
    assert 'no server takes a secret MAIL_KEI of people; did you mean "MAIL_KEY"?' in err
    _, err = home.run("set", "GITHUB_TOKEN", "--for", "eve", code=1)
    assert "no server takes a secret GITHUB_TOKEN of people; there are: MAIL_KEY" in err
    _, err = home.run("set", "MAIL_KEY", "--for", "evee", code=1)
    assert 'nobody called evee has a token of this hub; did you mean "eve"?' in err
    assert "`hubd token new NAME --principal evee` lets them in" in err
    home.write(EACH.replace('account = "each"', ""))
    _, err = home.run("set", "MAIL_KEY", "--for", "eve", code=1)
    assert 'a server takes keys of people with `account = "each"`' in err
    assert not home.secrets.with_name("people").exists()


def test_ls_shows_which_people_have_which_and_rm_of_theirs_needs_no_force(home):
    home.write(EACH)
    run_hubd(["token", "new", "phone", "--principal", "bob"], home.env, check=True)
    home.run("set", "MAIL_KEY", stdin=CANARY)
    out, _ = home.run("set", "MAIL_KEY", "--for", "eve", stdin=CANARY)
    assert "eve uses it at mail, from the next session on" in out
    rows = [line.split() for line in home.run("ls")[0].splitlines()]
    assert rows == [
        ["NAME", "PERSON", "KEPT", "IN", "USED", "BY"],
        ["GITHUB_TOKEN", "you", "not", "set", "github"],
        ["MAIL_KEY", "you", "a", "file", "mail"],
        ["MAIL_KEY", "bob", "not", "set", "mail"],
        ["MAIL_KEY", "eve", "a", "file", "mail"],
    ]
    rows = json.loads(home.run("ls", "--for", "eve", "--json")[0])["secrets"]
    assert rows == [{"name": "MAIL_KEY", "principal": "eve", "kept": "file", "servers": ["mail"]}]
    out, _ = home.run("rm", "MAIL_KEY", "--for", "eve")
    assert "removed MAIL_KEY of eve" in out
    assert "a session of eve that is open goes on with it: `hubd restart mail` ends it" in out
    _, err = home.run("rm", "MAIL_KEY", "--for", "eve", code=1)
    assert "there is no secret MAIL_KEY of eve" in err


def test_keys_of_people_whom_others_let_in_are_kept_without_a_token_of_the_hub(home):
    proxy = 'auth = "proxy"\n[access.proxy]\nheader = "X-User"\nsecret = "0123456789abcdef0123456789abcdef"\n'
    home.write(proxy + EACH)
    home.run("set", "MAIL_KEY", "--for", "proxy:ann", stdin=CANARY)
    assert ["MAIL_KEY", "proxy:ann", "a", "file", "mail"] in [line.split() for line in home.run("ls")[0].splitlines()]


def test_several_are_removed_together_or_none(home):
    for name in ("A", "B"):
        home.run("set", name, stdin=CANARY)
    _, err = home.run("rm", "A", "C", code=1)
    assert "there is no secret C; `hubd secret ls` lists what there is; nothing was removed" in err
    assert "A" in home.run("ls")[0]
    out, _ = home.run("rm", "A", "B", "--json")
    none = [{"name": name, "servers": []} for name in ("A", "B")]
    assert json.loads(out) == {"name": None, "did": "removed", "servers": [], "removed": none}
    assert "there are no secrets" in home.run("ls")[0]


def test_one_that_an_allowed_project_uses_is_in_use(home, tmp_path):
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / ".hubd.toml").write_text('[upstreams.db]\ncommand = "true"\nargs = ["${secret:DB}"]\n')
    home.run("set", "DB", stdin=CANARY)
    assert "db" not in home.run("ls")[0]
    run_hubd(["trust", shop, "--yes"], home.env, check=True)
    _, err = home.run("rm", "DB", code=1)
    assert f"DB is used by db of {shop}; change these first" in err


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "said"),
    [
        (["set", "A"], "", 2, "standard input has no line"),
        (["set", "A"], "\n", 2, "standard input has no line"),
        (["set", "a/b"], "x\n", 1, "no secret can have this name"),
        (["set", "A"], "x" * 70000, 1, "larger than 64 KB"),
        (["rm", "A"], "", 1, "there is no secret A"),
        ([], "", 2, "set, ls or rm"),
        (["sett"], "", 2, 'did you mean "set"?'),
    ],
)
def test_what_cannot_be_done_says_why(home, arguments, stdin, code, said):
    _, err = home.run(*arguments, stdin=stdin, code=code)
    assert said in err
    assert not home.secrets.exists()


def test_on_a_terminal_it_asks_and_shows_nothing(home):
    pid, terminal = pty.fork()
    if not pid:
        os.execve(HUBD, [str(HUBD), "secret", "set", "A"], home.env)
    said = b""
    while b"A: " not in said:
        said += os.read(terminal, 1024)
    os.write(terminal, f"{CANARY}\n".encode())
    try:
        while piece := os.read(terminal, 1024):
            said += piece
    except OSError:
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(terminal)
    assert b"A is kept in" in said
    assert CANARY.encode() not in said
    assert json.loads(home.secrets.read_text())["secrets"]["A"]["value"] == CANARY


def test_remove_names_the_secrets_that_no_server_uses_any_more(home):
    home.write(USES)
    home.run("set", "GITHUB_TOKEN", stdin=CANARY)

    def removed(name):
        return run_hubd(["remove", name], home.env, check=True).stderr

    assert "GITHUB_TOKEN" not in removed("github"), "off uses it, too"
    assert "its secret GITHUB_TOKEN is kept; `hubd secret rm GITHUB_TOKEN` removes it" in removed("off")
    assert "MISSING" not in removed("waits"), "there is none"
