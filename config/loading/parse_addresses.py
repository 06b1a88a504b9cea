"""Addresses in settings: what a URL, a host or HOST:PORT says."""

import re
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from config.diagnostics import Problem


def is_plain(url: str) -> bool:
    """True if it is ASCII without blanks and controls."""
    return url.isascii() and not re.search(r"[\x00-\x20\x7f]", url)


def split_url(url: str) -> SplitResult | None:
    """The parts of a URL; None: it is none."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts


def split_plain(url: str) -> SplitResult | None:
    """The parts of a URL of plain ASCII that has a host and no user name; None: it is none."""
    parts = split_url(url)
    return parts if parts is not None and is_plain(url) and parts.hostname and "@" not in parts.netloc else None


def is_loopback(host: str) -> bool:
    """True if only this machine can reach `host`."""
    return host == "localhost" or (is_address(host) and ip_address(host).is_loopback)


def is_address(text: str) -> bool:
    """True if it is an IP address."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def split_listen(listen: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`; an IPv6 address stands in brackets.
    Raises: Problem, if it is neither a name nor an address with a port."""
    host, colon, port = listen.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    sound = bare and not re.search(r"[\s/@\[\]]", bare) and (":" not in bare or bare != host)
    if not (colon and sound and port.isascii() and port.isdigit() and int(port) < 65536):
        text = f'expected HOST:PORT such as "127.0.0.1:8765" or "[::1]:8765", not "{listen}"'
        raise Problem("listen", f"{text}; variables are not replaced here" if "${" in listen else text)
    return bare, int(port)
