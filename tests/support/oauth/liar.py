"""Liar: a protected MCP server and its authorization server in one program, which can tell one lie.

    python -m tests.support.oauth.liar [--lie NAME] [--issuer URL [--introspect ID:SECRET --introspect-url URL]] ...
    python -m tests.support.oauth.liar --list            the lies, and what a client has to do

Without --issuer it is its own authorization server, which lets everybody in at once: GET on the authorization endpoint
redirects with a code. With --issuer it is only the protected server, in front of a real authorization server: opaque
tokens are introspected, of JWTs only audience and time are read. A second port is the attacker's: whatever comes there
is in the log with `EVIL` before it.

Control, by GET or POST below /_rig/: `log` is what was asked, in order, as JSON; `secrets` is every secret it has made
or seen; `expire` ends all access tokens, `revoke-all` all tokens, `forget-clients` all registrations;
`move[?to=ISSUER]` names another authorization server from now on, the attacker unless told; `lie?name=NAME` tells
another lie, or none.
"""

import argparse
import sys
from urllib.parse import parse_qs, urlsplit

from tests.support.oauth.liar_authorization import Authorization
from tests.support.oauth.liar_resource import Protected
from tests.support.oauth.liar_state import State
from tests.support.oauth.lies import LIES
from tests.support.oauth.pages import HTML, Pages, announce, listen, serve


class Front(Protected, Authorization):
    """Both servers at one origin, and the control of tests."""

    def route(self, method: str) -> None:
        state, url = self.state, urlsplit(self.path)
        if url.path.startswith("/_rig/"):
            return self.control(url.path.removeprefix("/_rig/"), parse_qs(url.query))
        if url.path == "/mcp":
            return self.mcp(method)
        state.note(f"{method} {url.path}", query=url.query[:80] or None)
        if url.path.startswith("/.well-known/oauth-protected-resource"):
            return self.resource_metadata(url.path)
        pages = {
            "/.well-known/oauth-authorization-server": self.metadata,
            "/.well-known/openid-configuration": self.metadata,
            "/register": self.register,
            "/authorize": self.authorize,
            "/token": self.token,
            "/revoke": self.revoke,
        }
        if (page := pages.get(url.path)) is None or not state.own:
            return self.say(404, "<!doctype html><p>not found", kind=HTML)
        return page()

    def control(self, what: str, query: dict[str, list[str]]) -> None:
        state = self.state
        if what == "log":
            return self.say(200, state.log)
        if what == "secrets":
            return self.say(200, sorted(state.secrets))
        if what == "expire":
            for token in state.access.values():
                token["until"] = 0
            state.dead |= state.shown
        elif what == "revoke-all":
            state.access.clear()
            state.refresh.clear()
        elif what == "forget-clients":
            state.forgotten |= set(state.clients)
            state.clients.clear()
        elif what == "move":
            state.moved = query.get("to", [state.evil])[0]
        elif what == "lie":
            state.lie = query.get("name", [None])[0]
        else:
            return self.say(404)
        return self.say(200, {})


class Evil(Pages):
    """The attacker: it only notes."""

    state: State

    def route(self, method: str) -> None:
        body = self.body().decode(errors="replace")[:60] or None
        self.state.note(
            f"EVIL {method} {urlsplit(self.path).path}", authorization="Authorization" in self.headers, body=body
        )
        self.say(404)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--lie", choices=sorted(LIES))
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--issuer")
    parser.add_argument("--introspect", help="ID:SECRET of a resource server at --introspect-url")
    parser.add_argument("--introspect-url")
    parser.add_argument("--scope", default="mcp")
    parser.add_argument("--write-scope", default="mcp:write", help="what the tool `write` needs, else 403")
    parser.add_argument("--ttl", type=float, default=3600, help="life of access tokens, in seconds")
    parser.add_argument("--challenge", choices=("full", "bare", "none"), default="full")
    parser.add_argument(
        "--prm", choices=("path", "root", "none"), default="path", help="place of the resource metadata"
    )
    parser.add_argument("--no-iss", action="store_true", help="neither promise `iss` nor send it")
    parser.add_argument("--no-dcr", action="store_true", help="no registration endpoint")
    parser.add_argument("--honest", help="the other authorization server of `mixup` and `mixup-redirect`: its issuer")
    parser.add_argument(
        "--honest-client", help="a client id there, which everybody that registers gets; else registered there"
    )
    parser.add_argument("--honest-redirect", help="`mixup-redirect` asks the honest server for this redirect URI")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    if args.list:
        sys.stdout.writelines(f"{name:26} {due}\n" for name, due in LIES.items())
        return
    front, evil = listen(args.port), listen()
    state = State(args, front.getsockname()[1], evil.getsockname()[1])
    serve(front, type("Front", (Front,), {"state": state}))
    serve(evil, type("Evil", (Evil,), {"state": state}))
    announce(url=state.resource, issuer=state.issuer, evil=state.evil, control=state.base)


if __name__ == "__main__":
    main()
