"""Refusals of hosts' HTTP requests: a status, and a JSON-RPC error or a text in the body. Pure."""

from typing import Final

from hub.net.look_after_connections import HttpResponse
from hub.wire import jsonrpc, mcp
from hub.wire.jsonrpc import Failure, RequestId

RETRY_AFTER: Final = (("Retry-After", "1"),)
ALLOW: Final = (("Allow", "GET, POST, DELETE"),)
NOTHING_HERE: Final = (
    b'{"error":"There is nothing at this path; MCP is at /mcp, /mcp/<upstream> and /mcp/~<profile>",'
    b'"error_description":"This hub has no sign-in. It asks for a token: run `hubd token` and send what it prints as'
    b' `Authorization: Bearer TOKEN` to /mcp or /mcp/<upstream>"}'
)
"""Body of each 404. Clients that look for a sign-in show `error_description` to people."""


def nothing_here(profile: str, *, is_own: bool = False) -> bytes:
    """The body of the 404 to a token that opens one `profile` and nothing else; "": to any other. `is_own`: the path is
    that of the profile, so the profile is no more."""
    if not profile:
        return NOTHING_HERE
    bound = f'The token that was sent opens the profile "{profile}" of this hub and nothing else'
    another = "another token: whoever runs the hub makes one with `hubd token new NAME`"
    if is_own:
        why = f"{bound}, and the hub has no such profile any more"
        what = f"Whoever runs the hub can put the profile back into hubd.toml. Otherwise you need {another}"
    else:
        why = f"{bound}, and this URL is not that of the profile"
        what = f"Use the URL of the hub that ends in /mcp, or in /mcp/~{profile}. For other URLs you need {another}"
    return jsonrpc.encode({"error": why, "error_description": f"{why}. {what}."})


class Refused(Exception):
    """A request that is answered with an HTTP error and a JSON-RPC one."""

    def __init__(
        self, status: int, failure: Failure, *, id: RequestId | None = None, headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(failure.message)
        self.status = status
        self.failure = failure
        self.id = id
        self.headers = headers

    def reply(self, response: HttpResponse) -> None:
        """Answer with this refusal."""
        response.reply(self.status, jsonrpc.encode_response(self.id, self.failure), self.headers)


def refuse(status: int, text: str, *, id: RequestId | None = None, code: int = mcp.INVALID_REQUEST) -> Refused:
    """To raise: an answer of this HTTP status, with a JSON-RPC error that says `text`."""
    return Refused(status, Failure(code, text), id=id)


def no_session() -> Refused:
    """To raise: the session that a request names is not there, so the host begins anew (404)."""
    return refuse(404, "There is no such session; start one with initialize")


def not_allowed() -> Refused:
    """To raise: nothing is served by this method (405)."""
    text = "This method is not possible here; POST messages, GET and DELETE need a session"
    return Refused(405, Failure(mcp.INVALID_REQUEST, text), headers=ALLOW)


NEITHER: Final = (
    f"Not a request of {', '.join(mcp.MODERN_VERSIONS)}, which carries its revision in params._meta and in headers; "
    f"and without a session of {', '.join(mcp.ALL_VERSIONS[len(mcp.MODERN_VERSIONS) :])}: send initialize first"
)
