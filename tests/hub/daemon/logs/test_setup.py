"""Levels of the log go by the server that a record is about, or else by its logger."""

import logging

import pytest

from config.settings import LogConfig
from hub.daemon.logs.setup import LevelFilter
from hub.link.log_context import UpstreamSubject, log_about

LEVELS = LogConfig(level="warning", levels={"github": "debug", "hubd": "error", "hubd.reload": "info"})


@pytest.mark.covers("OL-4")
@pytest.mark.parametrize(
    ("logger", "upstream", "level", "passes"),
    [
        ("upstreams.x", None, logging.INFO, False),
        ("upstreams.x", None, logging.WARNING, True),
        ("upstreams.x", "github", logging.DEBUG, True),
        ("upstreams.x", "other", logging.DEBUG, False),
        ("hubd", None, logging.WARNING, False),
        ("hubd.call", None, logging.WARNING, False),
        ("hubd.call", "github", logging.WARNING, True),
        ("hubd.reload", None, logging.INFO, True),
        ("hubdx", None, logging.WARNING, True),
    ],
)
def test_a_record_passes_by_its_server_or_its_logger(logger, upstream, level, passes):
    levels = LevelFilter()
    record = logging.makeLogRecord({"name": logger, "levelno": level})
    assert levels.filter(record) is (level >= logging.INFO), "nothing is configured"
    levels.adjust(LEVELS)
    record = logging.makeLogRecord({"name": logger, "levelno": level})
    if upstream is None:
        assert levels.filter(record) is passes
    else:
        with log_about(UpstreamSubject(upstream)):
            assert levels.filter(record) is passes
