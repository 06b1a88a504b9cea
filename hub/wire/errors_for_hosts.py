"""Errors of upstreams, translated to the host's revision, where their code would mean something else there; and errors
of the hub in their place."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Raw

from hub.wire import mcp
from hub.wire.capabilities import covers
from hub.wire.jsonrpc import Failure, peek_array, peek_object, peek_str, raw
from hub.wire.mcp import Era, era_of
from hub.wire.questions.page_urls import is_allowed
from hub.wire.total_item_limit import data_of


def failure_for_host(
    failure: Failure,
    method: str,
    *,
    upstream: str,
    upstream_version: str,
    host_version: str,
    uri: str | None = None,
    host_capabilities: Mapping[str, Raw] | None = None,
) -> Failure:
    """Translate an upstream's error for a host.

    `uri` is the spelling by which the host wanted to read; `host_capabilities`, if given, tells a capability
    that the host lacks from one that the hub withheld.
    """
    code, to_modern = failure.code, era_of(host_version) is Era.MODERN
    if method == mcp.RESOURCES_READ:
        names_uri = "uri" in data_of(failure)
        if code == mcp.RESOURCE_NOT_FOUND and to_modern:
            return _map(failure, mcp.INVALID_PARAMS, upstream, uri)
        if code == mcp.INVALID_PARAMS and not to_modern and era_of(upstream_version) is Era.MODERN and names_uri:
            return _map(failure, mcp.RESOURCE_NOT_FOUND, upstream, uri)
        if uri is not None and names_uri and code in (mcp.RESOURCE_NOT_FOUND, mcp.INVALID_PARAMS):
            return Failure(code, failure.message, raw({**data_of(failure), "uri": uri}))
    if _is_hop_local(failure, host_version, host_capabilities):
        return _map(failure, mcp.INTERNAL_ERROR, upstream, None)
    return failure


NOUNS: Final = {mcp.TOOLS_CALL: "tool", mcp.PROMPTS_GET: "prompt"}
NO_REFERENCE: Final = Failure(mcp.INVALID_PARAMS, "ref names no prompt, resource or template that is listed")


def unknown_name(method: str, kind: mcp.Kind, name: str) -> Failure:
    """The hub's own error to a host that names a tool or prompt which nobody has."""
    return Failure(mcp.INVALID_PARAMS, f"Unknown {NOUNS[method]}: {name}; {kind.value}/list names those there are")


def resource_not_found(uri: str, host_version: str) -> Failure:
    """The hub's own error to a host that wants to read what nobody has."""
    code = mcp.INVALID_PARAMS if era_of(host_version) is Era.MODERN else mcp.RESOURCE_NOT_FOUND
    return Failure(code, f"Resource not found: {uri}", raw({"uri": uri}))


class ScopesNeeded(Failure, frozen=True):
    """The hub's own error to a host whose token lacks `scopes`: over HTTP a 403 that names them (RFC 6750 3.1)."""

    scopes: tuple[str, ...] = ()

    def members(self) -> dict[str, Any]:
        """Its members as of any error: where there is no HTTP it is one."""
        return Failure(self.code, self.message).members()


class Concealed(Failure, frozen=True):
    """The answer to a host that asks for what rules deny it, in the words for what nobody has. Records say so."""


def conceal(failure: Failure) -> Concealed:
    """A refusal of what nobody has, for what rules deny."""
    return Concealed(failure.code, failure.message, failure.data)


def _is_hop_local(failure: Failure, host_version: str, host_capabilities: Mapping[str, Raw] | None) -> bool:
    """True if the code would mean something else, or nothing, coming from the hub."""
    code = failure.code
    if code in (mcp.HEADER_MISMATCH, mcp.UNSUPPORTED_VERSION):
        return True
    if code == mcp.MISSING_CAPABILITY:
        required = peek_object(data_of(failure).get("requiredCapabilities"))
        if host_capabilities is None or not required.keys() <= host_capabilities.keys():
            return False
        return covers(host_capabilities, required)
    if code == mcp.URL_ELICITATION_REQUIRED:
        pages = peek_array(data_of(failure).get("elicitations"))
        urls = (peek_str(peek_object(page).get("url")) or "" for page in pages)
        return host_version != mcp.L4 or not all(map(is_allowed, urls))
    return era_of(host_version) is Era.MODERN and (code == mcp.METHOD_NOT_FOUND or -32099 <= code <= -32000)


def _map(failure: Failure, code: int, upstream: str, uri: str | None) -> Failure:
    """Replace the code; the original error is kept under `data.upstream`."""
    data = {} if uri is None else {"uri": uri}
    return Failure(code, failure.message, raw({**data, "upstream": {"server": upstream, **failure.members()}}))
