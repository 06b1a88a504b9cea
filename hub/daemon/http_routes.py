"""The HTTP pages of a hub beside MCP. A new page is one more row of `pages`.

The listener's guard sees every request first: a page is for those who may use MCP here, too.
"""

from collections.abc import Mapping

from hub.net.http_server import Handler, HttpRequest, HttpResponse

Pages = Mapping[tuple[str, str], Handler]
"""By method and path."""


def pages() -> Pages:
    """All of them."""
    return {("GET", "/healthz"): _healthz}


def route(pages: Pages, mcp: Handler) -> Handler:
    """Hand each request to its page; `mcp` has all other paths, and refuses those that it does not know."""

    async def handle(request: HttpRequest, response: HttpResponse) -> None:
        await pages.get((request.method, request.path), mcp)(request, response)

    return handle


async def _healthz(request: HttpRequest, response: HttpResponse) -> None:
    """The hub answers, which is all that a balancer asks."""
    response.reply(200, b'{"status":"ok"}')
