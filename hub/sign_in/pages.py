"""Pages for people who sign in: without script or picture, nothing in them but text that was escaped. Pure."""

from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from html import escape
from typing import Final

from hub.wire.printable import printable

HTML: Final = "text/html; charset=utf-8"
STYLE: Final = (
    ":root{color-scheme:light dark}"
    "body{font:1.05rem/1.55 system-ui,sans-serif;max-width:34rem;margin:14vh auto;padding:0 1.5rem;"
    "overflow-wrap:anywhere}"
    "h1{font-size:1.5rem;font-weight:600;line-height:1.25}"
    "a,button{display:inline-block;font:inherit;color:#fff;background:#1f5fbf;padding:.55rem 1.1rem;border:0;"
    "border-radius:.4rem;text-decoration:none}"
    "input{font:inherit;width:9rem;padding:.45rem .6rem;margin-right:.6rem;letter-spacing:.1em}"
    ":focus-visible{outline:3px solid #e08a00;outline-offset:2px}"
)
_HASH: Final = b64encode(sha256(STYLE.encode()).digest()).decode()
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = (
    ("Content-Security-Policy", _POLICY),
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
)
"""Header fields of every answer to a browser."""
CODE: Final = "code"
"""The name of what is typed into the form."""


def page(title: str, paragraphs: Iterable[str], link: tuple[str, str] | None = None) -> bytes:
    """A page of paragraphs; `link`: an address and the words on it, below them."""
    last = ""
    if link is not None:
        address, words = link
        last = f'<p><a href="{escape(address, quote=True)}" rel="noreferrer">{_safe(words)}</a></p>\n'
    return _page(title, paragraphs, last)


def code_page(upstream: str, asked: str, *, is_wrong: bool) -> bytes:
    """The page that asks for the code of an invitation, in place of the one on which a sign-in begins."""
    said = (
        "That is not the code." if is_wrong else "",
        f"{asked} It has shown a code of six digits beside this address: hubd cannot see whose browser this is, so type"
        " that in. If you did not expect this, close the page.",
    )
    form = (
        f'<form><input name="{CODE}" inputmode="numeric" autocomplete="off" maxlength="9" aria-label="Code" required'
        " autofocus><button>Go on</button></form>\n"
    )
    return _page(f"Sign in for {upstream}", filter(None, said), form)


def begin_page(
    upstream: str, issuer_host: str, endpoint_host: str, scope: str, asked: str, url: str, *, for_all: str = ""
) -> bytes:
    """The page on which a sign-in begins: everything a person should know before, and one link.

    `asked` says who asked for it, and when; `for_all`: the resource, if that is more than the upstream."""
    goes_to = f"The link leads to {endpoint_host}." if endpoint_host != issuer_host else ""
    said = (
        f"{upstream} asks you to sign in at {issuer_host}. {goes_to}".strip(),
        f"It asks for: {scope or 'what that server gives by itself'}.",
        f"The sign-in is good for all of {for_all}." if for_all else "",
        f"{asked} If you did not expect that, close this page.",
    )
    return page(f"Sign in for {upstream}", filter(None, said), (url, f"Go on to {endpoint_host}"))


def _page(title: str, paragraphs: Iterable[str], last: str) -> bytes:
    lines = "\n".join(f"<p>{_safe(text)}</p>" for text in paragraphs)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{_safe(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>\n'
        f"<body><main><h1>{_safe(title)}</h1>\n{lines}\n{last}</main></body></html>\n"
    ).encode()


def _safe(text: str) -> str:
    return escape(printable(text), quote=True)
