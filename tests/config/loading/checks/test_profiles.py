"""`[profiles.NAME]`: what may stand there, and what is said of all else."""

from textwrap import dedent

import pytest
import tomlkit
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from config.diagnostics import ConfigError
from config.loading.assemble import load_all
from config.loading.gather import gather
from config.profile_settings import Profile
from config.setting_declarations import declarations, secrets_of
from config.show.effective import hub_settings
from hub.catalog.profiles.profile_entries import ProfileRules

SERVER = '[upstreams.github]\ncommand = "x"\n'


def load(tmp_path, text, environ=None, name="hubd.toml", **options):
    path = tmp_path / name
    path.write_text(text)
    return load_all(path, environ or {}, **options)


def problems(tmp_path, text, environ=None):
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, text, environ)
    return [f"{each.line}: {'.'.join(each.keys)}: {each.text}" for each in refused.value.diagnostics]


FULL = (
    SERVER
    + """
[profiles.coding]
hosts = ["cursor", "codex"]
servers = ["github", "hub"]
tools = ["github__*", "!github__*_release*"]
always = ["github__create_issue"]
search = "on"
name_budget = 40
max_tools = 40
instructions = "Ask before you push."
[profiles.coding.rename]
github__create_issue = "new_issue"
[profiles.coding.override.github__create_issue]
description = "File a bug in our tracker."
fix = { owner = "acme", repo = "${TRACKER_REPO}", labels = ["bug", "${TRACKER_REPO}"], draft = false, n = 3 }
"""
)


def test_all_settings_of_a_profile(tmp_path):
    found = load(tmp_path, FULL, {"TRACKER_REPO": "s3cret-repo"})
    profile = found.config.profiles["coding"]
    assert profile.hosts == ("cursor", "codex")
    assert profile.rename == {"github__create_issue": "new_issue"}
    fix = profile.override["github__create_issue"].fix
    assert fix == {"owner": "acme", "repo": "s3cret-repo", "labels": ["bug", "s3cret-repo"], "draft": False, "n": 3}
    assert "s3cret-repo" not in repr(found.config), "values may be secrets"
    assert not found.warnings


def test_what_references_gave_to_fixed_arguments_is_known_for_a_secret(tmp_path):
    (tmp_path / "pin").write_text("f1le\n")
    fix = '{ a = "${X} or ${env:Y:-in-the-file}", b = ["${file:pin}", "$${X}"], c = "${userHome}${/}", d = "plain" }'
    text = f"{SERVER}[profiles.p.override]\ngithub__create_issue = {{ fix = {fix} }}\nx__y = {{ fix = {{ z = '1' }} }}"
    profile = load(tmp_path, text, {"X": "fr0m-x"}).config.profiles["p"]
    assert list(secrets_of(profile)) == ["fr0m-x", "f1le"]
    assert "f1le" not in repr(profile)
    assert profile.override["github__create_issue"].fix["a"] == "fr0m-x or in-the-file"
    changed = load(tmp_path, text, {"X": "fr0m-x", "Y": "fr0m-y"}).config.profiles["p"]
    assert list(secrets_of(changed)) == ["fr0m-x", "fr0m-y", "f1le"]
    assert profile == load(tmp_path, text, {"X": "fr0m-x"}).config.profiles["p"], "else each reload changed something"


def test_a_profile_is_shown_with_files_and_lines_and_without_values_of_variables(tmp_path):
    (tmp_path / "hubd.toml").write_text(FULL)
    environ = {"TRACKER_REPO": "s3cret-repo"}
    shown = {each.keys: each for each in hub_settings(gather(tmp_path / "hubd.toml", environ), defaults=True)}
    assert shown["profiles", "coding", "hosts"].value == ["cursor", "codex"]
    fix = shown["profiles", "coding", "override", "github__create_issue", "fix", "repo"]
    assert fix.value == "${TRACKER_REPO}"
    assert fix.origin is not None
    assert fix.origin.line == 17
    assert not any("s3cret" in str(each.value) for each in shown.values())


def test_what_looks_like_a_secret_is_masked_where_it_is_shown(tmp_path):
    (tmp_path / "hubd.toml").write_text(
        FULL.replace('owner = "acme"', 'api_token = "ghp_0123456789abcdefABCDEF01234567"')
    )
    shown = hub_settings(gather(tmp_path / "hubd.toml", {"TRACKER_REPO": "r"}), defaults=False)
    assert not any("ghp_" in str(each.value) for each in shown)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('hosts = ["a"]\n[profiles.q]\nhosts = ["a"]', '6: profiles.q.hosts: "a" is a host of the profile p, too'),
        ('hosts = ["a b"]', "4: profiles.p.hosts: a label is printable ASCII"),
        ('hosts = ["hubd"]', '4: profiles.p.hosts: "hubd" is the label of hubd\'s own commands'),
        ("hosts = 3", "4: profiles.p.hosts: expected a list, not a whole number"),
        ('tools = [""]', "4: profiles.p.tools: has an entry without a name"),
        (f"tools = {['a*'] * 65}", "4: profiles.p.tools: has more than 64 globs"),
        (f'always = ["{"a" * 300}"]', "4: profiles.p.always: has an entry of 300 characters"),
        ('search = "yes"', "4: profiles.p.search: must be one of"),
        ("name_budget = 20", "4: profiles.p.name_budget: must be from 32 to 64 characters, not 20"),
        (
            "max_tools = " + "9" * 4000,
            "4: profiles.p.max_tools: is too large a number: 9223372036854775807 is the most",
        ),
        ("name_budget = " + "9" * 4000, "4: profiles.p.name_budget: is too large a number"),
        ('name_budget = "x"', "4: profiles.p.name_budget: expected a whole number, not text in quotes"),
        ('hosts = ["x\\u001b", "x\\u001b"]', "4: profiles.p.hosts: a label is printable ASCII without spaces"),
        ("max_tools = 0", "4: profiles.p.max_tools: must be a number of tools"),
        (f'instructions = "{"é" * 1001}"', "4: profiles.p.instructions: takes 2002 bytes, and 2000 are the most"),
        ('rename = { a__b = "1x" }', "4: profiles.p.rename.a__b: expected a name"),
        ('rename = { a__b = "x.y" }', "4: profiles.p.rename.a__b: expected a name"),
        ('rename = { a__b = "hub__x" }', "4: profiles.p.rename.a__b: names that begin with hub__"),
        (f'rename = {{ a__b = "{"x" * 51}" }}', "4: profiles.p.rename.a__b: has 51 characters"),
        (f'name_budget = 32\nrename = {{ a__b = "{"x" * 33}" }}', "5: profiles.p.rename.a__b: has 33 characters"),
        ('rename = { a__b = "x", a__c = "x" }', "4: profiles.p.rename.a__c: is the new name of 'a__b', too"),
        ("rename = { a__b = 3 }", "4: profiles.p.rename"),
        ("override = { a__b = 3 }", "4: profiles.p.override.a__b: expected a table"),
        ("override = { a__b = { fix = 3 } }", "4: profiles.p.override.a__b.fix: expected a table"),
        ("override = { a__b = { fix = { x = nan } } }", "4: profiles.p.override.a__b.fix.x: is no value that JSON"),
        ('override = { a__b = { fix = { x = "${NOPE" } } }', "4: profiles.p.override.a__b.fix.x: `${` has no `}`"),
        (
            'override = { a__b = { fix = { x = "${no:such}" } } }',
            "4: profiles.p.override.a__b.fix.x: `${no:such}` means",
        ),
        (
            'override = { a__b = { fix = { x = "${secret:a b}" } } }',
            "4: profiles.p.override.a__b.fix.x: `${secret:a b}`",
        ),
        ('override = { a__b = { fix = { x = "\\u0000" } } }', "4: profiles.p.override.a__b.fix.x: holds a NUL"),
        (
            'override = { a__b = { fix = { x = "${cmd:id -u}" } } }',
            "4: profiles.p.override.a__b.fix.x: `${cmd:id -u}` runs a program, and counts only in the settings of "
            "servers: run `hubd secret set NAME` with what that prints, and write ${secret:NAME} here",
        ),
        (f'override = {{ a__b = {{ fix = {{ x = "{"y" * 70_000}" }} }} }}', "4: profiles.p.override.a__b.fix: takes"),
        (f'override = {{ a__b = {{ description = "{"y" * 17_000}" }} }}', "4: profiles.p.override.a__b.description"),
    ],
    ids=lambda text: text[:40],
)
def test_mistakes_are_told_with_their_line(tmp_path, lines, said):
    lines = lines.replace("'a*'", '"a*"')
    found = problems(tmp_path, f"{SERVER}[profiles.p]\n{lines}\n")
    assert any(each.startswith(said) for each in found), found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("profiles = 3\n", "profiles: expected a table"),
        ("[profiles]\np = 3\n", "profiles.p: expected a table: write [profiles.NAME] above this"),
        ("[profiles.P]\n", "profiles.P: cannot be the name of a profile"),
        ('[profiles."~x"]\n', "profiles.~x: cannot be the name of a profile"),
        ("".join(f"[profiles.p{n}]\n" for n in range(65)), "profiles: there are 65 profiles, and 64 are the most"),
    ],
    ids=lambda text: text[:40],
)
def test_mistakes_of_the_whole_table(tmp_path, text, said):
    found = problems(tmp_path, text)
    assert any(said in each for each in found), found


def test_an_unknown_setting_is_ignored_with_the_nearest_one(tmp_path):
    found = load(tmp_path, f"{SERVER}[profiles.p]\nname_bugdet = 40\n")
    assert found.config.profiles == {"p": Profile()}
    assert [f"{each.line}: {each.text}" for each in found.warnings] == [
        '4: ignored: unknown setting; did you mean "name_budget"?'
    ]


def test_of_many_unknown_settings_the_first_are_told(tmp_path):
    text = "".join(f"k{number} = 1\n" for number in range(5_000))
    found = load(tmp_path, f"{SERVER}[profiles.p]\n{text}").warnings
    assert len(found) == 101
    assert [found[0].keys, found[99].keys] == [("profiles", "p", "k0"), ("profiles", "p", "k99")]
    assert str(found[100]).endswith("hubd.toml: there are more warnings; correct these first")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("describe = { github__x = 'y' }", "description"),
        ("description = 'y'", "description"),
        ("[profiles.p.fix]\nowner = 'acme'", "fix"),
    ],
)
def test_what_is_said_of_a_tool_is_hinted_at_below_its_name(tmp_path, text, meant):
    found = load(tmp_path, f"{SERVER}[profiles.p]\n{text}\n")
    assert found.config.profiles == {"p": Profile()}
    assert [each.text for each in found.warnings] == [
        f'ignored: it is a setting of one tool each; write override."TOOL".{meant}'
    ]


def warnings(folder, text):
    return [f"{each.line}: {each.text}" for each in load(folder, text).warnings]


def test_a_server_that_is_not_there_is_a_warning(tmp_path):
    found = warnings(tmp_path, f'{SERVER}[profiles.p]\nservers = ["gihub", "hub", "x"]\n')
    there_is_no = "4: there is no server"
    unless = "here, unless a project has one of that name"
    assert found == [f'{there_is_no} "gihub" {unless}; did you mean "github"?', f'{there_is_no} "x" {unless}']


def test_few_of_many_unknown_servers_are_told_and_nothing_unprintable(tmp_path):
    servers = ", ".join(f'"{number}\\u001b[2J{"y" * 300}"' for number in range(1_000))
    found = warnings(tmp_path, f"{SERVER}[profiles.p]\nservers = [{servers}]\n")
    assert len(found) == 10
    assert found[-2] == "4: there are no servers of 992 more of these names"
    assert found[-1] == "4: without any of these the profile shows nothing; without this setting it shows all"
    assert all(each.isprintable() and len(each) < 200 for each in found)


def test_entries_that_are_of_no_server_are_warnings_with_what_is_meant(tmp_path):
    text = """
    [profiles.p]
    tools = ["gihub__*", "!githib__x", "github__*", "*__x", "git*", "create_issue", "hub__x", "long-1a2b3c4d__x"]
    rename = { gitub__a = "b" }
    [profiles.p.override.zzz__a]
    description = "x"
    """
    no_server = "no server here has tools of such names, unless a project has one that does"
    assert sorted(warnings(tmp_path, SERVER + dedent(text))) == [
        f"5: {no_server}: 'gihub__*' (did you mean 'github__*'?), '!githib__x' (did you mean 'github__x'?)",
        f"6: {no_server}: 'gitub__a' (did you mean 'github__a'?)",
        f"7: {no_server}: 'zzz__a'",
    ]


def test_former_ids_prefixes_disabled_and_left_out_servers_are_servers(tmp_path):
    text = """
    prefix = "gh"
    aliases = ["hubgit"]
    [upstreams.off]
    command = "x"
    disabled = true
    [upstreams.out]
    command = "x"
    prefix = "o"
    env = { A = "${SURELY_NOT_SET}" }
    [profiles.p]
    tools = ["gh__*", "hubgit__*", "off__*", "o__*"]
    """
    found = load(tmp_path, SERVER + dedent(text), partly=True)
    assert [*found.config.upstreams] == ["github", "off"]
    assert {name: left_out.prefix for name, left_out in found.left_out.items()} == {"out": "o"}
    assert not found.warnings
    [found] = warnings(tmp_path, f'{SERVER}prefix = "gh"\n[profiles.p]\ntools = ["github__*"]\n')
    assert found.endswith(": 'github__*' (did you mean 'gh__*'?)")
    bare = '[upstreams.bare]\ncommand = "x"\nprefix = ""\n[profiles.p]\ntools = ["any__*"]\n'
    assert not warnings(tmp_path, SERVER + bare)


def test_such_warnings_name_few_and_nothing_unprintable(tmp_path):
    entries = "".join(f'"x{number}__\\u0007{"y" * 200}", ' for number in range(20))
    [found] = warnings(tmp_path, f"{SERVER}[profiles.p]\ntools = [{entries}]\n")
    assert found.endswith(" and 12 more")
    assert found.isprintable()
    assert len(found) < 1_500


def test_problems_of_hostile_names_are_short_and_printable(tmp_path):
    evil = "\\u001b[2J" + "x" * 10_000
    text = f"""
    [profiles."{evil}"]
    hosts = ["{evil}"]
    rename = {{ "github__{evil}" = "{evil}" }}
    [profiles."{evil}2"]
    hosts = ["{evil}"]
    [profiles.p.override."{evil}"]
    fix = {{ "{evil}" = nan }}
    [upstreams.other]
    command = "x"
    rename = {{ "a{evil}" = "{evil}", "b{evil}" = "hub__{evil}" }}
    """
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, SERVER + dedent(text))
    texts = [str(each).removeprefix(str(tmp_path)) for each in refused.value.diagnostics]
    assert len(texts) >= 6
    assert all(each.isprintable() and len(each) < 1_000 for each in texts), texts


def test_profiles_stand_in_the_main_file_only(tmp_path):
    (tmp_path / "upstreams.d").mkdir()
    (tmp_path / "upstreams.d" / "x.toml").write_text(f"{SERVER}[profiles.p]\n")
    found = problems(tmp_path, "")
    assert any("this file may only name upstreams" in each for each in found), found


_names = st.text(max_size=12) | st.sampled_from(["github__x", "a" * 300, "~", "hub__x", "\u202e", "${X}", "default"])
_plain = st.none() | st.booleans() | st.integers(-(1 << 62), 1 << 62) | st.floats() | st.text(max_size=20) | _names
_values = st.recursive(
    _plain, lambda below: st.lists(below, max_size=4) | st.dictionaries(_names, below, max_size=4), max_leaves=12
)
_settings = st.sampled_from([*declarations(Profile), "unknown"])
_profile = st.dictionaries(_settings, _values | st.lists(_names, max_size=5), max_size=6)


@given(st.dictionaries(_names, _profile | _values, max_size=3))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_stands_there_is_loaded_or_refused_with_its_place(tmp_path, profiles):
    """Wrong types, huge and strange names, what looks like variables: never a failure of another kind."""
    path = tmp_path / "hubd.toml"
    path.write_text(tomlkit.dumps({"profiles": without_null(profiles)}), encoding="utf-8")
    loaded, refused = {}, None
    try:
        loaded = load_all(path, {}).config.profiles
    except ConfigError as error:
        refused = error
    if refused is not None:
        assert {each.file for each in refused.diagnostics} == {path}
    for name, profile in loaded.items():
        rules = ProfileRules(name, profile)
        for tool in ("github__x", "\u202e", "x" * 1_000):
            rules.shows_tool((tool,))
            rules.override((tool,))
    hub_settings(gather(path, {}), defaults=True)


def without_null(value):
    """The value without what TOML cannot hold."""
    if isinstance(value, dict):
        return {key: without_null(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [without_null(each) for each in value if each is not None]
    return value
