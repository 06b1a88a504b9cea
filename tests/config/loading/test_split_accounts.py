"""Several accounts at one server: what each of them runs as, and what is refused of how they are configured."""

import os

import pytest

from config.diagnostics import ConfigError
from config.diff import compare, source_of
from config.loading.assemble import load_all
from config.loading.split_accounts import split_accounts, whole_name
from config.projects import load_project
from config.setting_declarations import Secret
from tests.support.tables import each_row

TWO = """
[upstreams.github]
command = "github-mcp"
env = { ALL = "1", TOKEN = "none" }
[upstreams.github.accounts.work]
env = { TOKEN = "${WORK}" }
[upstreams.github.accounts.private]
env = { TOKEN = "p" }
[upstreams.notes]
url = "https://h/mcp"
oauth = { client_id = "a", scopes = ["x"] }
[upstreams.notes.accounts.one]
[upstreams.notes.accounts.two]
oauth.client_id = "b"
headers = { X = "2" }
"""


def load(tmp_path, text):
    (tmp_path / "hubd.toml").write_text(text)
    return load_all(tmp_path / "hubd.toml", {"WORK": "w", "HOME": str(tmp_path)})


def refusals(tmp_path, text):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    return [str(each).replace(f"{tmp_path}/", "") for each in caught.value.diagnostics]


def test_each_account_is_a_server_of_its_own(tmp_path):
    found = split_accounts(load(tmp_path, TWO).config.upstreams)
    assert [*found] == ["github", "github:private", "notes", "notes:two"]
    assert [config.account for config in found.values()] == ["work", "private", "one", "two"]
    assert found["github"].env == {"ALL": Secret("1"), "TOKEN": Secret("w")}
    assert found["github:private"].env == {"ALL": Secret("1"), "TOKEN": Secret("p")}
    assert [found[name].oauth.client_id for name in ("notes", "notes:two")] == ["a", "b"]
    assert [found[name].oauth.scopes for name in ("notes", "notes:two")] == [("x",), ("x",)]
    assert found["notes:two"].headers == {"X": Secret("2")}
    assert [config.start for config in found.values()] == ["eager", "lazy"] * 2
    assert not any(config.accounts for config in found.values())


def test_two_accounts_are_never_taken_for_each_other_whatever_is_written_first(tmp_path):
    found = split_accounts(load(tmp_path, TWO).config.upstreams)
    other = TWO.replace("accounts.one", "accounts.x").replace("accounts.two", "accounts.one").replace(".x", ".two")
    turned = split_accounts(load(tmp_path, other).config.upstreams)
    names = [{whole_name(name, each) for name, each in configs.items()} for configs in (found, turned)]
    assert names == [{"github:work", "github:private", "notes:one", "notes:two"}] * 2
    change = compare(found["notes"], turned["notes"])
    assert change is not None
    assert change.withdraws
    one, two = (split_accounts(load(tmp_path, EQUAL).config.upstreams)[name] for name in ("a", "a:two"))
    assert source_of(one) != source_of(two), "hubs share nothing that they read as different accounts"


EQUAL = '[upstreams.a]\nurl = "https://h/mcp"\n[upstreams.a.accounts.one]\n[upstreams.a.accounts.two]\n'
ONE = '[upstreams.a]\ncommand = "x"\n'


@each_row(
    "text, problem",
    [
        (
            ONE + "[upstreams.a.accounts.each]\n",
            '"each" is no name of an account: it says whose accounts are used; choose another name',
        ),
        (
            ONE + "[upstreams.a.accounts.shared]\n",
            '"shared" is no name of an account: it says whose accounts are used; choose another name',
        ),
        (ONE + '[upstreams.a.accounts."A B"]\n', "cannot name an account"),
        (ONE + 'account = "work"\n', 'there is no account "work"; the server has no `accounts`'),
        (ONE + 'account = "b"\n[upstreams.a.accounts.w]\n', 'there is no account "b"; there are: w'),
        (ONE + 'account = "each"\n[upstreams.a.accounts.w]\n', '"each" gives every principal an account of their own'),
        (ONE + "[upstreams.a.accounts.w]\nheaders = { X = '1' }\n", "accounts.w.headers: belongs to a `url`"),
        (ONE + "[upstreams.a.accounts.w]\nenv = { 'A=' = '1' }\n", "is no name for a variable: it is empty"),
        (ONE + "[upstreams.a.accounts]\nw = 1\n", "expected a table"),
        (ONE + "[profiles.p]\naccounts = { a = 'w' }\n", 'there is no account "w"; the server has no `accounts`'),
        (ONE + "[profiles.p]\naccounts = { b = 'w' }\n", 'there is no server "b"'),
    ],
)
def test_what_is_refused(tmp_path, text, problem):
    found = refusals(tmp_path, text)
    assert len(found) == 1, found
    assert problem in found[0], found


def test_a_project_names_an_account_and_nothing_else_runs_for_it(tmp_path):
    root, base = tmp_path / "shop", load(tmp_path, TWO).config
    root.mkdir()
    (root / ".hubd.toml").write_text('[upstreams.github]\naccount = "private"\n')
    project = load_project(root, os.environ, base)
    assert (project.upstreams, project.accounts) == ({}, {"github": "private"})
    (root / ".hubd.toml").write_text('[upstreams.github]\naccount = "private"\nenv = { MORE = "1" }\n')
    project = load_project(root, os.environ, base)
    assert project.accounts == {}
    assert [*split_accounts(project.upstreams)] == ["github", "github:private"]
    assert project.upstreams["github"].account == "private"


@each_row(
    "line, problem",
    [
        ('account = "nobody"', 'there is no account "nobody"; there are: work, private'),
        ('account = "shared"', "a project can name one of its `accounts`"),
        ('account = "each"', "a project can name one of its `accounts`"),
        ("accounts.more.env = { A = '1' }", "a project can add `deny` and `ask`"),
    ],
)
def test_what_a_project_may_not_say_of_accounts(tmp_path, line, problem):
    root, base = tmp_path / "shop", load(tmp_path, TWO).config
    root.mkdir(exist_ok=True)
    (root / ".hubd.toml").write_text(f"[upstreams.github]\n{line}\n")
    with pytest.raises(ConfigError) as caught:
        load_project(root, os.environ, base)
    assert any(problem in str(each) for each in caught.value.diagnostics), caught.value.diagnostics
