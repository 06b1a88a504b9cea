"""Sentences about sign-ins and renewals: what happened, why, and what to do. Pure; without secrets."""


def command(upstream: str) -> str:
    """The command by which a person signs in; `upstream` "": at the company's identity provider."""
    return f'"hubd auth {upstream}"' if upstream else '"hubd auth --idp"'


def sign_in_needed(upstream: str, issuer: str = "") -> str:
    """Nobody has signed in yet, or what there was is over."""
    at = f" at {issuer}" if issuer else ""
    return f"{_who(upstream)} needs you to sign in{at}; run {command(upstream)}."


def grant_gone(upstream: str, issuer: str) -> str:
    """The authorization server does not renew it any more."""
    return f"{issuer} no longer renews the sign-in for {_who(upstream)}; run {command(upstream)}."


def answer_lost(upstream: str, issuer: str) -> str:
    """The answer to a renewal was lost, and with it what the next one needs."""
    return (
        f"The answer to a renewal was lost on the way from {issuer}, and it takes the old token no more; "
        f"run {command(upstream)}."
    )


def client_refused(upstream: str, issuer: str) -> str:
    """The configured client is not known there, or its secret is wrong."""
    where = f"[upstreams.{upstream}.oauth]" if upstream else "[oauth.idp]"
    return f"{issuer} refuses the client_id or client_secret of {_who(upstream)}; correct them below {where}."


def client_forgotten(upstream: str, issuer: str) -> str:
    """The authorization server has forgotten the hub, which registers anew with the next sign-in."""
    return f"{issuer} no longer knows this hub, which registers there anew when you run {command(upstream)}."


def token_refused(upstream: str, issuer: str) -> str:
    """The upstream refuses a token that is fresh."""
    return (
        f"{upstream} refuses (401) the token that {issuer} has just given for it; perhaps it is for another audience. "
        "Nothing is tried for 60 s."
    )


def other_issuer(upstream: str, now: str, before: str) -> str:
    """The upstream names another authorization server than that of the grant."""
    return (
        f"{upstream} now names {now} as its authorization server; until now it was {before}. "
        f"If you expect that, run {command(upstream)} in a terminal."
    )


def not_renewed(upstream: str, why: str, retry_s: float) -> str:
    """The token is over, and there is no other one now."""
    again = f"It is tried again in {max(1, round(retry_s))} s."
    return f"The sign-in for {_who(upstream)} cannot be renewed now: {why}. {again}"


def scope_denied(upstream: str, operation: str, scope: str) -> str:
    """Even with a new sign-in the scopes are not to be had."""
    return f"{upstream} refuses {operation}: it wants the scopes {scope}, and the sign-in does not give them."


def scope_needed(upstream: str, operation: str, scope: str) -> str:
    """A new sign-in is needed for more scopes."""
    return f"{upstream} wants the scopes {scope} for {operation}; run {command(upstream)} to sign in with them."


def _who(upstream: str) -> str:
    return upstream or "the identity provider"
