"""The texts for people about sign-ins, beside what the parts say that failed. Pure."""

NO_SUCH_SIGN_IN = (
    'This hub did not begin this sign-in, or it is over. If you began it with "hubd auth" on another machine, paste'
    " this page's address into that terminal. If somebody sent you here, close it: its address opens your account."
)


NO_SCOPES = "What --scope names are no scopes: those are visible ASCII without quotes, joined by single spaces."


NO_PORT = "No port of 127.0.0.1 is free for a browser to come back to"


def forbidden_scopes(upstream: str, scopes: str) -> str:
    return f"max_scopes of {upstream} does not permit {scopes}. Change it in the configuration, or leave them out."


def visit(upstream: str, server: str, code: str = "") -> str:
    """The text for a person whom a host sends to the page where a sign-in begins."""
    return f"{upstream} needs you to sign in at {server}." + (f" The page asks for this code: {code}" if code else "")


def sign_in_needed(upstream: str, server: str, url: str = "", code: str = "") -> str:
    """The text for a host's model about a call that needs a sign-in first; `url`: where it can be begun now, and the
    `code` that the page asks for."""
    at = f" at {server}" if server else ""
    way = f" or to open {url}" if url else ""
    way += f" and type the code {code} there" if code else ""
    return f'{upstream} needs you to sign in{at}. Ask the user to run "hubd auth {upstream}"{way}, then try again.'


def owner_needed(upstream: str, *, shared: bool) -> str:
    """The same for somebody who cannot sign in for all. `shared`: all use the owner's account."""
    if shared:
        return f"{upstream} needs a sign-in, and its owner has to sign in: all of this hub use the owner's account."
    return (
        f"{upstream} needs a sign-in, and the owner of this hub does not share an account there. In the owner's "
        f'hubd.toml, below [upstreams.{upstream}], across_principals = true shares it, and oauth.account = "each" lets '
        "everybody sign in."
    )


def one_of_several(upstream: str) -> str:
    who = upstream or "The identity provider"
    return (
        f"{who} needs a sign-in, and this hub is one of several ([replica]), which do not share sign-ins. The operator"
        f" can set headers.Authorization of {who} instead, or have the hubs come as themselves"
        ' (oauth.grant = "client_credentials").'
    )


def port_taken(port: int) -> str:
    return f"Port {port} of redirect_uri is taken by another program; stop it, or register another URI."


def used_at_another(uri: str, before: str, issuer: str) -> str:
    return (
        f"{uri} is the redirect_uri for {before}, and neither that nor {issuer} says who sends an answer, so it cannot"
        f" be used for both; register another one. If the hub is registered at {before} no more, stop the hub and take"
        f" {uri} out of only_for in oauth/facts.json of its state directory."
    )


def another_server(upstream: str, now: str, before: str) -> str:
    return (
        f"{upstream} now names {now} as its authorization server; until now it was {before}. If you expect that, run"
        f' "hubd auth {upstream}" in a terminal.'
    )


def used_by_another(upstream: str, issuer: str, other: str) -> str:
    return (
        f"{upstream} names {issuer} as its authorization server, where you are signed in for {other}, which is"
        f" somewhere else; a token for one may be good for the other. If you expect that, run"
        f' "hubd auth {upstream}" in a terminal.'
    )


def changed_meanwhile(upstream: str) -> str:
    return (
        f"The configuration of {upstream} has changed since this sign-in began, so what it came back with is not used."
        " Begin it again."
    )


def too_slow(upstream: str) -> str:
    return f"What {upstream} names as its authorization server did not say in time how to sign in there"


def too_many(upstream: str) -> str:
    return (
        f"{upstream} has asked for more than three sign-ins within an hour. If you want another one, run"
        f' "hubd auth {upstream}" in a terminal.'
    )


def unknown_browser(upstream: str) -> str:
    return f'hubd cannot see that this browser is yours. Run "hubd auth {upstream} --no-browser" where hubd runs.'


def browser_of_a_server(upstream: str) -> str:
    return (
        "This browser was started by a server that hubd runs, and a server must not sign in for you. Open this address"
        f' in a browser that you have started yourself, or run "hubd auth {upstream} --no-browser" in a terminal.'
    )


def ticket_over(upstream: str = "NAME") -> str:
    return f'This sign-in was never asked for, or it is over. To sign in, run "hubd auth {upstream}".'


def refused_to_hosts(command: str) -> str:
    return (
        f'"{command}" was run by a program of a host or a server, and only a person may do that. Run it in a terminal.'
    )
