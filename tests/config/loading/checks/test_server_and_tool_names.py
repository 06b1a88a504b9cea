"""Other names of tools in files: what cannot be one, and where that is said."""

from pathlib import Path

import pytest

from config.diagnostics import ConfigError
from config.loading.assemble import load_all
from config.projects import load_project
from config.settings import HubConfig

pytestmark = pytest.mark.covers("EP-11")


def load(directory, text):
    path = Path(directory, "hubd.toml")
    path.write_text(text)
    return load_all(path, {}).config


def refused(directory, text):
    with pytest.raises(ConfigError) as raised:
        load(directory, text)
    return str(raised.value)


def server(rename, name="files", more=""):
    return f'[upstreams.{name}]\ncommand = "x"\n{more}rename = {{ {rename} }}\n'


def test_both_are_read(tmp_path):
    text = server('read_text_file = "read"', more='describe = { read_text_file = "Reads it." }\n')
    files = load(tmp_path, text).upstreams["files"]
    assert files.rename == {"read_text_file": "read"}
    assert files.describe == {"read_text_file": "Reads it."}


@pytest.mark.parametrize(
    ("rename", "said"),
    [
        ('a = ""', '"" cannot name a tool'),
        ('a = "1st"', "cannot name a tool: a letter, then"),
        ('a = "a b"', "cannot name a tool"),
        ('a = "ä"', "cannot name a tool"),
        ('a = "hub__x"', 'begins with "hub__"'),
        ('a = "x", b = "x"', '"x" is the new name of "a" already'),
        (f'a = "{"x" * 44}"', "has 44 characters, and the visible name has room for 43 (name_budget)"),
        ("a = 5", "expected"),
    ],
)
def test_what_cannot_be_a_name_is_said_with_its_line(tmp_path, rename, said):
    text = refused(tmp_path, server(rename))
    assert said in text
    assert f"{tmp_path}/hubd.toml, line 3: upstreams.files.rename" in text


def test_the_longest_name_that_fits(tmp_path):
    assert load(tmp_path, server(f'a = "{"x" * 43}"'))
    rename = f'a = "{"x" * 58}"'
    assert "room for 57" in refused(tmp_path, f"name_budget = 64\n{server(rename)}")
    assert load(tmp_path, server(f'a = "{"x" * 50}"', more='prefix = ""\n'))
    long = "a" * 32
    assert load(tmp_path, server(f'a = "{"x" * 16}"', long))
    assert "room for 16" in refused(tmp_path, server(f'a = "{"x" * 17}"', long))


def test_bare_names_do_not_take_those_of_another_server(tmp_path):
    other = '[upstreams.mail]\ncommand = "x"\naliases = ["post"]\n'
    bare = 'prefix = ""\n'
    assert 'tools of "mail" have' in refused(tmp_path, server('a = "mail__send"', more=bare) + other)
    assert 'tools of "mail" have' in refused(tmp_path, server('a = "post__send"', more=bare) + other)
    assert load(tmp_path, server('a = "other__send", b = "mail"', more=bare) + other)
    assert load(tmp_path, server('a = "mail__send"') + other)


def test_a_project_may_say_it_and_a_file_of_a_host_may_not(tmp_path):
    (tmp_path / ".hubd.toml").write_text(server('a = "b"'))
    project = load_project(tmp_path, {}, HubConfig())
    assert project.upstreams["files"].rename == {"a": "b"}
    (tmp_path / "upstreams.d").mkdir()
    (tmp_path / "upstreams.d" / "host.json").write_text('{"mcpServers": {"x": {"command": "x", "rename": {"a": "b"}}}}')
    assert load(tmp_path, 'include = ["upstreams.d/*"]').upstreams["x"].rename == {}


def test_defaults_have_none(tmp_path):
    (tmp_path / "hubd.toml").write_text('[defaults]\nrename = { a = "b" }\n[upstreams.x]\ncommand = "x"\n')
    loaded = load_all(tmp_path / "hubd.toml", {})
    assert loaded.config.upstreams["x"].rename == {}
    assert any("rename" in str(warning) for warning in loaded.warnings)
