"""Pages for people who sign in: without script, style or picture, nothing in them but text that was escaped. Pure."""

from collections.abc import Iterable
from html import escape
from typing import Final

from hub.wire.printable import printable

HTML: Final = "text/html; charset=utf-8"
HEADERS: Final = (
    ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
)
"""Header fields of every answer to a browser."""


def page(title: str, paragraphs: Iterable[str], link: tuple[str, str] | None = None) -> bytes:
    """A page of paragraphs; `link`: an address and the words on it, below them."""
    lines = [f"<p>{_safe(text)}</p>" for text in paragraphs]
    if link is not None:
        address, words = link
        lines.append(f'<p><a href="{escape(address, quote=True)}" rel="noreferrer">{_safe(words)}</a></p>')
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{_safe(title)}</title></head>\n'
        f"<body><h1>{_safe(title)}</h1>\n" + "\n".join(lines) + "\n</body></html>\n"
    ).encode()


def begin_page(
    upstream: str, issuer_host: str, endpoint_host: str, scope: str, asked: str, url: str, *, for_all: str = ""
) -> bytes:
    """The page on which a sign-in begins: everything a person should know before, and one link.

    `asked` says who asked for it, and when; `for_all`: the resource, if that is more than the upstream.
    """
    goes_to = f"The link leads to {endpoint_host}." if endpoint_host != issuer_host else ""
    said = (
        f"{upstream} asks you to sign in at {issuer_host}. {goes_to}".strip(),
        f"It asks for: {scope or 'what that server gives by itself'}.",
        f"The sign-in is good for all of {for_all}." if for_all else "",
        f"{asked} If you did not expect that, close this page.",
    )
    return page(f"Sign in for {upstream}", filter(None, said), (url, f"Go on to {endpoint_host}"))


def _safe(text: str) -> str:
    return escape(printable(text), quote=True)
