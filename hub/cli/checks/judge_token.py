"""A token as the hub would judge it, for `hubd doctor --token`: whom it lets in, or why it does not.

The configuration is judged by, whether or not a hub runs; issuers are asked as a hub asks them. The token goes to its
own issuer at most, and is never shown.
"""

import hmac
import os
import re
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import trio

from config import base_directories
from config.loading.assemble import load_all
from config.loading.parse_addresses import split_listen
from config.security_settings import AccessIssuer
from config.settings import HubConfig
from hub.cli.checks.findings import Finding, join_few
from hub.cli.checks.machine_state import own_token
from hub.cli.context import UsageError, now
from hub.downstream.access.claims import TokenVerdict, lacking
from hub.downstream.access.hub_urls import resource_of
from hub.downstream.access.read_unverified_jwt import Unfit, read_jwt
from hub.downstream.access.resource_metadata import MCP_PATH, ResourceMetadata
from hub.downstream.access.token_files import PREFIX
from hub.downstream.access.token_lookup import Named, NamedTokens
from hub.downstream.access.trusted_issuer import CannotAsk, Issuer
from hub.link.call_interface import Identity
from hub.wire.printable import printable
from upstreams.fetch.fetcher import Fetcher

MAX_BYTES: Final = 64 << 10
MAX_SHOWN: Final = 200
_BEARER = re.compile(r"(?i:bearer) +")
_TOKEN = re.compile(r"[!-~]+")


def findings_on(file: str, config: Path | None) -> list[Finding]:
    """The finding on the token in `file`. Raises ConfigError: the configuration cannot be used; UsageError: the file
    cannot be read."""
    text = _text_of(file)
    loaded = load_all(config, os.environ)
    resource = resource_of(loaded.config, *split_listen(loaded.config.listen))
    judge = TokenJudge(loaded.config, resource, Fetcher(loaded.environ))
    return [trio.run(judge.finding, text)]


def _text_of(file: str) -> str:
    try:
        with sys.stdin.buffer if file == "-" else open(file, "rb") as source:
            data = source.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"--token: cannot read {file}: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise UsageError(f"--token: {file} has more than {MAX_BYTES} bytes, so it holds more than a token")
    return _BEARER.sub("", data.decode(errors="replace").strip(), count=1)


class TokenJudge:
    """Judges by one configuration. `resource` is the URL of the hub, `fetch` asks issuers."""

    def __init__(self, config: HubConfig, resource: str, fetch: Fetcher) -> None:
        self._config = config
        self._fetch = fetch
        issuers = [issuer.issuer for issuer in config.access.issuers]
        self._metadata = ResourceMetadata(resource, issuers, config.access.required_scopes)

    async def finding(self, token: str) -> Finding:
        """The outcome for whoever shows `token`, in the order in which a hub looks."""
        config = self._config
        if config.auth == "none":
            return _let_in("whoever shows it, or none, is the hub's owner", 'auth = "none" asks nobody for a token')
        if not _TOKEN.fullmatch(token):
            return _refuse("the file is empty, or holds more than one word", "write the token alone into the file")
        own = own_token(Path(base_directories.state_dir())) if config.token is None else config.token.reveal()
        if own is not None and hmac.compare_digest(own.encode(), token.encode()):
            return _let_in("whoever shows it is the hub's owner", "it is the hub's own token")
        if isinstance(named := self._find_host_token(token), Finding):
            return named
        if named is not None:
            until = "for ever" if named.until == float("inf") else f"until {_moment(named.until)}"
            why = f"it is a token of this hub's own making, or of its configuration, and counts {until}"
            return _let_in(_who(named.identity), why)
        if config.auth != "oauth":
            why = f'it is not the hub\'s own and of no host, or has ended; with auth = "{config.auth}" no other counts'
            return _refuse(why, '`hubd token` prints the hub\'s own; auth = "oauth" has tokens of others count')
        return await self._of_issuer(token)

    def _find_host_token(self, token: str) -> Named | Finding | None:
        tokens = NamedTokens(Path(base_directories.state_dir(), "tokens.json"), _wall)
        tokens.configure(self._config.access.tokens)
        if (named := tokens.find(token)) is not None or not token.startswith(PREFIX):
            return named
        if tokens.problem:
            return _refuse(tokens.problem, "do what it says")
        why = "it looks like a token of `hubd token new`, and there is none like it: it was revoked or replaced, has"
        fix = "`hubd token list` shows what there is; `hubd token rotate NAME` replaces one"
        return _refuse(f"{why} ended, or is of another hub", fix)

    # --- tokens of authorization servers ------------------------------------------------------------------------------

    async def _of_issuer(self, token: str) -> Finding:
        if token.count(".") != 2:
            return await self._ask(token)
        try:
            jwt = read_jwt(token)
        except Unfit as unfit:
            return _refuse(str(unfit), "have the authorization server make one as RFC 9068 says")
        settings = next((each for each in self._config.access.issuers if each.issuer == jwt.issuer), None)
        if settings is None:
            known = join_few([each.issuer for each in self._config.access.issuers])
            fix = "get a token from there, or write that issuer below [[access.issuers]], to the letter"
            return _refuse(f"it says that its issuer is {_show(jwt.issuer)}, and the hub knows {known}", fix)
        issuer = self._issuer(settings)
        await issuer.read_keys()
        if issuer.problem:
            return _nobody_can_say(issuer.problem)
        try:
            return self._judge(issuer.judge(jwt), settings)
        except Unfit as unfit:
            return _unfit(unfit, settings)

    async def _ask(self, token: str) -> Finding:
        settings = next((each for each in self._config.access.issuers if each.introspection.client_id), None)
        if settings is None:
            fix = "have the issuer make JWTs, or set `introspection` below [[access.issuers]], so that it can be asked"
            return _refuse("it is no JWT, and the hub knows no issuer that it could ask what it is worth", fix)
        try:
            return self._judge(await self._issuer(settings).ask(token), settings)
        except CannotAsk as error:
            return _nobody_can_say(str(error))
        except Unfit as unfit:
            return _unfit(unfit, settings)

    def _issuer(self, settings: AccessIssuer) -> Issuer:
        return Issuer(settings, self._fetch, _wall, lambda: None)

    def _judge(self, verdict: TokenVerdict, settings: AccessIssuer) -> Finding:
        place = self._place(verdict, settings)
        if place is None:
            whom = join_few([_show(each) for each in sorted(verdict.audiences)], most=4)
            fix = f"ask {settings.issuer} for one for the resource {self._metadata.resource}, to the letter"
            fix += "; where it knows no resources, set `audiences` below [[access.issuers]]"
            return _refuse(f"it is for {whom} (`aud`), and not for this hub, {self._metadata.resource}", fix)
        required = self._config.access.required_scopes
        if lacking(required, verdict.scopes):
            missing = [each for each in required if lacking((each,), verdict.scopes)]
            has = join_few([_show(each) for each in sorted(verdict.scopes)]) if verdict.scopes else "none"
            why = f"it lacks the scope {join_few(missing)} of required_scopes; it has {has}"
            return _refuse(why, f"ask {settings.issuer} for a token with it", status=403)
        return _let_in(f"{_who(verdict.identity)}, at {place}", f"it counts until {_moment(verdict.until)}")

    def _place(self, verdict: TokenVerdict, settings: AccessIssuer) -> str | None:
        """The place where the token opens the hub; None: nowhere."""
        metadata, audiences, own = self._metadata, verdict.audiences, self._metadata.resource
        if metadata.is_opened_by(audiences, MCP_PATH, settings.audiences):
            return "/mcp and all below it"
        below = (each.removeprefix(own) for each in sorted(audiences) if each.startswith(own))
        return next((f"{MCP_PATH}{path}" for path in below if metadata.is_opened_by(audiences, MCP_PATH + path)), None)


def _who(identity: Identity) -> str:
    return f"whoever shows it is {_show(identity.principal)}, as the host {_show(identity.host)}"


def _let_in(what: str, why: str) -> Finding:
    return Finding("token", "note", f"the token opens the hub: {what}", why, "nothing")


def _refuse(why: str, fix: str, *, status: int = 401) -> Finding:
    return Finding("token", "problem", f"the hub refuses the token ({status})", why, fix)


def _unfit(unfit: Unfit, settings: AccessIssuer) -> Finding:
    return _refuse(str(unfit), f"get another one from {settings.issuer}, or correct what it says there")


def _nobody_can_say(why: str) -> Finding:
    fix = "see that the issuer runs, that this machine reaches it, and that its metadata are what they should be"
    return Finding("token", "problem", "nobody can say now what the token is worth (503)", why, fix)


def _show(text: str) -> str:
    return printable(text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}...")


def _moment(at: float) -> str:
    with suppress(ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
    return "the end of all time"


def _wall() -> float:
    return now().timestamp()
