"""The secrets of an upstream's configuration, in what it says."""

import json

import pytest

from config.setting_declarations import Secret
from config.settings import UpstreamConfig
from hub.link.hub_errors import UpstreamProtocolError
from hub.wire.jsonrpc import Failure, Raw, raw
from upstreams.redact import MAX_ERROR_BYTES, MAX_LEARNT, TELLS_ERROR, CommonSecrets, Mask

TOKEN = 't0k3n/with+\u00e9"quotes\\'
CONFIG = UpstreamConfig(
    command="x",
    env={"PORT": Secret("8080"), "KEY": Secret(TOKEN)},
    headers={"Authorization": Secret("Bearer abcdefgh1")},
)


@pytest.mark.covers("I-9", "SEC-61")
@pytest.mark.parametrize(
    "spelling",
    [
        json.dumps(TOKEN),
        json.dumps(TOKEN, ensure_ascii=False),
        json.dumps(TOKEN).replace("/", r"\/"),
        json.dumps(TOKEN).replace("t0k3n", r"\u0074\u0030k3n"),
    ],
)
def test_an_error_is_masked_however_its_strings_are_spelled(spelling):
    data = f'{{"deep":[{{"k":{spelling},"port":8080,"n":1E400}}],"auth":"Bearer abcdefgh1 x"}}'
    masked = Mask(CONFIG).failure(Failure(-32000, f"no such {TOKEN}: abcdefgh1", Raw(data.encode())))
    assert masked.message == "no such ***: ***"
    assert bytes(masked.data) == b'{"deep":[{"k":"***","port":8080,"n":1E400}],"auth":"*** x"}'
    assert masked.code == -32000


def test_names_of_members_are_masked_too_and_no_number_is():
    failure = Failure(1, "x", raw({"8080": [8080, "8080"]}))
    assert bytes(Mask(CONFIG).failure(failure).data) == b'{"***":[8080,"***"]}'


@pytest.mark.parametrize("config", [CONFIG, UpstreamConfig(command="x")])
@pytest.mark.parametrize("failure", [Failure(1, "fine"), Failure(1, "fine", raw({"a": "\u00e9\\"}))])
def test_an_error_without_secrets_stays_as_it_is(config, failure):
    assert Mask(config).failure(failure) is failure


@pytest.mark.covers("I-9", "SEC-61")
@pytest.mark.parametrize(
    ("url", "args", "said", "expected"),
    [
        ("https://h/mcp?key=query99", (), "no /mcp?key=query99 here", "no /mcp?key=*** here"),
        (
            "https://h/mcp?x=given-by-a-variable&version=2025-06-18",
            (),
            "given-by-a-variable, 2025-06-18",
            "***, 2025-06-18",
        ),
        ("https://h/mcp?a=b&s3cr3t#part", (), "s3cr3t of part", "*** of part"),
        ("https://h/mcp?token=a%2Fb+cd", (), "a%2Fb+cd is a/b cd", "*** is ***"),
        ("https://h/ghp_0123456789abcdefXYZ/mcp", (), "/ghp_0123456789abcdefXYZ/mcp", "/***/mcp"),
        (
            "https://h/mcp?mode=all",
            ("--api-key=argu99", "--token", "ment99", "-v"),
            "argu99 ment99 all -v",
            "*** *** all -v",
        ),
    ],
)
def test_what_looks_like_a_secret_in_a_url_or_in_arguments_is_one(url, args, said, expected):
    assert Mask(UpstreamConfig(url=url, args=args))(said) == expected


TEXT_IS_SECRET = UpstreamConfig(
    command="x", env={"FORMAT": Secret("text"), "STATE": Secret("isError"), "KEY": Secret(TOKEN)}
)


@pytest.mark.covers("I-9", "SEC-80")
@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (
            {"content": [{"type": "text", "text": "a text"}], "isError": True, "_meta": {"k": "text"}},
            {"content": [{"type": "text", "text": "a ***"}], "isError": True, "_meta": {"k": "text"}},
        ),
        (
            {"content": [], "structuredContent": {"text": ["text"], "a": {"isError": False}}, "isError": True},
            {"content": [], "structuredContent": {"text": ["***"], "a": {"isError": False}}, "isError": True},
        ),
        (
            {"taskId": "text", "status": "completed", "result": {"content": [TOKEN], "isError": True}},
            {"taskId": "text", "status": "completed", "result": {"content": ["***"], "isError": True}},
        ),
        (
            {"taskId": "text", "status": "failed", "error": {"code": 1, "message": TOKEN}},
            {"taskId": "text", "status": "failed", "error": {"code": 1, "message": "***"}},
        ),
        (
            {"taskId": "text", "status": "failed", "statusMessage": TOKEN, "pollInterval": 5},
            {"taskId": "text", "status": "failed", "statusMessage": "***", "pollInterval": 5},
        ),
        (
            {"task": {"taskId": "text", "status": "working", "statusMessage": f"with {TOKEN}"}},
            {"task": {"taskId": "text", "status": "working", "statusMessage": "with ***"}},
        ),
    ],
)
def test_the_texts_of_a_result_that_tells_of_an_error_are_masked_and_nothing_else(told, expected):
    assert TELLS_ERROR(bytes(raw(told)))
    assert json.loads(bytes(Mask(TEXT_IS_SECRET).result(raw(told)))) == expected


@pytest.mark.parametrize(
    "told",
    [
        {"content": ["text"], "isError": False},
        {"content": [], "error": "text", "isError": False, "structuredContent": {"isError": True, "a": "text"}},
        {"taskId": "text", "status": "completed", "result": {"content": ["text"]}},
        {"content": [{"type": "text", "text": "no such file"}], "isError": True},
        {"task": 5, "statusMessage": "text"},
        {"task": ["text"]},
        [],
    ],
)
def test_other_results_are_not_touched(told):
    value = raw(told)
    assert Mask(TEXT_IS_SECRET).result(value) is value


def test_the_data_of_logs_is_masked_and_left_out_if_there_is_too_much():
    masked = Mask(CONFIG).data
    assert bytes(masked(raw({"a": [f"of {TOKEN}"]}))) == b'{"a":["of ***"]}'
    assert b"too many" in bytes(masked(raw("x" * MAX_ERROR_BYTES)))
    long = raw("x" * MAX_ERROR_BYTES)
    assert Mask(UpstreamConfig(command="x")).data(long) is long


@pytest.mark.covers("I-3")
def test_so_much_is_searched_and_no_more():
    failure = Failure(1, "x" * (2 * MAX_ERROR_BYTES), raw(["x" * MAX_ERROR_BYTES]))
    masked = Mask(CONFIG).failure(failure)
    assert masked.message == "x" * MAX_ERROR_BYTES
    assert json.loads(bytes(masked.data)) == f"{MAX_ERROR_BYTES + 4} bytes, too many to be searched for secrets"
    assert Mask(UpstreamConfig(command="x")).failure(failure) is failure


def test_a_failure_of_the_hubs_own_that_quotes_an_upstream_is_masked():
    error = UpstreamProtocolError(f"up said {TOKEN}", upstream="up")
    Mask(CONFIG).error(error)
    assert str(error) == "up said ***"
    Mask(UpstreamConfig(command="x")).error(error)
    assert str(error) == "up said ***"


# --- secrets of the hub that any upstream may tell --------------------------------------------------------------------


def test_common_secrets_are_masked_beside_own_ones_and_followed_when_they_change():
    common = CommonSecrets(["f1xed-value"])
    own, empty = Mask(CONFIG, common), Mask(common=common)
    assert own("abcdefgh1 with f1xed-value") == "*** with ***"
    common.replace(["an0ther-value"])
    assert own("abcdefgh1 with an0ther-value") == "*** with ***"
    assert empty.failure(Failure(1, "an0ther-value", raw("f1xed-value"))) == Failure(1, "***", Raw(b'"***"'))
    assert empty("f1xed-value") == "***", "calls that were sent it may still go on"
    assert "value" not in repr(common)


def test_so_many_former_values_are_masked_and_the_same_once_more_is_no_change():
    common = CommonSecrets()
    mask = Mask(common=common)
    for number in range(MAX_LEARNT + 2):
        common.replace([f"value-{number}"])
        common.replace([f"value-{number}"])
    assert common.edition == MAX_LEARNT + 2
    assert mask("value-0 value-1 value-2") == "value-0 *** ***"


def test_the_longest_secret_wins_whosever_it_is():
    config = UpstreamConfig(command="x", env={"A": Secret("acme")})
    assert Mask(config, CommonSecrets(["acme-tracker"]))("acme-tracker of acme") == "*** of ***"


@pytest.mark.parametrize("spelled", [repr(TOKEN.encode()), json.dumps(TOKEN), json.dumps(TOKEN, ensure_ascii=False)])
def test_a_secret_is_masked_within_texts_of_json_and_within_bytes(spelled):
    assert Mask(CONFIG)(f"it sent {spelled}!").replace("b'", "'").replace('"', "'") == "it sent '***'!"
