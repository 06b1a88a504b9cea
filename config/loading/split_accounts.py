"""Accounts at one server, each as a server of its own: what runs is one of them.

    [upstreams.github.accounts.work]      ->  "github": what is written first has the name of the server,
    [upstreams.github.accounts.private]       "github:private": any other one is started when it is first used

Pure.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import structs

from config.diagnostics import Problem, quote_toml
from config.profile_settings import Profile
from config.security_settings import UpstreamOAuth
from config.server_names import ACCOUNT_MARK, NO_ACCOUNTS, RULE, account_id, is_server_id, server_of
from config.settings import UpstreamConfig

MAX_ACCOUNTS: Final = 64
MAX_QUOTED: Final = 60
OWN: Final = ("env", "headers", "oauth")
"""The settings that an account may have of its own."""


def split_accounts(configs: Mapping[str, UpstreamConfig]) -> dict[str, UpstreamConfig]:
    """All that is to run: of each server its accounts, by the names that they run under."""
    return {
        running_as(name, config.accounts, account): each
        for name, config in configs.items()
        for account, each in _accounts_of(config)
    }


def running_as(server: str, accounts: Iterable[str], account: str) -> str:
    """The name under which an account at a server runs."""
    return server if account == next(iter(accounts), account) else account_id(server, account)


def serves_by_default(name: str, config: UpstreamConfig | None) -> bool | None:
    """Whether what runs as `name` serves where neither host, project nor profile says another account; None: its server
    has one. `config`: of the whole server."""
    if config is None or not config.accounts:
        return None
    account = config.account if config.account in config.accounts else next(iter(config.accounts))
    return name == running_as(server_of(name), config.accounts, account)


def whole_name(name: str, config: UpstreamConfig) -> str:
    """The name of what runs as `name` with that of its account. It stays the same, whichever account is written first:
    sign-ins are kept under it, and records say it."""
    if ACCOUNT_MARK in name or config.account in NO_ACCOUNTS:
        return name
    return account_id(name, config.account)


def _accounts_of(config: UpstreamConfig) -> Iterator[tuple[str, UpstreamConfig]]:
    if not config.accounts:
        yield "", config
    for at, (account, own) in enumerate(config.accounts.items()):
        oauth, none = structs.asdict(own.oauth), structs.asdict(UpstreamOAuth())
        said = {key: value for key, value in oauth.items() if value != none[key]}
        env, headers = {**config.env, **own.env}, {**config.headers, **own.headers}
        signs_in, start = structs.replace(config.oauth, **said), "lazy" if at else config.start
        facts = {"env": env, "headers": headers, "oauth": signs_in, "account": account, "accounts": {}, "start": start}
        yield account, structs.replace(config, **facts)


def problems_of_accounts(upstream: UpstreamConfig) -> Iterator[Problem]:
    """Problems of the names of accounts, and of the choice among them."""
    accounts = upstream.accounts
    for name in accounts:
        if name in NO_ACCOUNTS:
            text = f"{quote_toml(name)} is no name of an account: it says whose accounts are used; choose another name"
            yield Problem(("accounts", name), text)
        elif not is_server_id(name):
            yield Problem(("accounts", name), f"cannot name an account: use {RULE}")
    if len(accounts) > MAX_ACCOUNTS:
        yield Problem("accounts", f"there are {len(accounts)} accounts, and {MAX_ACCOUNTS} are the most")
    if accounts and upstream.account == "each":
        text = '"each" gives every principal an account of their own, and `accounts` are yours; take one of them out'
        yield Problem("account", text)
    elif upstream.account not in (*NO_ACCOUNTS, *accounts):
        yield Problem("account", unknown_account(upstream.account, accounts))


def unknown_account(account: str, accounts: Mapping[str, object]) -> str:
    """The sentence: a server has no account of this name."""
    known = f"there are: {', '.join(accounts)}" if accounts else "the server has no `accounts`"
    return f"there is no account {quote_toml(account[:MAX_QUOTED])}; {known}"


def problems_of_chosen_accounts(
    profiles: Mapping[str, Profile], upstreams: Mapping[str, UpstreamConfig]
) -> Iterator[Problem]:
    """Problems of profiles that name accounts which there are not: nobody else's may serve in their place."""
    for name, profile in profiles.items():
        for server, account in profile.accounts.items():
            keys = ("profiles", name, "accounts", server[:MAX_QUOTED])
            if (upstream := upstreams.get(server)) is None:
                yield Problem(keys, f"there is no server {quote_toml(server[:MAX_QUOTED])}")
            elif account not in upstream.accounts:
                yield Problem(keys, unknown_account(account, upstream.accounts))
