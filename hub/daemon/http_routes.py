"""The HTTP pages of a hub beside MCP. A new page is one more row of `pages`; one that
shows something of the hub is given `DaemonApi` there.

The listener's guard sees every request first: a page is for those who may use MCP here, too.
"""

from collections.abc import Mapping

from hub.net.http_server import Handler, HttpRequest, HttpResponse

Pages = Mapping[tuple[str, str], Handler]
"""By method and path."""


def pages() -> Pages:
    """The table."""
    return {("GET", "/healthz"): _healthz}


def route(pages: Pages, mcp: Handler) -> Handler:
    """A handler that hands each request to its page; all other paths go to `mcp`, which refuses unknown ones."""

    async def handle(request: HttpRequest, response: HttpResponse) -> None:
        await pages.get((request.method, request.path), mcp)(request, response)

    return handle


async def _healthz(request: HttpRequest, response: HttpResponse) -> None:
    """Liveness: an answer is all that a balancer asks for."""
    response.reply(200, b'{"status":"ok"}')
