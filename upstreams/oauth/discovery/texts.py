"""The texts for a person when a sign-in cannot begin: what is wrong, and the setting that helps. Pure."""

from config.errors import dotted, quoted
from config.secret_detection import masked_url
from upstreams.oauth.discovery.addresses import shown


def below(upstream: str) -> str:
    """The place of the settings of signing in at `upstream`."""
    return f"below [{dotted(('upstreams', upstream, 'oauth'))}]"


def issuer_differs(upstream: str, named: str, found: str) -> str:
    return (
        f"{upstream} names {shown(named)} as its authorization server, which says it is {found}, so it is not trusted. "
        f"If you know better, set issuer and metadata_url {below(upstream)}."
    )


def configured_issuer_differs(upstream: str, issuer: str, found: str) -> str:
    return (
        f"The metadata of {shown(issuer)}, which is the issuer of {upstream} by its settings, say that it is {found}, "
        f"so it is not trusted. Correct issuer or metadata_url {below(upstream)}."
    )


def no_pkce(upstream: str, issuer: str) -> str:
    return (
        f"{shown(issuer)} does not say that it supports PKCE. If you know that it does, set pkce = {quoted('assume')} "
        f"{below(upstream)}."
    )


def other_pkce(upstream: str, issuer: str) -> str:
    return (
        f"{shown(issuer)} supports PKCE, but not by the method S256, so nobody signs in there for {upstream}. "
        "Its operator has to switch S256 on."
    )


def resource_differs(upstream: str, url: str, found: str | None) -> str:
    """Without what looks like a secret in a URL: some servers have keys there."""
    own = shown(masked_url(url))
    if found is None:
        return (
            f"The metadata of {upstream} name no resource that can be read, so they are not trusted. Its operator has "
            f"to write {own} there."
        )
    told = shown(masked_url(found))
    return (
        f"{upstream} says that it is {told}, which is not {own}, so it is not trusted. "
        f"If you know better, set resource = {quoted(told)} {below(upstream)}."
    )


def no_server(upstream: str) -> str:
    return (
        f"{upstream} names no authorization server that can be used, so nobody knows where to sign in. "
        f"If you know it, set issuer {below(upstream)}."
    )


def no_metadata(upstream: str, issuer: str) -> str:
    return (
        f"{shown(issuer)}, the authorization server of {upstream}, has no metadata where they belong. "
        f"If you know where they are, set metadata_url {below(upstream)}."
    )


def bad_issuer(upstream: str, issuer: str) -> str:
    return (
        f"{shown(issuer)} cannot be an authorization server: it has to be https, without query and fragment. "
        f"Correct issuer {below(upstream)}."
    )


def bad_endpoint(upstream: str, issuer: str, member: str) -> str:
    return (
        f"{shown(issuer)}, the authorization server of {upstream}, names no {member} that can be used: it has to be an "
        "https URL, without user, fragment and parameters of its own request. Its operator has to correct that."
    )


def needs_https(upstream: str) -> str:
    return (
        f"{upstream} wants you to sign in, but its URL is not https, so everybody between could read along. "
        "Use its https URL."
    )


def forbidden_scopes(upstream: str, wanted: str) -> str:
    return (
        f"{upstream} wants the scopes {wanted}, and max_scopes permits none of them. "
        f"Change max_scopes {below(upstream)}, or use {upstream} without them."
    )


def too_many_scopes(upstream: str) -> str:
    return (
        f"{upstream} names more scopes than can be asked for at once. Write those that you need as scopes "
        f"{below(upstream)}."
    )
