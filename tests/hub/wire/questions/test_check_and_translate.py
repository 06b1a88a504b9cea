"""Questions and answers between every two revisions: capabilities, translation to the host, translation back."""

import json
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.bridge.sealed_request_state import input_required
from hub.wire.capabilities import (
    capabilities_for_upstream,
    capabilities_of_session,
    capabilities_of_shared_session,
    covers,
    initialize_params,
)
from hub.wire.jsonrpc import RemoteProtocolError, Result, encode_request, encode_response, raw
from hub.wire.mcp import ALL_VERSIONS, L1, L2, L3, L4, LEGACY_VERSIONS, MODERN
from hub.wire.questions.askable_questions import (
    MAX_ITEMS,
    Question,
    QuestionRefusal,
    Unanswered,
    check_capabilities,
    reply_without_answer,
)
from hub.wire.questions.check_and_translate import answer_for_upstream, question_for_host
from hub.wire.total_item_limit import SMALL_BYTES
from tests.support.schemas import _check, validate

ELICIT, SAMPLE, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"
UI = {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}
TASKS = {"io.modelcontextprotocol/tasks": {}}


def members(**values):
    return {name: raw(value) for name, value in values.items()}


def plain(values):
    return {name: json.loads(bytes(value)) for name, value in values.items()}


def question(method, version=MODERN, **params):
    return Question(method, members(**params), "files", version)


def form(properties, version=MODERN, required=(), **more):
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return question(ELICIT, version, message="Which?", requestedSchema=schema, **more)


def sample(*content, version=MODERN, **more):
    messages = [{"role": "user", "content": each} for each in content]
    return question(SAMPLE, version, messages=messages, maxTokens=10, **more)


def put(asked, host_version):
    """The params as the host gets them, judged by the schema of its revision."""
    params = question_for_host(asked, host_version)
    if host_version == MODERN:
        result = input_required({"q1": raw({"method": asked.method, "params": params})}, "sealed")
        validate(encode_response(1, Result(result.value)), MODERN, sender="server", method="tools/call")
        request = json.loads(bytes(result.value))["inputRequests"]["q1"]
        name = {ELICIT: "ElicitRequest", SAMPLE: "CreateMessageRequest", ROOTS: "ListRootsRequest"}[asked.method]
        _check(request, MODERN, name)
    else:
        validate(encode_request(1, asked.method, params), host_version, sender="server")
    return plain(params)


def answered(asked, answer, host_version=MODERN):
    """The answer as the upstream gets it, judged by the schema of its revision."""
    value = answer_for_upstream(asked, raw(answer), host_version)
    if asked.version == MODERN:
        params = {"name": "t", "inputResponses": {"q1": json.loads(bytes(value))}, "_meta": META}
        validate(encode_request(1, "tools/call", members(**params)), MODERN, sender="client")
    else:
        validate(encode_response(1, Result(value)), asked.version, sender="client", method=asked.method)
    return json.loads(bytes(value))


META = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}


def refusal(asked, host_version=MODERN, capabilities=None):
    """The code of the upstream's failure."""
    try:
        if capabilities is None:
            question_for_host(asked, host_version)
        else:
            check_capabilities(asked, members(**capabilities))
    except QuestionRefusal as refused:
        return refused.failure.code
    return None


# --- capabilities -----------------------------------------------------------------------------------------------------

EVERYTHING = {
    "roots": {"listChanged": True},
    "sampling": {"tools": {}, "context": {}},
    "elicitation": {"form": {}, "url": {}, "telepathy": {}},
    "tasks": {"list": {}},
    "experimental": {"x": {}},
    "extensions": {**UI, "com.example/x": {}},
    "unknown": 1,
}


@pytest.mark.covers("G-9", "X-10", "X-23")
def test_a_modern_upstream_hears_what_the_host_can_do_and_the_hub_can_bridge():
    assert plain(capabilities_for_upstream(members(**EVERYTHING))) == {
        "roots": {},
        "sampling": {"tools": {}},
        "elicitation": {"form": {}, "url": {}},
        "extensions": {**UI, **TASKS},
    }
    assert plain(capabilities_for_upstream({})) == {"extensions": TASKS}
    assert plain(capabilities_for_upstream({}, absorbs_tasks=False)) == {}
    assert plain(capabilities_for_upstream(members(elicitation={}), absorbs_tasks=False)) == {"elicitation": {}}
    theirs = members(extensions={"io.modelcontextprotocol/tasks": {"x": 1}})
    assert plain(capabilities_for_upstream(theirs)) == {"extensions": {"io.modelcontextprotocol/tasks": {"x": 1}}}
    assert plain(capabilities_for_upstream(theirs, absorbs_tasks=False)) == {}


def test_features_can_be_kept_back():
    kept = capabilities_for_upstream(members(**EVERYTHING), client_features="none", absorbs_tasks=False)
    assert plain(kept) == {"extensions": UI}


def test_large_capabilities_are_not_remembered():
    large = members(extensions={"io.modelcontextprotocol/ui": {"x": "x" * 5000}})
    assert capabilities_for_upstream(large) is not capabilities_for_upstream(large)
    small = members(**EVERYTHING)
    assert capabilities_for_upstream(small) is capabilities_for_upstream(members(**EVERYTHING))


def test_a_session_of_ones_own_declares_what_its_host_can_do():
    assert plain(capabilities_of_session(members(**EVERYTHING))) == {
        "roots": {"listChanged": True},
        "sampling": {"tools": {}},
        "elicitation": {"form": {}, "url": {}},
        "extensions": UI,
    }
    assert plain(capabilities_of_session(members(roots={}))) == {"roots": {}}
    assert capabilities_of_session({}) == {}


@pytest.mark.covers("G-11")
def test_a_shared_session_never_declares_roots():
    assert "roots" not in capabilities_of_shared_session()
    assert {"sampling", "elicitation"} <= capabilities_of_shared_session().keys()
    assert capabilities_of_shared_session()["sampling"] == raw(
        {"tools": {}}
    )  # who has none is protected by `check_capabilities`


@pytest.mark.parametrize("declared", [capabilities_of_shared_session(), capabilities_of_session(members(**EVERYTHING))])
@pytest.mark.parametrize("version", LEGACY_VERSIONS)
def test_what_is_declared_is_valid(declared, version):
    validate(encode_request(1, "initialize", initialize_params(version, declared)), version, sender="client")


@pytest.mark.parametrize(
    ("declared", "needed", "enough"),
    [
        ({}, {}, True),
        ({"roots": {}}, {}, True),
        ({}, {"roots": {}}, False),
        ({"elicitation": {"form": {}}}, {"elicitation": {}}, True),
        ({"elicitation": {}}, {"elicitation": {"form": {}}}, True),
        ({"elicitation": {}}, {"elicitation": {"url": {}}}, False),
        ({"elicitation": {"url": {}}}, {"elicitation": {}}, False),
        ({"sampling": {}}, {"sampling": {"tools": {}}}, False),
        ({"sampling": {"tools": {}}}, {"sampling": {"context": {}}}, True),
        ({"roots": {}}, {"roots": {}, "experimental": {"x": {}}, "tasks": {}}, True),
        ({}, {"extensions": UI}, False),
    ],
)
def test_a_session_serves_hosts_that_can_do_no_more_than_it_declared(declared, needed, enough):
    assert covers(members(**declared), members(**needed)) is enough


# --- who can be asked -------------------------------------------------------------------------------------------------

TEXT = {"type": "text", "text": "hi"}
IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
USE = {"type": "tool_use", "id": "u1", "name": "add", "input": {"a": 1}}
OUTCOME = {"type": "tool_result", "toolUseId": "u1", "content": [TEXT]}
TOOL = {"name": "add", "inputSchema": {"type": "object"}}
VISIT = question(ELICIT, mode="url", message="Log in", url="https://example.com/")


@pytest.mark.covers("R-5", "F-I-01", "C-23")
@pytest.mark.parametrize(
    ("asked", "capabilities", "code"),
    [
        (form({}), {"elicitation": {}}, None),
        (form({}, mode="form"), {"elicitation": {}}, None),
        (form({}), {"elicitation": {"form": {}, "url": {}}}, None),
        (form({}), {"elicitation": {"url": {}}}, -32602),
        (form({}), {"sampling": {}}, -32601),
        (VISIT, {"elicitation": {"url": {}}}, None),
        (VISIT, {"elicitation": {}}, -32602),
        (VISIT, {}, -32601),
        (question(ELICIT, mode="telepathy", message="?"), {"elicitation": {}}, -32602),
        (question(ELICIT, mode=1, message="?"), {"elicitation": {}}, -32602),
        (sample(TEXT), {"sampling": {}}, None),
        (sample(TEXT), {}, -32601),
        (sample(TEXT, tools=[TOOL]), {"sampling": {"tools": {}}}, None),
        (sample(TEXT, tools=[TOOL]), {"sampling": {}}, -32602),
        (sample(TEXT, toolChoice={"mode": "auto"}), {"sampling": {}}, -32602),
        (sample([TEXT, USE]), {"sampling": {}}, -32602),
        (sample({"type": "text", "text": "tool_use"}), {"sampling": {}}, None),
        (question(ROOTS), {"roots": {}}, None),
        (question(ROOTS), {}, -32601),
        (question("evil/method"), {"roots": {}}, -32601),
    ],
)
def test_only_what_a_host_can_answer_is_asked(asked, capabilities, code):
    assert refusal(asked, capabilities=capabilities) == code


# --- questions --------------------------------------------------------------------------------------------------------

PLAIN_FIELDS = {
    "name": {"type": "string", "title": "Name", "default": "Ada", "minLength": 1},
    "age": {"type": "integer", "minimum": 0, "default": 3},
    "ok": {"type": "boolean", "default": True},
    "size": {"type": "string", "enum": ["s", "m"], "enumNames": ["Small", "Medium"]},
}
TITLED = {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]}
SEVERAL = {"type": "array", "title": "Colours", "items": {"type": "string", "enum": ["r", "g"]}, "default": ["g"]}
SEVERAL_TITLED = {"type": "array", "items": {"anyOf": TITLED["oneOf"]}, "description": "Any"}


@pytest.mark.covers("G-10", "C-12")
@pytest.mark.parametrize("host_version", [L3, L4, MODERN])
def test_a_form_says_who_asks_and_is_else_as_it_was(host_version):
    asked = form(PLAIN_FIELDS, required=["name"], mode="form")
    before = plain(asked.params)
    assert put(asked, host_version) == {**before, "message": "[files] Which?"}
    assert plain(asked.params) == before


@pytest.mark.parametrize("host_version", [L4, MODERN])
def test_newer_hosts_get_choices_as_they_are(host_version):
    fields = {"one": TITLED, "many": SEVERAL, "more": SEVERAL_TITLED}
    assert put(form(fields), host_version)["requestedSchema"]["properties"] == fields


def test_a_host_of_2025_06_18_gets_choices_in_older_words():
    schema = put(form({"one": TITLED, "many": SEVERAL, "more": SEVERAL_TITLED}, required=["many", "one"]), L3)
    assert schema["requestedSchema"] == {
        "type": "object",
        "properties": {
            "one": {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]},
            "many::r": {"type": "boolean", "title": "Colours: r", "default": False},
            "many::g": {"type": "boolean", "title": "Colours: g", "default": True},
            "more::r": {"type": "boolean", "title": "more: Red", "description": "Any"},
            "more::g": {"type": "boolean", "title": "more: Green", "description": "Any"},
        },
        "required": ["one"],
    }


def test_lists_that_are_no_choice_cannot_be_shown_to_older_hosts():
    fields = {"x": {"type": "array", "items": {"type": "string"}}}
    assert refusal(form(fields), L3) == -32602
    assert put(form({"x": SEVERAL}), L4)


@pytest.mark.parametrize(("host_version", "code"), [(L1, -32601), (L2, -32601), (L3, -32602)])
def test_older_hosts_have_no_words_for_a_visit(host_version, code):
    assert refusal(VISIT, host_version) == code
    if host_version != L3:
        assert refusal(form({}), host_version) == code


@pytest.mark.covers("G-2")
def test_the_id_of_a_visit_is_the_hubs_own():
    theirs = question(ELICIT, L4, mode="url", message="Log in", url="https://example.com/", elicitationId="e-7")
    assert put(theirs, L4)["elicitationId"] == "files:e-7"
    assert "elicitationId" not in put(theirs, MODERN)
    made = [put(VISIT, L4)["elicitationId"] for _ in range(2)]
    assert made[0] != made[1]
    assert all(each.startswith("files:") for each in made)
    assert put(VISIT, MODERN)["message"] == "[files: page at example.com] Log in"


@pytest.mark.covers("SEC-86", "G-10")
@pytest.mark.parametrize("host_version", [L4, MODERN])
def test_nobody_is_sent_to_an_address_that_is_not_plain(host_version):
    for url in ("javascript:alert(1)", "http://example.com/", "https://a@example.com/", "https://example.com/\u202e"):
        asked = question(ELICIT, mode="url", message="Log in", url=url)
        assert refusal(asked, host_version) == -32602
    here = question(ELICIT, mode="url", message="Log in", url="http://127.0.0.1:8080/")
    assert put(here, host_version)["message"] == "[files: page at 127.0.0.1:8080] Log in"


@pytest.mark.covers("G-2", "G-13")
def test_what_belongs_to_one_hop_ends_there():
    meta = {"progressToken": 1, "io.modelcontextprotocol/related-task": {"taskId": "t"}, "vendor/x": 1}
    asked = form({}, L4, task={"ttl": 1}, _meta=meta)
    assert put(asked, L4)["_meta"] == {"vendor/x": 1}
    assert "task" not in put(asked, L4)
    assert put(asked, MODERN).keys() == {"message", "requestedSchema"}
    assert "_meta" not in put(form({}, L4, _meta={"progressToken": 1}), L4)
    assert put(question(ROOTS, L4, _meta=meta), L1) == {"_meta": {"vendor/x": 1}}
    assert put(question(ROOTS, L4, _meta=meta), MODERN) == {}


@pytest.mark.covers("G-9", "C-22")
@pytest.mark.parametrize("host_version", ALL_VERSIONS)
def test_no_upstream_sees_what_others_told_the_host(host_version):
    for asked_for in ("allServers", "thisServer", "none", "everything"):
        assert put(sample(TEXT, includeContext=asked_for), host_version)["includeContext"] == "none"
    assert "includeContext" not in put(sample(TEXT), host_version)


@pytest.mark.parametrize("host_version", ALL_VERSIONS)
def test_sampling_goes_through_as_it_is(host_version):
    more = {"systemPrompt": "Be brief", "temperature": 0.5, "stopSequences": ["x"], "metadata": {"a": 1}}
    asked = sample(TEXT, IMAGE, modelPreferences={"hints": [{"name": "m"}]}, **more)
    assert put(asked, host_version) == plain(asked.params)


@pytest.mark.parametrize("host_version", [L4, MODERN])
def test_tools_in_sampling_go_through_as_they_are(host_version):
    asked = sample([TEXT, AUDIO], [USE], [OUTCOME], tools=[TOOL], toolChoice={"mode": "required"})
    assert put(asked, host_version) == plain(asked.params)


@pytest.mark.parametrize("host_version", [L1, L2, L3])
def test_older_hosts_get_one_message_for_each_block(host_version):
    asked = sample([TEXT, IMAGE], TEXT, [])
    contents = [(each["role"], each["content"]) for each in put(asked, host_version)["messages"]]
    assert contents == [("user", TEXT), ("user", IMAGE), ("user", TEXT)]
    for unknown in (sample([USE]), sample(OUTCOME), sample(TEXT, tools=[TOOL])):
        assert refusal(unknown, host_version) == -32602


def test_the_oldest_hosts_hear_nothing():
    assert refusal(sample(AUDIO), L1) == -32602
    assert put(sample(AUDIO), L2)


@pytest.mark.covers("C-23")
@pytest.mark.parametrize(
    "asked",
    [
        question(ELICIT, requestedSchema={"type": "object", "properties": {}}),
        question(ELICIT, message=1, requestedSchema={"type": "object", "properties": {}}),
        question(ELICIT, message="x"),
        question(ELICIT, message="x", requestedSchema=[]),
        question(ELICIT, message="x", requestedSchema={"type": "object"}),
        question(ELICIT, message="x", requestedSchema={"type": "array", "properties": {}}),
        question(ELICIT, message="x", mode="telepathy"),
        question(ELICIT, message="x", mode="url"),
        question(SAMPLE, messages=[]),
        question(SAMPLE, messages=[], maxTokens="x"),
        question(SAMPLE, maxTokens=1),
        question(SAMPLE, maxTokens=1, messages=[1]),
        question(SAMPLE, maxTokens=1, messages=[{"role": "user"}]),
        question(SAMPLE, maxTokens=1, messages=[{"role": "root", "content": TEXT}]),
        question(SAMPLE, maxTokens=1, messages=[{"role": "user", "content": {"type": "smell"}}]),
        question(SAMPLE, maxTokens=1, messages=[{"role": "user", "content": {"type": "text"}}]),
    ],
)
@pytest.mark.parametrize("host_version", [L4, MODERN])
def test_what_is_no_question_is_not_put(asked, host_version):
    assert refusal(asked, host_version) == -32602


def test_other_methods_are_not_questions():
    assert refusal(question("evil/method")) == -32601


# --- answers ----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("R-10")
@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (form({}), {}),
        (form({}), {"action": "perhaps"}),
        (form({}), {"action": "accept", "content": []}),
        (form({}), {"action": "accept", "content": {"a": {}}}),
        (form({}), {"action": "accept", "content": {"a": None}}),
        (form({}), {"action": "accept", "content": {"a": [1]}}),
        (form({}), []),
        (sample(TEXT), {"role": "assistant", "content": TEXT}),
        (sample(TEXT), {"model": "m", "content": TEXT}),
        (sample(TEXT), {"model": "m", "role": "root", "content": TEXT}),
        (sample(TEXT), {"model": "m", "role": "assistant"}),
        (sample(TEXT), {"model": "m", "role": "assistant", "content": {"type": "smell"}}),
        (sample(TEXT), {"model": "m", "role": "assistant", "content": [TEXT, 1]}),
        (question(ROOTS), {}),
        (question(ROOTS), {"roots": {}}),
        (question(ROOTS), {"roots": [{"name": "x"}]}),
    ],
)
@pytest.mark.parametrize("host_version", [L3, MODERN])
def test_what_is_no_answer_is_the_hosts_fault(asked, answer, host_version):
    with pytest.raises(RemoteProtocolError) as caught:
        answer_for_upstream(asked, raw(answer), host_version)
    assert caught.value.failure.code == -32602


@pytest.mark.parametrize("host_version", [L3, L4, MODERN])
@pytest.mark.parametrize("version", [L3, L4, MODERN])
def test_what_was_filled_in_passes_as_it_is(host_version, version):
    asked = form(PLAIN_FIELDS, version)
    answer = {"action": "accept", "content": {"name": "Ada", "age": 3.5, "ok": False, "size": "s", "more": "x"}}
    assert answered(asked, answer, host_version) == answer
    value = raw(answer)
    assert answer_for_upstream(asked, value, host_version) is value


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_nothing_is_told_that_nobody_agreed_to(action):
    assert answered(form({}), {"action": action, "content": {"secret": "x"}}) == {"action": action}
    assert answered(VISIT, {"action": "accept", "content": {"secret": "x"}}) == {"action": "accept"}
    assert answered(form({}), {"action": action, "content": None}) == {"action": action}


def test_marks_of_one_hop_end_there_on_the_way_back():
    meta = {"io.modelcontextprotocol/related-task": {"taskId": "t"}}
    answer = {"action": "decline", "resultType": "complete", "_meta": {**meta, "vendor/x": 1}}
    assert answered(form({}, L4), answer, L4) == {"action": "decline", "_meta": {"vendor/x": 1}}
    assert answered(form({}, L4), {"action": "decline", "_meta": meta}, L4) == {"action": "decline"}


SAMPLED = {"role": "assistant", "model": "m", "stopReason": "toolUse"}


@pytest.mark.parametrize(("version", "host_version"), list(product([L4, MODERN], [L4, MODERN])))
def test_what_was_sampled_passes_as_it_is(version, host_version):
    answer = {**SAMPLED, "content": [TEXT, USE, AUDIO]}
    assert answered(sample(TEXT, version=version), answer, host_version) == answer


@pytest.mark.parametrize("version", [L1, L2, L3])
def test_older_upstreams_get_one_block(version):
    asked = sample(TEXT, version=version)
    assert answered(asked, {**SAMPLED, "content": [IMAGE]}) == {**SAMPLED, "content": IMAGE}
    texts = {**SAMPLED, "content": [TEXT, {"type": "text", "text": "ho"}]}
    assert answered(asked, texts)["content"] == {"type": "text", "text": "hi\nho"}
    for content in ([TEXT, IMAGE], [TEXT, USE], USE):
        with pytest.raises(QuestionRefusal) as caught:
            answer_for_upstream(asked, raw({**SAMPLED, "content": content}), MODERN)
        assert caught.value.failure.code == -32603


def test_the_oldest_upstreams_hear_nothing():
    with pytest.raises(QuestionRefusal) as caught:
        answer_for_upstream(sample(TEXT, version=L1), raw({**SAMPLED, "content": AUDIO}), MODERN)
    assert caught.value.failure.code == -32603
    assert answered(sample(TEXT, version=L2), {**SAMPLED, "content": AUDIO})


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_roots_pass_as_they_are(version):
    answer = {"roots": [{"uri": "file:///a", "name": "A"}]}
    assert answered(question(ROOTS, version), answer, MODERN) == answer
    assert answered(question(ROOTS, version), {"roots": []}, MODERN) == {"roots": []}


# --- choices of several, and back -------------------------------------------------------------------------------------

MANY = {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}}


@pytest.mark.parametrize(
    ("limits", "required", "content", "expected"),
    [
        ({}, True, {"m::a": True, "m::c": True}, ["a", "c"]),
        ({}, True, {"m::a": False}, []),
        ({}, True, {}, []),
        ({}, False, {}, None),
        ({}, False, {"m::a": False}, []),
        ({"minItems": 1}, False, {"m::a": False}, None),
        ({"minItems": 1}, True, {"m::a": False}, RemoteProtocolError),
        ({"minItems": 2}, False, {"m::a": True}, RemoteProtocolError),
        ({"maxItems": 1}, False, {"m::a": True, "m::b": True}, RemoteProtocolError),
        ({"maxItems": 1}, True, {"m::b": True}, ["b"]),
    ],
)
def test_booleans_become_a_list_again(limits, required, content, expected):
    asked = form({"m": {**MANY, **limits}, "x": {"type": "string"}}, required=["m"] if required else [])
    answer = {"action": "accept", "content": {**content, "x": "y"}}
    if expected is RemoteProtocolError:
        with pytest.raises(RemoteProtocolError, match="chosen"):
            answer_for_upstream(asked, raw(answer), L3)
        return
    found = answered(asked, answer, L3)["content"]
    assert found.pop("x") == "y"
    assert found == ({} if expected is None else {"m": expected})


words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=8)
options = st.lists(words, unique=True, max_size=4)


@st.composite
def fields(draw):
    kind = draw(st.sampled_from(["string", "titled", "many", "many titled"]))
    values = draw(options)
    titled = [{"const": value, "title": draw(words)} for value in values]
    if kind == "string":
        return {"type": "string"}
    if kind == "titled":
        return {"type": "string", "oneOf": titled}
    items = {"type": "string", "enum": values} if kind == "many" else {"anyOf": titled}
    return {"type": "array", "items": items, "default": values[:1]}


tricky = st.sampled_from(["a", "a::", "a::b", "a::b_", "b", "::"])


@given(st.data(), st.dictionaries(tricky | words, fields(), max_size=4))
def test_a_form_comes_back_as_it_was_filled_in(data, properties):
    """Whatever a person chooses in the older form is what the upstream reads in the newer one."""
    asked = form(properties, required=[name for name, field in properties.items() if field["type"] == "array"])
    older = put(asked, L3)["requestedSchema"]["properties"]
    filled = {}
    for name, field in older.items():
        filled[name] = data.draw(st.booleans() if field["type"] == "boolean" else words)
    content = answered(asked, {"action": "accept", "content": filled}, L3)["content"]
    assert content.keys() == properties.keys()
    taken = 0
    for name, field in properties.items():
        if field["type"] == "array":
            taken += len(content[name])
            offered = field["items"].get("enum") or [each["const"] for each in field["items"].get("anyOf", [])]
            assert [each for each in offered if each in content[name]] == content[name]
        else:
            assert content[name] == filled[name]
    assert taken == sum(value is True for value in filled.values())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
NAMES = ["message", "mode", "requestedSchema", "url", "messages", "maxTokens", "tools", "_meta", "task"]


@given(
    st.sampled_from([ELICIT, SAMPLE, ROOTS, "other"]),
    st.dictionaries(st.sampled_from(NAMES), json_values, max_size=5),
    json_values,
    st.sampled_from(ALL_VERSIONS),
    st.sampled_from(ALL_VERSIONS),
)
def test_nonsense_is_refused_and_nothing_else_happens(method, params, answer, host_version, version):
    asked = question(method, version, **params)
    try:
        check_capabilities(asked, members(sampling={}, elicitation={}, roots={}))
        question_for_host(asked, host_version)
        answer_for_upstream(asked, raw(answer), host_version)
    except (QuestionRefusal, RemoteProtocolError):
        pass


@pytest.mark.covers("SEC-13", "I-3")
def test_a_question_or_an_answer_with_a_crowd_in_it_is_refused():
    crowd = [{}] * (MAX_ITEMS + 1) + ["a" * SMALL_BYTES]
    everything = members(sampling={}, elicitation={}, roots={})
    asked = question(SAMPLE, messages=crowd, maxTokens=1)
    for ask in (
        lambda: check_capabilities(asked, everything),
        lambda: question_for_host(form({"a": {"enum": crowd}}), L4),
    ):
        with pytest.raises(QuestionRefusal, match="more than 10000 items"):
            ask()
    for put_question, answer in (
        (form({}), {"action": "accept", "content": {"a": crowd}}),
        (sample(TEXT), {"role": "user", "model": "m", "content": crowd}),
        (question(ROOTS), {"roots": crowd}),
        (question(ROOTS), {"roots": [], "more": crowd}),
    ):
        with pytest.raises(RemoteProtocolError, match="more than 10000 items"):
            answer_for_upstream(put_question, raw(answer), MODERN)


# --- nobody answers ---------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-I-07", "R-9")
def test_an_upstream_that_nobody_answers_is_told_so():
    assert reply_without_answer(form({}), "no time") == Result(raw({"action": "cancel"}))
    assert reply_without_answer(sample(TEXT), "no time") == Unanswered(-1, "no time")
    assert reply_without_answer(question(ROOTS), "no time") == Unanswered(-32603, "no time")


@pytest.mark.covers("SEC-13")
@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": {"type": "text", "text": "x"}}] * 5_000,
        [{"role": "user", "content": [{"type": "text", "text": "x"}] * 1_000}] * 30,
        [{"role": "user", "content": [{"type": "tool_use"}] * 5_000}],
    ],
    ids=["messages", "blocks in all", "blocks"],
)
@pytest.mark.parametrize("version", LEGACY_VERSIONS)
def test_too_many_messages_are_not_looked_at(messages, version):
    asked = question(SAMPLE, maxTokens=1, messages=messages)
    with pytest.raises(QuestionRefusal):
        question_for_host(asked, version)
