"""Checks of what several hubs have in common (`[cache]`, `[replica]`, `token`, `sealing_key`), beyond types and bounds.
Pure.

No other module judges these settings: `cache.redis.url` and `hub.link.sealing` ask here. Problems show no token, no
key and nothing of `cache.url`.
"""

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import SplitResult

from config.diagnostics import Problem
from config.loading.checks.http_access import TOKEN_RULE
from config.loading.parse_addresses import is_plain, split_plain, split_url
from config.setting_declarations import declarations
from config.settings import MAX_REPLICA, REPLICA_NAME, TOKEN, CacheConfig, HubConfig

KEY_BYTES: Final = 32
KEYS: Final = (
    "must be 64 hexadecimal digits, and after a space the key before it or after it, if any; "
    "`openssl rand -hex 32` makes one"
)
_FORMS: Final = '"redis://HOST:PORT/DB", "rediss://HOST:PORT/DB" for TLS, or "unix:///path?db=0"'
_MAKE: Final = "`openssl rand -hex 32 >FILE`, and"
_WILDCARDS: Final = ("0.0.0.0:", "[::]:")


def problems_of_sharing(config: HubConfig) -> Iterator[Problem]:
    """Problems of `[cache]`, `[replica]`, `token` and `sealing_key`."""
    cache = config.cache
    for name, declared in declarations(CacheConfig).items():
        if declared.setting.unit in ("bytes", "entries") and cache.enabled and getattr(cache, name) == 0:
            yield Problem(("cache", name), "must be above 0; to keep nothing write enabled = false")
    # The default is no wish: a cache smaller than that keeps what fits.
    if cache.max_entry_bytes > cache.max_bytes and cache.max_entry_bytes != CacheConfig().max_entry_bytes:
        text = f"is more than the whole cache may hold (max_bytes, {cache.max_bytes}); lower it, or raise that"
        yield Problem("cache.max_entry_bytes", text)
    yield from problems_of_store(cache)
    if not re.fullmatch(REPLICA_NAME, config.replica.name):
        yield Problem("replica.name", f"must be letters and digits, at most {MAX_REPLICA} of them")
    if config.replica.url and not _is_base(config.replica.url):
        yield Problem("replica.url", 'expected the address of this hub without a path, such as "http://10.0.0.5:8765"')
    if config.token is not None and not re.fullmatch(TOKEN, config.token.reveal()):
        yield Problem("token", TOKEN_RULE)
    if config.sealing_key is not None:
        try:
            keys_in(config.sealing_key.reveal())
        except ValueError:
            yield Problem("sealing_key", KEYS)


def keys_in(text: str) -> list[bytes]:
    """The keys of `sealing_key`, or of a key file: one or two. Raises: ValueError."""
    keys = [bytes.fromhex(each) for each in text.split()]
    if len(keys) not in (1, 2) or any(len(key) != KEY_BYTES for key in keys):
        raise ValueError("no keys")
    return keys


def problems_of_store(cache: CacheConfig) -> Iterator[Problem]:
    """Problems of the settings by which the store is reached."""
    for name in ("username", "tls_ca"):
        if getattr(cache, name) == "":
            yield Problem(("cache", name), "is empty; leave it out")
    if cache.password is not None and not cache.password.reveal():
        yield Problem("cache.password", "is empty; leave it out if the server asks for none")
    if cache.url is None:
        return
    url = cache.url.reveal()
    parts = split_url(url)
    if parts is None:
        yield Problem("cache.url", f"expected {_FORMS}")
        return
    if "@" in parts.netloc:
        text = 'holds a user name or password; write them beside it: username = "...", password = "${file:PATH}"'
        yield Problem("cache.url", text)
    elif not _is_store(url, parts):
        yield Problem("cache.url", f"expected {_FORMS}")
    if cache.tls_ca and parts.scheme != "rediss":
        yield Problem("cache.tls_ca", 'needs a url that begins with "rediss://"; without it there is no TLS')


def _is_store(url: str, parts: SplitResult) -> bool:
    if not is_plain(url) or parts.fragment:
        return False
    if parts.scheme == "unix":
        is_path = not parts.netloc and len(parts.path) > 1 and url.startswith("unix:///")
        return is_path and re.fullmatch(r"(db=\d{1,5})?", parts.query) is not None
    is_server = parts.scheme in ("redis", "rediss") and bool(parts.hostname) and parts.port != 0
    return is_server and not parts.query and re.fullmatch(r"/?|/\d{1,5}", parts.path) is not None


def _is_base(url: str) -> bool:
    """True if `url` is an address without path, query or credentials."""
    parts = split_plain(url)
    return parts is not None and parts.port != 0 and url in (f"http://{parts.netloc}", f"https://{parts.netloc}")


def warnings_of_sharing(config: HubConfig) -> Iterator[Problem]:
    """Warnings about settings without effect, or probably not with the one that is meant."""
    cache, replica = config.cache, config.replica
    if cache.url is None:
        for name in ("username", "password", "tls_ca"):
            if getattr(cache, name) is not None:
                yield Problem(("cache", name), "has no effect without `url`, the address of the server it is for")
    elif cache.username is not None and cache.password is None:
        yield Problem("cache.username", "has no effect without `password`")
    if config.token is not None and config.auth == "none":
        yield Problem("token", 'has no effect with auth = "none"')
    if not (replica.name or replica.url):
        if cache.url is not None and config.sealing_key is None:
            text = "serves this hub alone: others find nothing there without `sealing_key`, the same in all hubs"
            yield Problem("cache.url", f'{text}; {_MAKE} sealing_key = "${{file:FILE}}"')
        return
    if cache.url is None:
        yield Problem("replica", "has no effect without [cache] url, the Redis or Valkey in which hubs find each other")
    if config.sealing_key is None:
        text = "needs `sealing_key`, the same in all hubs: what one of them sealed no other can open"
        yield Problem("replica", f'{text}; {_MAKE} sealing_key = "${{file:FILE}}"')
    if config.token is None and config.auth == "token":
        text = "needs `token`, the same in all hubs, or else each asks hosts for its own"
        yield Problem("replica", f'{text}; {_MAKE} token = "${{file:FILE}}"')
    if not replica.url and config.listen.startswith(_WILDCARDS):
        text = f'needs `url`: other hubs cannot find this one at {config.listen}; write url = "http://ADDRESS:PORT"'
        yield Problem("replica", text)
