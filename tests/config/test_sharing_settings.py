"""`[cache]`, `[replica]`, `token` and `sealing_key`: what they may be, what is said about them, and what is shown."""

import json
from pathlib import Path

import pytest
from msgspec import structs

from config.diagnostics import ConfigError
from config.diff import difference, pending
from config.loading.assemble import load_all
from config.loading.gather import gather
from config.setting_declarations import Secret
from config.settings import CacheConfig, HubConfig, ReplicaConfig, UpstreamConfig
from config.show.effective import hub_settings, lines

KEY = "c4" * 32
TOKEN = "c4n4ry-c4n4ry-c4n4ry"
END = '\n[upstreams.a]\ncommand = "x"\n'


@pytest.fixture
def file(tmp_path: Path):
    def write(text: str) -> Path:
        path = tmp_path / "hubd.toml"
        path.write_text(text + END)
        return path

    return write


def refusal(path: Path, environ: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_all(path, environ or {})
    texts = [str(each).removeprefix(f"{path}, line ") for each in caught.value.diagnostics]
    assert "c4" not in "".join(texts).replace(str(path.parent), "")
    return texts


def warnings(path: Path) -> list[str]:
    return [str(each).removeprefix(f"{path}, line ") for each in load_all(path, {}).warnings]


# --- what is read -----------------------------------------------------------------------------------------------------


def test_every_setting_arrives_with_its_references_replaced(file, tmp_path):
    (tmp_path / "key").write_text(f"{KEY} {KEY}\n")
    (tmp_path / "redis").write_text("c4n4ry\n")
    path = file("""
        token = "${TOKEN}"
        sealing_key = "${file:key}"
        [cache]
        max_bytes = 1000
        max_entry_bytes = 1000
        max_entries = 5
        stale_if_error_s = 0
        url = "rediss://${HOST:-localhost}:6379/1"
        username = "${WHO}"
        password = "${file:redis}"
        tls_ca = "${CA}/ca.pem"
        [replica]
        name = "${HOSTNAME}"
        url = "http://${ADDRESS}:8765"
    """)
    environ = {"TOKEN": TOKEN, "WHO": "hub", "CA": "certs", "HOSTNAME": "hub1", "ADDRESS": "10.0.0.5"}
    loaded = load_all(path, environ)
    config = structs.replace(loaded.config, upstreams={})
    assert config == HubConfig(
        token=Secret(TOKEN),
        sealing_key=Secret(f"{KEY} {KEY}"),
        cache=CacheConfig(
            max_bytes=1000,
            max_entry_bytes=1000,
            max_entries=5,
            stale_if_error_s=0.0,
            url=Secret("rediss://localhost:6379/1"),
            username="hub",
            password=Secret("c4n4ry"),
            tls_ca=str(tmp_path / "certs/ca.pem"),
        ),
        replica=ReplicaConfig(name="hub1", url="http://10.0.0.5:8765"),
    )
    assert {tmp_path / "key", tmp_path / "redis"} <= set(loaded.files), "a change of these is a change of the whole"
    assert loaded.warnings == ()
    assert loaded.origins["cache", "password"].line == 11
    assert "c4n4ry" not in repr(config)


def test_what_is_not_set_is_said_once_with_its_place(file):
    path = file("""
        token = "${A}"
        [cache]
        url = "redis://${B}:1"
        password = "${file:none}"
        [replica]
        url = "http://${"
    """)
    found = refusal(path)
    assert [text.partition(": ")[0:3:2][0] + " " + text.split(": ")[1] for text in found] == [
        "2 token",
        "4 cache.url",
        "5 cache.password",
        "7 replica.url",
    ]
    assert "the variable A is not set" in found[0]
    assert "cannot read" in found[2]


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[cache]\nmax_bytes = 0", "2: cache.max_bytes: must be above 0; to keep nothing write enabled = false"),
        ("[cache]\nmax_entries = -1", "2: cache.max_entries: must be a number of entries, 0 or more"),
        ("[cache]\nenabled = false\nmax_bytes = -1", "3: cache.max_bytes: must be a number of bytes, 0 or more"),
        (
            "[cache]\nmax_bytes = 9\nmax_entry_bytes = 10",
            "3: cache.max_entry_bytes: is more than the whole cache may hold (max_bytes, 9); lower it, or raise that",
        ),
        ("[cache]\nstale_if_error_s = -1", "2: cache.stale_if_error_s: must be a number of seconds, 0 for not at all"),
        ("[cache]\nstale_if_error_s = inf", "2: cache.stale_if_error_s: must be a number of seconds"),
        (
            '[cache]\nurl = "redis://:c4n4ry@h:1/0"',
            "2: cache.url: holds a user name or password; write them beside it: "
            'username = "...", password = "${file:PATH}"',
        ),
        ('[cache]\nurl = "rediss://h"\nusername = ""', "3: cache.username: is empty; leave it out"),
        ('[cache]\nurl = "rediss://h"\npassword = ""', "3: cache.password: is empty; leave it out if the server asks"),
        (
            '[cache]\nurl = "redis://h"\ntls_ca = "ca.pem"',
            '3: cache.tls_ca: needs a url that begins with "rediss://"; without it there is no TLS',
        ),
        ('[replica]\nname = "hub-1"', "2: replica.name: must be letters and digits, at most 16 of them"),
        (f'[replica]\nname = "{"a" * 17}"', "2: replica.name: must be letters and digits"),
        ('token = "c4n4ry"', "1: token: must be 16 or more letters, digits or characters of ._~+/- without spaces"),
        (f'token = "{TOKEN} x"', "1: token: must be 16 or more"),
        (f'sealing_key = "{KEY[1:]}"', "1: sealing_key: must be 64 hexadecimal digits, and after a space the key"),
        (f'sealing_key = "{KEY} {KEY} {KEY}"', "1: sealing_key: must be 64"),
        # types
        ("token = 5", "1: token: expected text in quotes"),
        ("[cache]\npassword = true", "2: cache.password: expected text in quotes"),
        ('[cache]\nmax_bytes = "c4n4ry"', "2: cache.max_bytes: expected a whole number, not text in quotes"),
        ("[cache]\nenabled = 1", "2: cache.enabled: expected true or false, not a whole number"),
        ("cache = true", "1: cache: expected a table, not true or false"),
        ("[replica]\nname = 1", "2: replica.name: expected text in quotes, not a whole number"),
    ],
)
def test_what_cannot_be_is_said_in_the_words_of_the_file(file, text, expected):
    [found] = refusal(file(text))
    assert found.startswith(expected)


@pytest.mark.parametrize(
    "url",
    [
        "", "c4n4ry", "http://h", "redis://", "redis://h:x", "redis://h:0", "redis://h/x", "redis://h/1/2", "redis:///1",
        "redis://h/0?db=1", "redis://h#c4n4ry", "redis://h h", "unix://", "unix:///", "unix:/run/c4n4ry", "unix://h/run",
        "unix:///run/c4n4ry?db=x", "unix:///run?password=c4n4ry", "redis://[c4n4ry", "valkey://h",
    ],
)  # fmt: skip
def test_addresses_of_no_store_are_refused_and_not_shown(file, url):
    [found] = refusal(file(f'[cache]\nurl = "{url}"'))
    assert found == (
        '2: cache.url: expected "redis://HOST:PORT/DB", "rediss://HOST:PORT/DB" for TLS, or "unix:///path?db=0"'
    )


@pytest.mark.parametrize(
    "url",
    ["redis://h", "redis://h/", "redis://127.0.0.1:6379/15", "rediss://[::1]:6380", "unix:///run/redis.sock?db=2"],
)
def test_addresses_of_stores(file, url):
    path = file(f'sealing_key = "{KEY}"\n[cache]\nurl = "{url}"')
    assert load_all(path, {}).config.cache.url == Secret(url)
    assert warnings(path) == []


@pytest.mark.parametrize(
    "url",
    [
        "h:1",
        "ftp://h",
        "http://",
        "http://h/mcp",
        "http://h/",
        "http://u:c4@h",
        "http://h?x",
        "http://h:0",
        "http://h:x",
    ],
)
def test_replicas_are_found_at_addresses_without_a_path(file, url):
    [found] = refusal(file(f'[replica]\nurl = "{url}"'))
    expected = 'expected the address of this hub without a path, such as "http://10.0.0.5:8765"'
    assert found == f"2: replica.url: {expected}"


def test_all_that_is_wrong_in_a_table_is_said(file):
    found = refusal(file('[cache]\nenabled = "yes"\nmax_bytes = "big"\nmax_entries = -1'))
    assert [text.split(": ")[1] for text in found] == ["cache.enabled", "cache.max_bytes", "cache.max_entries"]


def test_what_is_small_needs_no_second_setting(file):
    assert load_all(file("[cache]\nmax_bytes = 1000"), {}).config.cache.max_bytes == 1000
    assert load_all(file("[cache]\nenabled = false\nmax_bytes = 0\nmax_entries = 0"), {}).warnings == ()


# --- what is doubtful -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[cache]\nmax_byte = 1", '2: cache.max_byte: ignored: unknown setting; did you mean "max_bytes"?'),
        ('[replica]\nnam = "x"', '2: replica.nam: ignored: unknown setting; did you mean "name"?'),
        ("[cache]\nca = 1", '2: cache.ca: ignored: unknown setting; did you mean "tls_ca"?'),
        ("[redis]\nx = 1", '1: redis: ignored: unknown setting; did you mean "cache"?'),
        ("max_bytes = 1", "1: max_bytes: ignored: it is a setting of [cache]; write it below that"),
        (
            "[cache]\nlisten = 1",
            "2: cache.listen: ignored: it is a setting of the whole hub; in hubd.toml it stands above the first"
            " [table]",
        ),
        ('[cache]\npassword = "c4n4ry"', "2: cache.password: has no effect without `url`, the address of the server"),
        (
            f'sealing_key = "{KEY}"\n[cache]\nurl = "redis://h"\nusername = "u"',
            "4: cache.username: has no effect without `password`",
        ),
        (
            '[cache]\nurl = "redis://h"',
            "2: cache.url: serves this hub alone: others find nothing there without `sealing_key`",
        ),
        (f'auth = "none"\ntoken = "{TOKEN}"', '2: token: has no effect with auth = "none"'),
    ],
)
def test_what_works_and_is_not_meant(file, text, expected):
    [found] = warnings(file(text))
    assert found.startswith(expected)
    assert "c4n4ry" not in found


def test_a_table_of_the_hub_in_an_upstream(file):
    [found] = warnings(file('[upstreams.b]\ncommand = "x"\nreplica = {}'))
    assert found == "3: upstreams.b.replica: ignored: it is a table of the whole hub; write [replica] in hubd.toml"


def test_replicas_need_what_they_have_in_common(file):
    secrets = f'token = "{TOKEN}"\nsealing_key = "{KEY}"\n'
    found = warnings(file('listen = "0.0.0.0:8765"\nbehind_tls_proxy = true\n[replica]\nname = "hub1"'))
    assert [text.split("; ")[0] for text in found] == [
        "3: replica: has no effect without [cache] url, the Redis or Valkey in which hubs find each other",
        "3: replica: needs `sealing_key`, the same in all hubs: what one of them sealed no other can open",
        "3: replica: needs `token`, the same in all hubs, or else each asks hosts for its own",
        "3: replica: needs `url`: other hubs cannot find this one at 0.0.0.0:8765",
    ]
    assert warnings(file(f'{secrets}[cache]\nurl = "redis://h"\n[replica]\nname = "hub1"')) == []
    assert (
        warnings(
            file('auth = "none"\n' + secrets.split("\n")[1] + '\n[cache]\nurl = "redis://h"\n[replica]\nname = "a"')
        )
        == []
    )


def test_files_that_may_only_name_upstreams(tmp_path, file):
    path = file("page_size = 1")
    (tmp_path / "upstreams.d").mkdir()
    more = tmp_path / "upstreams.d/more.toml"
    more.write_text(f'token = "{TOKEN}"\n[cache]\nurl = "redis://h"\n')
    with pytest.raises(ConfigError) as caught:
        load_all(path, {})
    text = "is a setting of the whole hub, and this file may only name upstreams; move it to hubd.toml"
    assert [(each.file, each.keys, each.text) for each in caught.value.diagnostics] == [
        (more, ("token",), text),
        (more, ("cache",), text),
    ]


def test_a_host_s_own_file_has_no_settings_of_ours(tmp_path):
    path = tmp_path / "hosts.json"
    path.write_text(json.dumps({"mcpServers": {"a": {"command": "x"}}, "cache": {"max_bytes": 0}, "token": 5}))
    loaded = load_all(path, {})
    assert (loaded.config.cache, loaded.config.token, loaded.warnings) == (CacheConfig(), None, ())


# --- what is shown ----------------------------------------------------------------------------------------------------


@pytest.mark.covers("SEC-61")
def test_secrets_are_masked_where_the_configuration_is_shown(file):
    text = f"""\
token = "{TOKEN}"
sealing_key = "${{KEY}}"
[cache]
max_entries = 5
url = "redis://:c4n4ry@h/1"
password = "${{file:p}}c4n4ry"
"""
    gathered = gather(file(text), {})
    shown = [line.split("  # ")[0].rstrip() for line in lines(hub_settings(gathered, defaults=False), ())]
    assert shown == [
        'token = "***"',
        'sealing_key = "${KEY}"',
        "cache.max_entries = 5",
        'cache.url = "redis://***@h/1"',
        'cache.password = "***"',
    ]
    [*everything] = lines(hub_settings(gathered, defaults=True), ())
    rows = [" ".join(line.split()) for line in everything]
    assert "cache.max_bytes = 67108864 # default" in rows
    assert 'replica.name = "" # default' in rows
    assert not any(row.startswith(("cache.username", "cache =", "replica =")) for row in rows)
    assert "c4n4ry" not in "".join(rows)


# --- what a change means ----------------------------------------------------------------------------------------------


def test_settings_of_tables_differ_one_by_one():
    old = HubConfig(cache=CacheConfig(max_bytes=1, password=Secret("c4n4ry")))
    new = HubConfig(cache=CacheConfig(max_bytes=2), replica=ReplicaConfig(name="a"), token=Secret(TOKEN), page_size=1)
    found = difference(old, new)
    assert found.settings == ("page_size", "token", "cache.max_bytes", "cache.password", "replica.name")
    assert "c4n4ry" not in f"{found!r}{found}"
    assert pending(old, new) == ("cache.password", "replica.name")
    assert pending(new, new) == ()
    assert pending(HubConfig(), HubConfig(startup_grace_s=1, sealing_key=Secret(KEY), drain_s=1)) == (
        "startup_grace_s",
        "sealing_key",
    )


def test_whether_an_upstream_is_cached_needs_no_other_process():
    old = UpstreamConfig(command="x")
    found = difference(HubConfig(upstreams={"a": old}), HubConfig(upstreams={"a": structs.replace(old, cache=False)}))
    assert found.changed["a"].settings == ("cache",)
    assert not found.changed["a"].replaces


@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        ("url = 'https://notes.example/mcp'", False),
        ("url = 'https://notes.example/mcp'\noauth.client_id = 'hub'", True),
        ("url = 'https://notes.example/mcp'\noauth.account = 'each'", True),
        ("url = 'https://notes.example/mcp'\ndisabled = true\noauth.account = 'each'", False),
        ("url = 'https://notes.example/mcp'\noauth.grant = 'none'", False),
        (
            "url = 'https://notes.example/mcp'\noauth = { grant = 'client_credentials', client_id = 'hub', "
            "client_secret = 's3', issuer = 'https://id.example' }",
            False,
        ),
    ],
)
def test_replicas_do_not_share_what_people_sign_in_for(file, settings, refused):
    secrets = f'token = "{TOKEN}"\nsealing_key = "{KEY}"\n'
    path = file(f'{secrets}[replica]\nname = "hub1"\n[upstreams.notes]\n{settings}')
    if refused:
        [found] = refusal(path)
        assert "upstreams.notes.oauth: has people sign in, and hubs with [replica] do not share sign-ins" in found
    else:
        load_all(path, {})
