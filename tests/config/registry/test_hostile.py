"""What a publisher may not do: each is refused as a whole, with the reason, or becomes plain text."""

import copy
import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.loading.variables import Variables
from config.registry.entry_of_answers import about, check_answer, default_of
from config.registry.places_to_fill import Piece, all_asked, as_setting, fill_template
from config.registry.server_json import (
    Unreadable,
    list_path,
    one_line,
    read_listed,
    read_page,
    read_server,
    versions_path,
)
from config.registry.ways_to_run import ways_of
from tests.support.registry_entries import EXAMPLES, absolute, example, made, way_of
from tests.support.tables import each_row


def npm(**more):
    package = {"registryType": "npm", "identifier": "pkg", "version": "1.0.0", "transport": {"type": "stdio"}}
    return {"name": "io.x/y", "description": "", "version": "1.0.0", "packages": [package | more]}


def pypi(**more):
    return npm(registryType="pypi", **more)


def oci(**more):
    return npm(registryType="oci", **{"identifier": "docker.io/x/y:1.0.0"} | more)


def remote(**more):
    found = {"type": "streamable-http", "url": "https://x.example/mcp"} | more
    return {"name": "io.x/y", "description": "", "version": "1.0.0", "remotes": [found]}


def named(name, value=None, **more):
    return {"type": "named", "name": name} | ({} if value is None else {"value": value}) | more


def positional(value, **more):
    return {"type": "positional", "value": value} | more


def run(*arguments):
    return {"runtimeArguments": list(arguments)}


def variable(name, value="x", **more):
    return {"environmentVariables": [{"name": name, "value": value} | more]}


TYPED = {"p": {"format": "filepath", "isRequired": True}}
BY_HAND = "add it by hand if you trust it"
HOSTILE = [
    (oci(**run(named("--privileged"))), f"it asks the container for --privileged; {BY_HAND}"),
    (oci(**run(positional("--privileged"))), "it asks the container for --privileged"),
    (oci(**run(named("--network", "host"))), "it asks the container for --network host"),
    (oci(**run(named("--net=host"))), "it asks the container for --net=host"),
    (oci(**run(named("-v", "/:/x"))), "it asks the container for -v /:/x"),
    (oci(**run(named("-v", "{p}:/x", variables=TYPED))), "it asks the container for -v"),
    (oci(**run(named("--device", "/dev/mem"))), "it asks the container for --device /dev/mem"),
    (oci(**run(named("--pid", "host"))), "it asks the container for --pid host"),
    (oci(**run(named("--cap-add", "ALL"))), "it asks the container for --cap-add ALL"),
    (oci(**run(named("--entrypoint", "sh"))), "it asks the container for --entrypoint sh"),
    (oci(**run(named("--env-file", "/etc/passwd"))), "it asks the container for --env-file"),
    (oci(**run(named("-i", "x"))), "it asks the container for -i x"),
    (oci(**run(named("-it"))), "it asks the container for -it"),
    (oci(**run(positional("evil/image"))), "it asks the container for evil/image"),
    (oci(**run({"type": "positional", "valueHint": "x"})), "it asks the container for an empty argument"),
    (
        oci(**run(named("--mount", "type=bind,src=/,dst=/x"))),
        "it asks the container for --mount type=bind,src=/,dst=/x",
    ),
    (oci(**run(named("--mount", "type=bind,src={p},dst=/x"))), "it asks the container for --mount"),
    (
        oci(**run(named("--mount", "type=bind,src={p},dst=/x", variables={"p": {"value": "/"}}))),
        "it asks the container for --mount",
    ),
    (
        oci(**run(named("--mount", "type=bind,src={p},dst={t}", variables={**TYPED, "t": {"value": "/x,src=/"}}))),
        "it asks the container for --mount",
    ),
    (npm(registryType="cargo", identifier="x;reboot"), "packages of cargo are not run from a registry"),
    (npm(registryType="a\nhubd: done"), "packages of a hubd: done are not run from a registry"),
    (npm(registryBaseUrl="https://x.example/\nhubd: done"), "its package comes from https://x.example/ hubd: done;"),
    (oci(**run(named("--mount", "type=bind,src=/{p},dst=/x", variables=TYPED))), "it asks the container for --mount"),
    (oci(**run(named("--mount", "type=bind,src={p}/..,dst=/x", variables=TYPED))), "it asks the container for --mount"),
    (oci(**run(named("--mount", "type=volume,src={p},dst=/x", variables=TYPED))), "it asks the container for --mount"),
    (oci(**run(named("--mount", "src={p},dst=/x", variables=TYPED))), "it asks the container for --mount"),
    (
        oci(**run(named("--mount", "type=bind,src={p},source=/,dst=/x", variables=TYPED))),
        "it asks the container for --mount",
    ),
    (
        oci(**run(named("--mount", "type=bind,src={p},dst=/x,bind-propagation=shared", variables=TYPED))),
        "it asks the container for --mount",
    ),
    (oci(**run(named("--mount", "type=bind,src={p},dst=/x,ro=no", variables=TYPED))), "it asks the container for"),
    (oci(**run(named("--mount", "type=bind,src={p}", variables={"": {}}))), "it asks the container for --mount"),
    (oci(**run(named("--mount", "type=bind,src={},dst=/x", variables={"": {}}))), "it asks the container for --mount"),
    (oci(**run(named("-e", "LD_PRELOAD=/x.so"))), "it sets LD_PRELOAD, which decides which code runs"),
    (oci(**run(named("-e", "A B=1"))), "a variable has a name that no variable can have"),
    (oci(identifier="docker.io/x/y", version=""), "its image names neither a version nor a digest"),
    (oci(identifier="docker.io/x/y:latest"), "its image names neither a version nor a digest"),
    (oci(identifier="--privileged"), "its identifier is no image of a container"),
    (oci(identifier="x/y:1 --privileged"), "its identifier is no image of a container"),
    (oci(identifier="x/y:1", registryBaseUrl="https://evil.example"), "its package comes from https://evil.example"),
    (npm(**run(named("--registry", "https://evil.example"))), "it asks npx for --registry"),
    (npm(**run(named("--registry=https://evil.example"))), "it asks npx for --registry=https://evil.example"),
    (npm(**run(positional("-c"), positional("rm -rf ~"))), "it asks npx for -c"),
    (npm(**run(named("--package", "evil"))), "it asks npx for --package"),
    (npm(**run(named("-y", "evil"))), "it asks npx for evil"),
    (npm(**run(positional("{p}", variables=TYPED))), "it asks npx for {p}"),
    (npm(**run({"type": "positional", "valueHint": "x", "isRequired": True})), "it asks npx for an empty argument"),
    (npm(registryBaseUrl="https://evil.example/npm"), "its package comes from https://evil.example/npm"),
    (npm(identifier="../evil"), "its identifier is no name of a package of npm"),
    (npm(identifier="github:evil/x"), "its identifier is no name of a package of npm"),
    (npm(identifier="evil/x"), "its identifier is no name of a package of npm"),
    (npm(identifier="https://evil.example/x.tgz"), "its identifier is no name of a package of npm"),
    (npm(identifier="-c"), "its identifier is no name of a package of npm"),
    (npm(identifier="pkg@file:x"), "its identifier is no name of a package of npm"),
    (npm(version="latest"), "it names no exact version of its package"),
    (npm(version="^1.0.0"), "it names no exact version of its package"),
    (npm(version="1.x"), "it names no exact version of its package"),
    (npm(version="1.0"), "it names no exact version of its package"),
    (npm(version="npm:evil@1.0.0"), "it names no exact version of its package"),
    (npm(version=""), "it names no exact version of its package"),
    (pypi(identifier="git+https://evil.example/x"), "its identifier is no name of a package of PyPI"),
    (pypi(identifier="--from"), "its identifier is no name of a package of PyPI"),
    (pypi(identifier="pkg @ https://evil.example"), "its identifier is no name of a package of PyPI"),
    (pypi(version=">=1"), "it names no exact version of its package"),
    (pypi(version="1.*"), "it names no exact version of its package"),
    (pypi(version="latest"), "it names no exact version of its package"),
    (pypi(**run(named("--from", "evil"))), "it asks uvx for --from evil"),
    (pypi(**run(named("--from", "git+https://evil.example"))), "it asks uvx for --from git+https://evil.example"),
    (pypi(**run(named("--with", "evil"))), "it asks uvx for --with evil"),
    (pypi(**run(named("--from", "pkg"), named("--with", "evil"))), "it asks uvx for --from pkg --with evil"),
    (pypi(**run(named("--index-url", "https://evil.example"))), "it asks uvx for --index-url"),
    (npm(transport={"type": "streamable-http", "url": "http://localhost:1"}), "its package serves HTTP and not stdio"),
    *(
        (npm(**variable(name)), f"it sets {name}, which decides which code runs; {BY_HAND}")
        for name in (
            *("LD_PRELOAD", "LD_LIBRARY_PATH", "NODE_OPTIONS", "PYTHONPATH", "PYTHONSTARTUP", "PATH", "HOME"),
            *("Path", "npm_config_registry", "NPM_CONFIG_REGISTRY", "UV_INDEX_URL", "PIP_INDEX_URL", "HTTPS_PROXY"),
            *("DOCKER_HOST", "NODE_TLS_REJECT_UNAUTHORIZED", "GIT_SSH_COMMAND", "BASH_ENV", "HUBD_RUNTIME_DIR"),
            *("GIT_EXTERNAL_DIFF", "GIT_PAGER", "PAGER", "BROWSER", "OPENSSL_CONF", "JDK_JAVA_OPTIONS", "LUA_INIT_5_4"),
            *("DOTNET_STARTUP_HOOKS", "CORECLR_PROFILER_PATH", "COR_PROFILER", "PERLLIB"),
        )
    ),
    (npm(environmentVariables=[{"name": "PATH", "default": "/evil"}]), "it sets PATH, which decides"),
    (npm(**variable("PATH", "{p}", variables={"p": {"value": "/evil"}})), "it sets PATH, which decides"),
    (npm(**variable("A=B")), "a variable has a name that no variable can have"),
    (npm(**variable("A\nB")), "the name of an option, variable or header holds characters that cannot be printed"),
    (npm(environmentVariables=[{"name": "A", "value": "1"}] * 2), "it sets a variable twice"),
    (npm(packageArguments=[positional("a\x1b[2Jb")]), "a fixed value holds characters that cannot be printed"),
    (npm(packageArguments=[positional("a\u202eb")]), "a fixed value holds characters that cannot be printed"),
    (npm(packageArguments=[positional("a\0b")]), "a fixed value holds characters that cannot be printed"),
    (npm(**variable("A", "x\ny")), "a fixed value holds characters that cannot be printed"),
    (npm(environmentVariables=[{"name": "A", "default": "\x1b"}]), "a default holds characters that cannot be printed"),
    (npm(environmentVariables=[{"name": "A", "choices": ["\x07"]}]), "a choice holds characters that cannot be"),
    (
        npm(packageArguments=[{"type": "positional", "valueHint": f"h{n}"} for n in range(65)]),
        "it would ask for more than 64 values",
    ),
    (remote(type="ws"), "it speaks ws, which is neither streamable-http nor sse"),
    (remote(url="https://x.example/\u202emcp"), "its address holds characters that cannot be printed"),
    (remote(headers=[{"name": "Host", "value": "x"}]), "it sets the header Host, which is the connection's own"),
    (remote(headers=[{"name": "Mcp-Session-Id", "value": "x"}]), "it sets the header Mcp-Session-Id"),
    (remote(headers=[{"name": "A: b", "value": "x"}]), "a header has a name that no header can have"),
    (remote(headers=[{"name": "A", "value": "b\r\nC: d"}]), "a fixed value holds characters that cannot be printed"),
    (remote(headers=[{"name": "A"}, {"name": "a"}]), "it sets a header twice"),
]


@pytest.mark.covers("ER-4")
@each_row("entry, why", HOSTILE)
def test_what_a_publisher_may_not_ask_for(entry, why):
    [way] = ways_of(read_server(entry))
    assert why in way.why
    assert not way.command
    assert not way.slots


def test_only_what_may_be_pasted_is_proposed():
    [way] = ways_of(read_server(npm(registryType="cargo", identifier="x;reboot")))
    assert "reboot" not in way.why
    [way] = ways_of(read_server(npm(registryType="cargo", identifier="mcp-x")))
    assert "`cargo install mcp-x --version 1.0.0`" in way.why


def test_an_address_is_a_url():
    for url in ("file:///etc/passwd", "x", "//x.example", "javascript:alert(1)", "ftp://x.example"):
        with pytest.raises(ValueError, match="its address is no URL"):
            made(read_server(remote(url=url)), {})


def test_what_a_user_types_may_be_such_a_variable():
    entry = npm(environmentVariables=[{"name": "PYTHONPATH", "isRequired": True}])
    assert made(read_server(entry), {"PYTHONPATH": "/mine"})["env"] == {"PYTHONPATH": "/mine"}


def test_what_is_there_anyway_is_not_asked_for_twice():
    harmless = run(named("-y"), positional("--yes"))
    assert made(read_server(npm(**harmless)), {})["args"] == ["-y", "pkg@1.0.0"]
    for value in ("pkg", "pkg==1.0.0", "pkg@1.0.0"):
        found = made(read_server(pypi(**run(named("--from", value)))), {})
        assert found["args"] == ["--from", "pkg==1.0.0", "pkg"]
        assert made(read_server(pypi(**run(named(f"--from={value}")))), {}) == found
    assert made(read_server(oci(**run(named("--rm"), named("-i", ""), positional("--init")))), {})["args"] == [
        *("run", "--rm", "-i", "--init", "docker.io/x/y:1.0.0")
    ]


def test_a_hint_never_chooses_another_program():
    for hint in ("bash", "/tmp/evil", "npx -c evil", "docker", "uvx"):
        assert made(read_server(npm(runtimeHint=hint)), {})["command"] == "npx"
    assert made(read_server(pypi(runtimeHint="npx")), {})["command"] == "uvx"
    assert made(read_server(oci(runtimeHint="sh")), {})["command"] == "docker"


def test_a_version_that_is_in_no_tag_is_added():
    assert made(read_server(oci(identifier="redis:7")), {})["args"][-1] == "redis:7"
    assert made(read_server(oci(identifier="localhost:5000/x", version="2")), {})["args"][-1] == "localhost:5000/x:2"


# --- references -------------------------------------------------------------------------------------------------------


def test_references_of_a_publisher_are_plain_text():
    entry = npm(
        packageArguments=[positional("${HOME}"), named("--a", "${file:/etc/passwd}"), named("-${X}", "y")],
        **variable("A", "${secret:GITHUB_TOKEN}"),
    )
    found = made(read_server(entry), {})
    assert found["args"][2:] == ["$${HOME}", "--a=$${file:/etc/passwd}", "-$${X}", "y"]
    assert found["env"] == {"A": "$${secret:GITHUB_TOKEN}"}


@pytest.mark.covers("ER-4")
def test_no_reference_comes_together_where_texts_meet():
    fixed = {"v": {"value": "{secret:GITHUB_TOKEN}"}, "d": {"default": "{HOME}"}}
    entry = npm(packageArguments=[positional("$" + "{v}", variables=fixed), positional("${d}", variables=fixed)])
    assert made(read_server(entry), {})["args"][2:] == ["$${secret:GITHUB_TOKEN}", "$${HOME}"]


def test_an_answer_may_be_a_reference_and_is_never_read_as_a_template():
    entry = npm(packageArguments=[positional("{a}/{b}", variables={"a": {}, "b": {}})])
    assert made(read_server(entry), {"a": "${HOME}", "b": "{a}"})["args"][2:] == ["${HOME}/{a}"]


PIECES = st.lists(st.builds(Piece, st.text("${}ab:", max_size=6), st.just(False)), max_size=6)


@given(PIECES)
def test_what_nobody_typed_means_itself(pieces):
    variables = Variables({"a": "WRONG", "b": "WRONG"}, Path("/"))
    assert variables.expand(as_setting(pieces)) == "".join(piece.text for piece in pieces)


@given(st.text("{}ab$", max_size=20), st.text("{}ab$", max_size=6))
def test_an_answer_stands_as_it_is_where_its_name_was(template, answer):
    whole = "".join(piece.text for piece in fill_template(template, {"a": Piece(answer)}))
    assert whole == template.replace("{a}", answer) if answer != "{a}" else True


# --- answers ----------------------------------------------------------------------------------------------------------


def asked_of(**more):
    [found] = all_asked(way_of(read_server(npm(environmentVariables=[{"name": "A", **more}]))).slots)
    return found


@pytest.mark.parametrize(
    ("input", "text", "used"),
    [
        ({}, "x y", "x y"),
        ({"choices": ["a", "b"]}, "b", "b"),
        ({"format": "number"}, "-0.5", "-0.5"),
        ({"format": "boolean"}, "Yes", "true"),
        ({"format": "boolean"}, "0", "false"),
        ({"format": "filepath"}, "~/x", "/home/me/x"),
        ({"format": "number"}, "${PORT}", "${PORT}"),
        ({"format": "colour"}, "red", "red"),
    ],
)
def test_answers_that_will_do(input, text, used):
    assert check_answer(*asked_of(**input), text, absolute) == used


@pytest.mark.parametrize(
    ("input", "text", "why"),
    [
        ({"choices": ["a", "b"]}, "c", "one of a, b"),
        ({"format": "number"}, "1e5x", "a number"),
        ({"format": "boolean"}, "maybe", "true or false"),
        ({}, "", "it is empty"),
        ({}, "a\nb", "control characters"),
        ({}, "a\0b", "control characters"),
        ({}, "x" * 8193, "longer than 8192"),
    ],
)
def test_answers_that_will_not_do(input, text, why):
    with pytest.raises(ValueError, match=why):
        check_answer(*asked_of(**input), text, absolute)


@pytest.mark.parametrize("path", ["/a,dst=/etc", '/a"b', "/a$b", "${HOME}"])
def test_a_folder_of_a_container_is_one_folder(path):
    [source, _] = all_asked(way_of(example("filesystem"), 1).slots[:1])
    with pytest.raises(ValueError, match="without commas"):
        check_answer(*source, path, absolute)


def test_a_default_that_will_not_do_is_none():
    assert default_of(*asked_of(default="x", choices=["a"]), absolute) == ""
    assert default_of(*asked_of(default="x", isSecret=True), absolute) == ""
    mount = oci(**run(named("--mount", "type=bind,src={p},dst=/x", variables={"p": {"default": "/"}})))
    [found] = all_asked(way_of(read_server(mount)).slots)
    assert default_of(*found, absolute) == ""


@pytest.mark.parametrize("default", ["/data,src=/,dst=/host", "/data,src=/,dst=/host${x}", "${x}"])
def test_a_default_makes_no_other_mount(default):
    variables = {"p": TYPED["p"], "t": {"default": default}}
    mount = oci(**run(named("--mount", "type=bind,src={p},dst={t}", variables=variables)))
    found = {asked.key: (slot, asked) for slot, asked in all_asked(way_of(read_server(mount)).slots)}
    assert default_of(*found["t"], absolute) == ""


def test_what_is_asked_is_described():
    _, asked = asked_of(description=" two\n lines ", choices=["a", "b"], placeholder="a")
    assert about(asked) == "two lines; one of a, b; such as a"
    assert about(asked_of(format="number")[1]) == "a number"


# --- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        "x",
        {},
        {"name": "x", "version": "1"},
        {"name": "a/b", "version": "1", "packages": {}},
        {"name": "a/b", "version": "1", "packages": [{}] * 33},
        {"name": "a/b", "version": "1", "description": 5},
        {"name": "a/b", "version": "1", "description": "x" * 9000},
        {"name": "a b/c", "version": "1"},
        {"name": "a/b", "version": "1.x"},
        {"name": "a/b", "version": "latest"},
        {"name": "a/b", "version": "1@2"},
        npm(packageArguments=[{"type": "other"}]),
        npm(packageArguments=[{"type": "positional", "value": "x"}] * 129),
        npm(packageArguments=[positional("x", variables={f"v{n}": {} for n in range(65)})]),
        npm(environmentVariables=[{"value": "x"}]),
        npm(environmentVariables=[{"name": "A", "choices": ["x"] * 257}]),
    ],
)
def test_what_is_no_server_json(value):
    with pytest.raises(Unreadable):
        read_server(value)


def test_null_is_absent_and_depth_has_an_end():
    entry = npm(packageArguments=None, environmentVariables=[{"name": "A", "choices": None, "default": None}])
    assert read_server(entry).packages[0].environment_variables[0].choices == ()
    deep: list = []
    for _ in range(500):
        deep = [deep]
    assert read_server(npm() | {"_meta": deep, "icons": deep}).name == "io.x/y"
    with pytest.raises(Unreadable):
        read_listed({"server": deep})


def test_a_page_leaves_out_what_cannot_be_read():
    official = {
        "status": "deprecated",
        "statusMessage": "use 2.0",
        "publishedAt": "2026-03-02T01:02:03Z",
        "isLatest": True,
    }
    meta = {"io.modelcontextprotocol.registry/official": official}
    page = read_page(
        {"servers": [{"server": npm(), "_meta": meta}, {"server": {}}, 5], "metadata": {"nextCursor": "c"}}
    )
    [listed] = page.servers
    assert (listed.status, listed.message, listed.published, listed.is_latest) == (
        "deprecated",
        "use 2.0",
        "2026-03-02",
        True,
    )
    assert (page.unreadable, page.next_cursor) == (2, "c")
    assert read_page({"servers": None}).servers == ()
    assert read_page({"servers": [], "metadata": {"nextCursor": "x" * 3000}}).next_cursor == ""
    assert read_listed({"server": npm(), "_meta": {"io.modelcontextprotocol.registry/official": 5}}).status == "active"
    for value in ({"servers": 5}, {"servers": [{}] * 1001}):
        with pytest.raises(Unreadable):
            read_page(value)


def test_names_are_quoted_in_paths():
    assert versions_path("a/b", "1.0+x") == "/v0.1/servers/a%2Fb/versions/1.0%2Bx?include_deleted=true"
    assert versions_path("a/b") == "/v0.1/servers/a%2Fb/versions?include_deleted=true"
    assert list_path("a&b", "c=d") == "/v0.1/servers?search=a%26b&version=latest&limit=100&cursor=c%3Dd"


def test_long_texts_are_shortened():
    assert one_line("a\n\tb") == "a b"
    assert len(one_line("x" * 500)) == 200


def test_examples_stay_readable_after_a_round_trip():
    for each in EXAMPLES.values():
        server = read_server(copy.deepcopy(each))
        assert read_server(json.loads(msgspec.json.encode(server))) == server
