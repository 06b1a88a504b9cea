"""`hubd token` and its commands, in a home of its own and beside a hub that runs."""

import json
from pathlib import Path

import pytest

from config.loading.assemble import load_all
from tests.support.commands import run_hubd
from tests.support.processes import own_directories

CONFIGURED = '[[access.tokens]]\nname = "fixed"\ntoken = "c4n4ry-c4n4ry-c4n4ry"\nexpires = 2027-01-01\n'


class Home:
    """A user's directories, and commands that run there."""

    def __init__(self, directory: Path) -> None:
        self.env = own_directories(directory)
        self.file = Path(self.env["XDG_CONFIG_HOME"], "hubd", "hubd.toml")
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.file.write_text(CONFIGURED)
        self.tokens = Path(self.env["XDG_STATE_HOME"], "hubd", "tokens.json")

    def run(self, *arguments: str, code: int = 0) -> tuple[str, str]:
        done = run_hubd(["token", *arguments], self.env)
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        assert "c4n4ry" not in done.stdout + done.stderr
        return done.stdout, done.stderr


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path)


def test_a_token_is_shown_once_and_listed_without_it(home):
    token = home.run("new", "ci", "--principal", "robots", "--host", "runner", "--expires", "90d")[0].strip()
    assert token.startswith("hubd_")
    assert token not in home.tokens.read_text()
    assert home.tokens.stat().st_mode & 0o777 == 0o600
    rows = {row["name"]: row for row in json.loads(home.run("list", "--json")[0])["tokens"]}
    assert (rows["ci"]["principal"], rows["ci"]["host"], rows["ci"]["configured"]) == ("robots", "runner", False)
    assert rows["ci"]["expires"]
    assert (rows["fixed"]["expires"], rows["fixed"]["configured"]) == ("2027-01-01", True)
    head, *lines = home.run("list")[0].splitlines()
    assert "robots" in lines[0]
    assert [line[head.index("PROFILE")] for line in lines] == ["-", "-"]
    again = json.loads(home.run("rotate", "ci", "--grace", "24h", "--json")[0])
    assert again["token"] != token
    assert json.loads(home.run("list", "--json")[0])["tokens"][0]["former_until"]
    assert home.run("revoke", "ci")[0] == "revoked ci\n"
    assert home.run("revoke", "ci", code=1)[1].startswith("hubd: there is no token ci")


def test_who_is_let_in_hears_what_they_may_do_and_the_rule_that_is_told_works(home):
    """What the command prints is pasted into the file; then the rules say it."""
    said = home.run("new", "laptop", "--principal", "ann")[1]
    assert "It lets ann in" in said
    assert "ann may use nothing until a rule allows it; since the hub lets in others, neither may your hosts" in said
    rule = said[said.index("[policy]") :].replace("NAME", "time")
    config = home.file.read_text()
    home.file.write_text(config + rule)
    policy = load_all(home.file, home.env).config.policy
    assert policy.default == "deny"
    assert (policy.allow[0], policy.allow[-1]) == ("principal:local", "principal:ann upstream:time")
    said = home.run("rotate", "laptop")[1]
    assert "ann may use what rules allow, as `hubd policy --principal ann` shows" in said
    home.file.write_text(config + '[policy]\ndefault = "allow"\n')
    assert "ann may use all servers, but for what rules deny" in home.run("rotate", "laptop")[1]
    home.file.write_text(config + '[policy]\nmode = "read-only"\n')
    assert "ann may use what rules allow" in home.run("rotate", "laptop")[1]
    home.file.write_text(f'auth = "none"\n{config}')
    assert "may use" not in home.run("rotate", "laptop")[1]
    assert "It opens all servers\n" in home.run("new", "own")[1]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("new", "A b"), 1, "a token has a name of its own"),
        (("new", "ci", "--profile", "work"), 1, "profile: there is no profile 'work'; there are: none"),
        (("new", "ci", "--expires", "soon"), 2, "expected a time such as 90d"),
        (("new", "ci", "--expires", "0d"), 2, "expected a time such as 90d"),
        (("new", "fixed"), 1, "hubd.toml, line 2 has a token fixed already"),
        (("rotate", "fixed"), 1, "hubd.toml, line 2: change it there"),
        (("revoke", "fixed"), 1, "hubd.toml, line 2: take it out there"),
        (("rotate", "nobody"), 1, "there is no token nobody"),
    ],
)
def test_refusals_say_what_to_do(home, arguments, code, text):
    assert text in home.run(*arguments, code=code)[1]
    assert not home.tokens.exists()


@pytest.mark.covers("OM-5")
def test_the_token_of_the_metrics_is_made_once_in_a_file_of_its_own(home):
    token = home.run("--metrics")[0].strip()
    file = home.tokens.with_name("metrics-token")
    assert (file.read_text().strip(), file.stat().st_mode & 0o777) == (token, 0o600)
    assert json.loads(home.run("--metrics", "--json")[0]) == {"token": token}
    assert home.run()[0].strip() != token


def test_the_hubs_own_token_is_printed_as_ever(home):
    token = home.run()[0].strip()
    assert len(token) == 43
    assert json.loads(home.run("--json")[0]) == {"token": token}
