"""`auth` and `[access]`: what they may be, where mistakes are told, and what is shown."""

import tomllib
from pathlib import Path

import jsonschema_rs
import pytest

from config.diagnostics import ConfigError
from config.diff import difference
from config.loading.assemble import load_all
from config.loading.gather import gather
from config.security_settings import PolicyConfig
from config.setting_declarations import secrets_of
from config.settings import HubConfig, UpstreamConfig
from config.show.effective import hub_settings, lines
from config.show.json_schema import schema

END = '\n[upstreams.a]\ncommand = "x"\n'
TOKEN = "c4n4ry-c4n4ry-c4n4ry"
OAUTH = """\
auth = "oauth"
[access]
required_scopes = ["mcp"]
[[access.issuers]]
name = "team"
issuer = "https://id.example.com/realms/team"
introspection = { client_id = "hubd", client_secret = "${SECRET}" }
[[access.issuers]]
name = "guests"
issuer = "http://127.0.0.1:9000"
clients = ["one"]
[[access.tokens]]
name = "ci"
token = "${CI}"
principal = "ci"
expires = 2027-01-01
"""
ENVIRON = {"SECRET": "c4n4ry-secret", "CI": TOKEN}


@pytest.fixture
def file(tmp_path: Path):
    def write(text: str, name: str = "hubd.toml") -> Path:
        path = tmp_path / name
        path.write_text(text + END if name.endswith("toml") else text)
        return path

    return write


def refusal(path: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_all(path, ENVIRON)
    texts = [str(each).removeprefix(f"{path}, line ") for each in caught.value.diagnostics]
    assert "c4n4ry" not in "".join(texts).replace(str(path.parent), "")
    return texts


def test_lists_of_tables_arrive(file):
    access = load_all(file(OAUTH), ENVIRON).config.access
    assert [issuer.name for issuer in access.issuers] == ["team", "guests"]
    assert access.issuers[0].introspection.client_secret.reveal() == "c4n4ry-secret"
    assert access.issuers[1].clients == ("one",)
    [token] = access.tokens
    assert (token.name, token.token.reveal(), token.principal, token.expires) == ("ci", TOKEN, "ci", "2027-01-01")
    assert repr(access).count("c4n4ry") == 0


def test_the_schema_knows_lists_of_tables():
    tree = tomllib.loads(OAUTH)
    tree["access"]["tokens"][0]["expires"] = "2027-01-01"
    jsonschema_rs.validator_for(schema()).validate({**tree, "upstreams": {"a": {"command": "x"}}})


def test_origins_and_secrets_of_lists_are_found(file):
    loaded = load_all(file(OAUTH), ENVIRON)
    assert loaded.origins["access", "issuers", "1", "clients"].line == 11
    assert {"c4n4ry-secret", TOKEN} <= {*secrets_of(loaded.config)}


ISSUER = '[[access.issuers]]\nname = "a"\nissuer = "https://a.example"\n'
MINE = f'[[access.tokens]]\nname = "a"\ntoken = "{TOKEN}"\n'
PROXY = '[access.proxy]\nheader = "X-User"\n'
WRONG = [
    ('auth = "oauth"', '1: auth: "oauth" needs an authorization server: write [[access.issuers]]'),
    ('[access.issuers]\nname = "a"', "1: access.issuers: is a list of tables; write [[access.issuers]]"),
    ("[access]\nissuers = [1]", "2: access.issuers.0: expected a table"),
    (f"{ISSUER}{ISSUER}", '5: access.issuers.1.name: "a" is the name of another issuer'),
    (f'{ISSUER}[[access.issuers]]\nname = "b"\nissuer = "https://a.example"', "6: access.issuers.1.issuer: another"),
    (ISSUER.replace('"a"', '"local"'), '2: access.issuers.0.name: "local" names others'),
    (ISSUER.replace('"a"', '"proxy"'), '2: access.issuers.0.name: "proxy" names others'),
    (ISSUER.replace('"a"', '"A"'), "2: access.issuers.0.name: an issuer has a name of its own"),
    (ISSUER.replace("https", "http"), "3: access.issuers.0.issuer: expected an https URL"),
    (ISSUER.replace("a.example", "a.example?x"), "3: access.issuers.0.issuer: expected an https URL"),
    (f'{ISSUER}algorithms = ["none"]', "4: access.issuers.0.algorithms"),
    (f'{ISSUER}algorithms = ["HS256"]', "4: access.issuers.0.algorithms"),
    (f"{ISSUER}algorithms = []", "4: access.issuers.0.algorithms: is empty"),
    (f"{ISSUER}audiences = 1", "4: access.issuers.0.audiences: expected a list"),
    (f'{ISSUER}introspection = {{ client_id = "x" }}', "4: access.issuers.0.introspection: needs both"),
    (f'{ISSUER}introspection = {{ client_secret = "${{NOT_THERE}}" }}', "4: access.issuers.0.introspection"),
    (MINE.replace(TOKEN, "c4n4ry"), "3: access.tokens.0.token: must be 16 or more"),
    ('[[access.tokens]]\nname = "a"', "1: access.tokens.0.token: must be 16 or more"),
    (MINE.replace('"a"', '"A b"'), "2: access.tokens.0.name: a token has a name of its own"),
    (MINE + MINE.replace(TOKEN, f"{TOKEN}2"), '5: access.tokens.1.name: "a" is the name of another token'),
    (MINE + MINE.replace('"a"', '"b"'), "6: access.tokens.1.token: is that of another entry"),
    (f'{MINE}profile = "p"', "4: access.tokens.0.profile: there is no profile 'p'; there are: none"),
    (f'{MINE}expires = "soon"', "4: access.tokens.0.expires: must be a day"),
    (f'{MINE}expires = "2027-02-30"', "4: access.tokens.0.expires: must be a day"),
    (f"{MINE}expires = 7", "4: access.tokens.0.expires: expected text in quotes"),
    (f'{MINE}host = "a b"', "4: access.tokens.0.host: must be printable"),
    (f'{MINE}principal = "a\\u0007"', "4: access.tokens.0.principal: must be printable"),
    ('auth = "proxy"', "expected the header field in which the proxy names the person"),
    (f'auth = "proxy"\n{PROXY}', "without `secret`, which it sends as X-Hubd-Proxy-Secret, or `peer_uid`"),
    (f'{PROXY}secret = "c4n4ry"', "3: access.proxy.secret: must be 16 or more"),
    (f"{PROXY.replace('X-User', 'Authorization')}peer_uid = [0]", "2: access.proxy.header: means something else"),
    (f'{PROXY}peer_uid = [0]\npeers = ["localhost"]', "4: access.proxy.peers: expected addresses"),
    (f"{PROXY}peer_uid = [-1]", "3: access.proxy.peer_uid: expected numbers"),
    ('[access]\nresource = "http://hub.example/mcp"', "2: access.resource: expected the URL that hosts have"),
    ('[access]\nresource = "https://hub.example"', "2: access.resource: expected the URL that hosts have"),
    ('[policy]\ndefault = "maybe"', '2: policy.default: must be one of "allow", "deny"'),
    ('[policy]\nmode = "carefull"', '2: policy.mode: must be one of "open", "careful", "read-only"'),
    (
        '[upstreams.b]\ncommand = "x"\nhints = { get = ["nonsense"] }',
        'upstreams.b.hints: must be a table in which each is a list of one of "read-only", "destructive"',
    ),
    (
        '[upstreams.b]\ncommand = "x"\nflow = ["outwards"]',
        'upstreams.b.flow: must be a list of one of "private", "untrusted", "outward", or a table in which each is',
    ),
    ("[access]\nstep_up = true", '2: access.step_up: has no effect with auth = "token"'),
    ('[access]\nrequired_scopes = ["a b"]', "2: access.required_scopes: a scope is printable"),
    (f'auth = "oauth"\nbehind_tls_proxy = true\n{ISSUER}', "access.resource: is needed"),
]


@pytest.mark.parametrize(("text", "expected"), WRONG)
def test_mistakes_are_told_with_line_and_remedy(file, text, expected):
    found = refusal(file(text))
    assert any(expected in each for each in found), found


@pytest.mark.parametrize("text", ["[access.policy]", "[upstreams.b.policy]", "[defaults.policy]"])
def test_a_policy_is_refused_where_it_would_mean_nothing(file, text):
    [found, *_] = refusal(file(text))
    assert "it is a table of the whole hub; write [policy] in hubd.toml" in found


@pytest.mark.covers("POL-12")
def test_a_policy_in_a_further_file_is_refused(file, tmp_path):
    (tmp_path / "more.toml").write_text('[policy]\nallow = []\n[upstreams.b]\ncommand = "x"')
    with pytest.raises(ConfigError, match="is a setting of the whole hub"):
        load_all(file('include = ["more.toml"]'), {})


@pytest.mark.covers("PIN-03")
def test_pins_are_set_for_all_servers_and_for_one(file, tmp_path):
    text = """[policy]
pinning = "quarantine"
hidden_text = "quarantine"
pins_file = "team/pins.json"
[upstreams.b]
command = "x"
pinning = "off"
pin_ignore = ["description", "_meta.built"]
hidden_text = "pass"
"""
    config = load_all(file(text), {}).config
    path = str(tmp_path / "team" / "pins.json")
    assert config.policy == PolicyConfig(pinning="quarantine", hidden_text="quarantine", pins_file=path)
    mine = config.upstreams["b"]
    assert (mine.pinning, mine.pin_ignore, mine.hidden_text) == ("off", ("description", "_meta.built"), "pass")
    assert HubConfig().policy == PolicyConfig(pinning="warn", hidden_text="strip", pins_file=None)
    assert (UpstreamConfig(command="x").pinning, UpstreamConfig(command="x").hidden_text) == (None, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[policy]\npinning = "tofu"', 'policy.pinning: must be one of "off", "warn", "freeze", "quarantine"'),
        ("[policy]\nhidden_text = true", "policy.hidden_text"),
        ('[upstreams.b]\ncommand = "x"\npinning = "on"', "upstreams.b.pinning"),
    ],
)
def test_no_other_word_is_taken_for_a_setting_of_pins(file, text, expected):
    assert any(expected in each for each in refusal(file(text)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ISSUER, 'access.issuers: has no effect with auth = "token"'),
        (f'auth = "none"\n{MINE}', 'access.tokens: has no effect with auth = "none"'),
        (f"{PROXY}peer_uid = [0]", 'access.proxy: has no effect with auth = "token"'),
        (f'{MINE}tokn = "x"', 'access.tokens.0.tokn: ignored: unknown setting; did you mean "token"'),
    ],
)
def test_what_has_no_effect_is_told(file, text, expected):
    assert any(expected in str(each) for each in load_all(file(text), {}).warnings)


@pytest.mark.covers("SEC-61")
def test_secrets_of_lists_are_masked_where_the_configuration_is_shown(file):
    text = f'{OAUTH}[[access.tokens]]\nname = "b"\ntoken = "{TOKEN}"\n'
    shown = [line.split("  # ")[0].rstrip() for line in lines(hub_settings(gather(file(text), {}), defaults=False), ())]
    assert 'access.issuers.0.introspection.client_secret = "${SECRET}"' in shown
    assert 'access.tokens.0.expires = "2027-01-01"' in shown
    assert 'access.tokens.1.token = "***"' in shown
    assert "c4n4ry" not in "".join(shown)


def test_a_change_of_a_list_is_one_change(file):
    old = load_all(file(OAUTH), ENVIRON).config
    found = difference(old, HubConfig(auth="oauth", upstreams=old.upstreams))
    assert found.settings == ("access.required_scopes", "access.issuers", "access.tokens")


@pytest.mark.covers("POL-05")
def test_who_lets_in_others_is_told_that_nothing_is_allowed(file):
    text = f'auth = "oauth"\n{ISSUER}'
    told = [str(each) for each in load_all(file(text), {}).warnings]
    assert any("everything is denied that no rule allows, and none does" in each for each in told), told
    for policy in ('[policy]\ndefault = "allow"', '[policy]\ndefault = "deny"\nallow = ["principal:local"]'):
        told = [str(each) for each in load_all(file(f"{text}\n{policy}\n"), {}).warnings]
        assert not any("no rule allows" in each for each in told), told
