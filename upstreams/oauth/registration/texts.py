"""The texts for a person when the hub has no client id at an authorization server. Pure."""

from config.errors import quoted
from upstreams.oauth.discovery.addresses import shown
from upstreams.oauth.discovery.texts import below


def no_stranger(upstream: str, issuer: str, redirect_uri: str, answer: str = "") -> str:
    """`answer`: the status of the registration, and its error if that can be shown."""
    told = f" ({answer})" if answer else ""
    return (
        f"{shown(issuer)} lets no unknown client in{told}. Register hubd there with the redirect URI {redirect_uri} "
        f"and set client_id {below(upstream)}."
    )


def needs_issuer(upstream: str, issuer: str, setting: str) -> str:
    return (
        f"{upstream} has a {setting}, which belongs to one authorization server; write that down as "
        f"issuer = {quoted(shown(issuer))} {below(upstream)}, if it is the right one. Otherwise whichever {upstream} "
        f"names would get the {setting}."
    )


def other_issuer(upstream: str, issuer: str, first: str) -> str:
    return (
        f"The client_id of {upstream} was first used at {shown(first)}, and {upstream} now names {shown(issuer)}, "
        f"where it was not tried. If that is right, set issuer = {quoted(shown(issuer))} {below(upstream)}."
    )


def needs_client_id(upstream: str, grant: str) -> str:
    return f"{upstream} has grant = {quoted(grant)}, for which client_id is needed; set it {below(upstream)}."


def needs_secret(upstream: str, method: str, setting: str) -> str:
    return f"{upstream} has token_auth = {quoted(method)}, which needs {setting} {below(upstream)}."


def no_method(upstream: str, issuer: str) -> str:
    return (
        f"{shown(issuer)} wants clients to prove who they are in a way for which hubd has to be registered by hand. "
        f"Do that, and set client_id and private_key {below(upstream)}."
    )


def bad_answer(upstream: str, issuer: str, what: str) -> str:
    """`what`: what is wrong with the registration, as a clause after "which"."""
    return (
        f"{shown(issuer)} registered hubd for {upstream} in a way that cannot be used: it {what}. Register hubd there "
        f"by hand and set client_id {below(upstream)}."
    )
