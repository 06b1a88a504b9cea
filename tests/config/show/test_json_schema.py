"""The JSON Schema of hubd.toml: complete, as shipped, and of one mind with loading."""

import importlib.resources
import json
import tomllib

import jsonschema_rs
import pytest

from config.loading.assemble import load_all
from config.settings import HubConfig, UpstreamConfig
from config.show.json_schema import schema


@pytest.fixture(scope="module")
def validator() -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(schema())


@pytest.mark.parametrize("project", [False, True])
def test_the_shipped_schema_is_what_the_command_prints(project):
    name = "hubd-project.schema.json" if project else "hubd.schema.json"
    text = importlib.resources.files("config").joinpath(name).read_text()
    option = " --project" if project else ""
    assert json.loads(text) == schema(project=project), f"run: hubd schema{option} > config/{name}"


def test_it_is_a_schema_and_says_what_each_setting_may_be():
    jsonschema_rs.meta.validate(schema())
    upstream = schema()["$defs"]["upstream"]["properties"]
    assert upstream["era"]["enum"] == ["auto", "legacy", "modern"]
    assert upstream["timeouts"]["properties"]["call"]["default"] == 300.0
    assert upstream["roots"]["anyOf"][1] == {"type": "array", "items": {"type": "string"}}
    assert upstream.keys() == set(UpstreamConfig.__struct_encode_fields__)
    assert schema()["properties"].keys() == {"$schema", *HubConfig.__struct_encode_fields__}
    defaults = schema()["properties"]["defaults"]["properties"]
    assert upstream.keys() - defaults.keys() == {
        "command",
        "args",
        "cwd",
        "url",
        "headers",
        "oauth",
        "account",
        "accounts",
        "prefix",
        "aliases",
        "rename",
        "describe",
        "source",
        "trusted",
        "allow",
        "ask",
        "deny",
        "hints",
        "flow",
        "price",
        "prices",
        "record",
        "pinning",
        "pin_ignore",
        "hidden_text",
    }
    assert schema(project=True)["properties"].keys() == {"$schema", "upstreams"}


GOOD = [
    "",
    '"$schema" = "hubd.schema.json"\nlisten = "127.0.0.1:1"\nname_budget = 32\n',
    'auth = "none"\nstartup_grace_s = 0\ninclude = ["*.json"]\n[upstreams.a]\ncommand = "x"\nargs = ["${VAR}"]\n',
    '[upstreams.a]\ncommand = "x"\nroots = "host"\nrestart = { attempts = 0 }\n[upstreams.b]\nurl = "http://h"\n',
    '[upstreams.a]\nurl = "https://h/mcp"\ntimeouts = { call = 1 }\ntool_timeouts = { x = 0.5 }\n',
    '[upstreams.a]\nurl = "${URL:-http://h}/mcp"\n',
    '[defaults]\npass = ["AWS_*", "!DISPLAY"]\nenv = { A = "1" }\ntimeouts = { call = 1 }\n[upstreams.a]\nurl = "http://h"\n',
    '[upstreams.a]\ncommand = "x"\npass = ["MY_TOKEN"]\n',
]  # fmt: skip
BAD = [
    "listen = 1\n",
    "lisen = 1\n",
    'auth = "nope"\n',
    "name_budget = 5\n",
    "page_size = -1\n",
    "drain_s = -1\n",
    "upstreams = 1\n",
    '[upstreams]\ncommand = "x"\n',
    '[upstreams.a]\ncommand = ["x"]\n',
    '[upstreams.a]\ncommand = "x"\nurl = "http://h"\n',
    '[upstreams.a]\ncommand = "x"\nenv = { A = 1 }\n',
    '[upstreams.a]\ncommand = "x"\nera = "late"\n',
    '[upstreams.a]\ncommand = "x"\nroots = "hosts"\n',
    '[upstreams.a]\nurl = "ftp://h"\n',
    '[upstreams.a]\nurl = "http://h"\ntimeouts = { call = 0 }\n',
    '[upstreams.a]\nurl = "http://h"\ntimeouts = { calls = 1 }\n',
    '[upstreams.a]\nurl = "http://h"\ntool_timeouts = { x = 0 }\n',
    '[upstreams.a]\nurl = "http://h"\nrestart = { attempts = -1 }\n',
    '[upstreams.a]\nurl = "http://h"\nidle_stop_s = -1\n',
    '[upstreams.a]\ncommand = "x"\npass = "MY_TOKEN"\n',
    '[defaults]\ncommand = "x"\n',
    '[defaults]\nera = "late"\n',
]


@pytest.mark.parametrize("text", GOOD)
def test_what_is_sound_is_valid(validator, tmp_path, text):
    validator.validate(tomllib.loads(text))
    path = tmp_path / "hubd.toml"
    path.write_text(text or "# nothing")
    assert [warning for warning in load_all(path, {"VAR": "", "URL": ""}).warnings if warning.keys] == []


@pytest.mark.parametrize("text", BAD)
def test_what_is_wrong_or_doubtful_is_not(validator, text):
    assert not validator.is_valid(tomllib.loads(text))


def test_an_entry_that_adds_to_another_is_valid(validator):
    validator.validate({"upstreams": {"a": {"disabled": True}}})
