"""`[registries.NAME]`: what it may be, the order in which registries are asked, and what is shown of it."""

import pytest

from config.diagnostics import ConfigError
from config.loading.assemble import load_all
from config.loading.gather import gather
from config.setting_declarations import Secret, secrets_of
from config.settings import OFFICIAL_URL, RegistryConfig, in_order
from config.show.effective import hub_settings

HEAD = "[upstreams.a]\ncommand = 'true'\n"


def load(tmp_path, text):
    tmp_path.chmod(0o700)
    path = tmp_path / "hubd.toml"
    path.write_text(HEAD + text)
    return load_all(path, {"HOME": str(tmp_path)})


def test_they_are_asked_in_their_order_and_the_official_one_last(tmp_path):
    text = '[registries.b]\nurl = "https://b.example"\n[registries.a]\nurl = "http://127.0.0.1:9/x"\n'
    found = in_order(load(tmp_path, text).config.registries)
    assert [(name, each.url) for name, each in found.items()] == [
        ("b", "https://b.example"),
        ("a", "http://127.0.0.1:9/x"),
        ("official", OFFICIAL_URL),
    ]


def test_the_official_one_can_be_moved_and_mirrored(tmp_path):
    text = '[registries.official]\n[registries.b]\nurl = "https://b.example"\n'
    assert [*in_order(load(tmp_path, text).config.registries)] == ["official", "b"]
    assert in_order({})["official"] == RegistryConfig(url=OFFICIAL_URL)
    mirror = RegistryConfig(url="https://mirror.example")
    assert in_order({"official": mirror}) == {"official": mirror}
    with_header = in_order({"official": RegistryConfig(headers={"A": Secret("b")})})["official"]
    assert (with_header.url, with_header.headers) == (OFFICIAL_URL, {"A": Secret("b")})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[registries.b]\n", "registries.b: needs `url`, the address of the registry"),
        ('[registries.b]\nurl = "http://b.example"\n', "registries.b.url: must be https"),
        ('[registries.b]\nurl = "https://u:p@b.example"\n', "registries.b.url: expected an address such as"),
        ('[registries.b]\nurl = "https://b.example?x=1"\n', "registries.b.url: expected an address such as"),
        ('[registries.b]\nurl = "ftp://b.example"\n', "registries.b.url: expected an address such as"),
        ('[registries.b]\nurl = "https://[b"\n', "registries.b.url: expected an address such as"),
        ('[registries.b]\nurl = "https://b.example:x"\n', "registries.b.url: expected an address such as"),
        ("[registries.b]\nurl = 1\n", "registries.b.url: expected text in quotes, not a whole number"),
        ("[registries.b]\nurl = 'https://b.example'\nheaders = { A = 1 }\n", "registries.b.headers.A: expected text"),
        ('[registries."B c"]\nurl = "https://b.example"\n', 'registries."B c": cannot name a registry'),
        ("[registries]\nb = 1\n", "registries.b: expected a table: write [registries.NAME] above this"),
        ("registries = 1\n", "upstreams.a.registries"),
        (
            "".join(f'[registries.r{n}]\nurl = "https://b.example"\n' for n in range(17)),
            "registries: holds more than 16",
        ),
    ],
)
def test_what_cannot_be_asked_is_said_with_its_place(tmp_path, text, said):
    if said.startswith("upstreams"):
        assert said in "\n".join(map(str, load(tmp_path, text).warnings))
        return
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, text)
    assert said in str(raised.value)


def test_references_are_left_for_the_command_that_asks(tmp_path):
    text = '[registries.b]\nurl = "${NOWHERE}"\nheaders = { Authorization = "Bearer ${secret:NONE}" }\n'
    found = load(tmp_path, text)
    registry = found.config.registries["b"]
    assert (registry.url, registry.headers["Authorization"].reveal()) == ("${NOWHERE}", "Bearer ${secret:NONE}")
    assert [*secrets_of(found.config)] == ["Bearer ${secret:NONE}"]


def test_an_unknown_setting_is_a_warning(tmp_path):
    found = load(tmp_path, '[registries.b]\nurl = "https://b.example"\nulr = "x"\n')
    assert 'registries.b.ulr: ignored: unknown setting; did you mean "url"?' in "\n".join(map(str, found.warnings))


def test_what_is_shown_hides_secrets(tmp_path):
    text = '[registries.b]\nurl = "https://b.example/x"\nheaders = { Authorization = "Bearer abcdef0123456789" }\n'
    load(tmp_path, text)
    rows = hub_settings(gather(tmp_path / "hubd.toml", {"HOME": str(tmp_path)}), defaults=False)
    shown = {".".join(row.keys): row.value for row in rows}
    assert shown["registries.b.url"] == "https://b.example/x"
    assert "abcdef" not in str(shown["registries.b.headers.Authorization"])


def test_the_source_of_a_server_is_a_setting_of_its_own(tmp_path):
    found = load(tmp_path, '[upstreams.b]\ncommand = "true"\nsource = "official:io.github.x/y@1.0.2"\n')
    assert found.config.upstreams["b"].source == "official:io.github.x/y@1.0.2"
