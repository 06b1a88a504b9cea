"""Protected: the liar as an MCP server that wants a token (2025-06-18, JSON answers; tools `read` and `write`, which
say who calls them if they are asked, `who`)."""

import base64
import json
import time
import urllib.request
from itertools import count
from typing import Any
from urllib.parse import urlencode

from tests.support.oauth.liar_state import State
from tests.support.oauth.pages import HTML, Pages

FRESH_S = 30


class Protected(Pages):
    state: State

    def resource_metadata(self, path: str) -> None:
        """RFC 9728."""
        state, lie = self.state, self.state.lie
        where = "/.well-known/oauth-protected-resource" + ("/mcp" if state.args.prm == "path" else "")
        if state.args.prm == "none" or path != where:
            return self.say(404)
        if lie == "prm-html":
            return self.say(200, "<!doctype html><title>app</title>", kind=HTML)
        if lie == "prm-500":
            return self.say(500)
        if lie == "prm-redirect":
            return self.say(302, headers={"Location": f"{state.evil}/prm"})
        servers = {"prm-metadata-address": ["http://169.254.169.254"], "prm-no-servers": []}
        resources = {"prm-resource-other": "https://evil.example/mcp", "prm-resource-child": state.resource + "/x"}
        found = {
            "resource": resources.get(lie or "", state.resource),
            "authorization_servers": servers.get(lie or "", [state.moved or state.issuer]),
            "scopes_supported": [state.args.scope],
            "bearer_methods_supported": ["header"],
        }
        return self.say(200, found)

    def challenge(self, status: int, error: str = "", scope: str | None = None) -> None:
        state, lie = self.state, self.state.lie
        parts = []
        if state.args.challenge != "bare":
            place = "/mcp" if state.args.prm == "path" else ""
            parts = [f'resource_metadata="{state.base}/.well-known/oauth-protected-resource{place}"']
        parts += [f'scope="{scope}"'] if scope and state.args.challenge == "full" else []
        parts += [f'error="{error}"'] if error else []
        header = "Bearer " + ", ".join(parts)
        if lie == "res-challenge-two":
            header = f'Basic realm="a, Bearer scope=\\"b\\"", {header}, DPoP algs="ES256"'
        if lie == "res-challenge-garbage":
            header = 'Bearer ="",,,scope=", \x7f'
        silent = state.args.challenge == "none" or lie == "res-401-bare"
        self.say(status, {"error": error or "unauthorized"}, {} if silent else {"WWW-Authenticate": header})

    def known(self, token: str) -> dict[str, Any] | None:
        """What the token is good for, with `scope`; None: nothing."""
        state, now = self.state, time.time()  # noqa: TID251
        if state.own:
            found = state.access.get(token)
            return found if found and found["until"] > now else None
        state.remember(token)
        state.shown.add(token)
        if token in state.dead:
            return None
        if token.count(".") == 2:
            claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
            audience = claims.get("aud")
            mine = state.resource in (audience if isinstance(audience, list) else [audience])
            return claims if mine and claims["exp"] > now else None
        if not state.args.introspect:
            return None
        basic = {"Authorization": "Basic " + base64.b64encode(state.args.introspect.encode()).decode()}
        request = urllib.request.Request(state.args.introspect_url, urlencode({"token": token}).encode(), basic)
        with urllib.request.urlopen(request, timeout=60) as answer:
            said = json.load(answer)
        return said if said.get("active") else None

    def mcp(self, method: str) -> None:
        state, lie = self.state, self.state.lie
        body = self.body() if method == "POST" else b""
        message = json.loads(body) if body else {}
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        found = self.known(token) if token else None
        who, is_good = (found or {}).get("sub"), found is not None
        state.note("mcp", method=message.get("method", method), token=token[-4:] or None, good=is_good, sub=who)
        age_s = time.time() - found.get("made", 0) if found else 0  # noqa: TID251
        if found is None or lie == "res-401-always" or (lie == "res-401-fresh" and age_s < FRESH_S):
            return self.challenge(401, "invalid_token" if token else "", state.args.scope)
        if method != "POST":
            return self.say(405)
        name, id = message.get("method"), message.get("id")
        if id is None:
            return self.say(202)
        params = message.get("params") or {}
        tool = params.get("name")
        wants = state.args.write_scope if name == "tools/call" and tool == "write" else state.args.scope
        refused = lie == "res-403-loop" and name == "tools/call"
        scopes = found.get("scope", "").split()
        if lie == "res-403-more" and tool == "write":
            wants = next(more for number in count(1) if (more := f"more:{number}") not in scopes)
        if refused or wants not in scopes:
            return self.challenge(403, "insufficient_scope", wants)
        says = who if "who" in (params.get("arguments") or {}) else f"{tool}: done"
        return self.say(200, {"jsonrpc": "2.0", "id": id, **answer(name, says)})


def answer(method: str | None, says: str | None) -> dict[str, Any]:
    """The result or the error."""
    server = {"name": "liar", "version": "1"}
    results: dict[str | None, dict[str, Any]] = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": server},
        "tools/list": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("read", "write")]},
        "tools/call": {"content": [{"type": "text", "text": says}]},
        "ping": {},
    }
    if method in results:
        return {"result": results[method]}
    return {"error": {"code": -32601, "message": "no such method"}}
