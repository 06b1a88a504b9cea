"""Each form of log records is whole, holds no secrets, and no characters that nobody sees."""

import json
import logging
import sys

import pytest

from hub.daemon.logs.forms import LINE_BYTES, JsonFormatter, PlainFormatter
from hub.link.log_context import UpstreamSubject, log_about


def record(message, *arguments, error=None):
    return logging.LogRecord("hubd.test", logging.WARNING, __file__, 1, message, arguments, error)


def test_json_records_hold_what_a_collector_needs():
    fields = json.loads(JsonFormatter().format(record("upstream %s", "a\nb")))
    assert fields["level"] == "warning"
    assert fields["logger"] == "hubd.test"
    assert fields["message"] == "upstream a\nb"
    try:
        raise ValueError("broken")
    except ValueError:
        fields = json.loads(JsonFormatter().format(record("x", error=sys.exc_info())))
    assert "ValueError: broken" in fields["error"]


@pytest.mark.parametrize("form", [JsonFormatter, PlainFormatter])
def test_secrets_are_taken_out_of_messages_and_tracebacks(form):
    try:
        raise ValueError("it is hunter2")
    except ValueError:
        failed = record("upstream said %r", b"hunter2\xff", error=sys.exc_info())
    line = form(lambda text: text.replace("hunter2", "***")).format(failed)
    assert "hunter2" not in line
    assert "it is ***" in line


@pytest.mark.parametrize("character", ["x", "\x1b", "\N{SNOWMAN}", '"', "\ud800"])
def test_a_json_record_is_whole_however_long_its_text(character):
    try:
        raise ValueError(character * 9000)
    except ValueError:
        line = JsonFormatter().format(record("upstream " + character * 9000, error=sys.exc_info()))
    fields = json.loads(line)
    assert 1000 < len(line.encode()) <= LINE_BYTES
    assert fields["message"].startswith("upstream ")
    assert fields["error"]


@pytest.mark.covers("SEC-54")
def test_json_records_hold_nothing_unseen():
    line = JsonFormatter().format(record("up says \x1b[2J\x9b\u202e\U000e0041"))
    assert line.isprintable()
    assert json.loads(line)["message"] == "up says \x1b[2J\x9b\u202e\U000e0041"


@pytest.mark.covers("SEC-54")
def test_plain_records_neutralise_escapes():
    line = PlainFormatter().format(record("tool said \x1b[2J\nfake line"))
    assert "\x1b" not in line
    assert "\n" not in line
    try:
        raise ValueError("broken \x1b[2J")
    except ValueError:
        line = PlainFormatter().format(record("x", error=sys.exc_info()))
    assert "\nValueError: broken \\x1b" in line
    assert "\x1b" not in line


# --- what a record is about -------------------------------------------------------------------------------------------


@pytest.mark.covers("OL-2")
def test_a_json_record_says_what_it_is_about():
    about = record("it is slow")
    about.error_type, about.ref = "upstream_timeout", "c7f3a9b2"
    with log_about(UpstreamSubject("github", 17)):
        fields = json.loads(JsonFormatter(lambda text: text.replace("slow", "***")).format(about))
    assert list(fields) == ["time", "level", "logger", "upstream", "ref", "error_type", "pid", "message"]
    assert {name: fields[name] for name in ("upstream", "ref", "error_type", "pid", "message")} == {
        "upstream": "github",
        "ref": "c7f3a9b2",
        "error_type": "upstream_timeout",
        "pid": "17",
        "message": "it is ***",
    }
    assert list(json.loads(JsonFormatter().format(record("x")))) == ["time", "level", "logger", "message"]


@pytest.mark.covers("OL-3")
def test_plain_records_show_the_ref_and_a_coloured_level():
    about = record("it is slow")
    about.ref = "c7f3a9b2"
    assert PlainFormatter().format(about)[8:] == " warning  c7f3a9b2 it is slow"
    assert PlainFormatter(coloured=True).format(about)[8:] == " \x1b[33mwarning \x1b[0m c7f3a9b2 it is slow"
