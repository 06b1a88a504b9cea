"""The pages beside MCP at a hub's address."""

import pytest

from hub.daemon.http_routes import pages, route
from hub.net.http_server import HttpRequest
from tests.support.http_fakes import Answered


async def mcp(request, response):
    response.reply(418)


async def ask(method, path, rows):
    response = Answered()
    await route(rows, mcp)(HttpRequest(method, path, {}, b""), response)
    return response.status, response.body


@pytest.mark.covers("SEC-08")
async def test_health_says_nothing_but_that():
    assert await ask("GET", "/healthz", pages()) == (200, b'{"status":"ok"}')
    assert list(pages()) == [("GET", "/healthz")]


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/healthz"), ("GET", "/healthz/"), ("GET", "/mcp"), ("GET", "/")]
)
async def test_all_else_is_for_mcp_to_answer_or_refuse(method, path):
    assert await ask(method, path, pages()) == (418, b"")


async def test_a_page_is_one_row():
    async def page(request, response):
        response.reply(200, b"here")

    assert await ask("GET", "/metrics", {**pages(), ("GET", "/metrics"): page}) == (200, b"here")
