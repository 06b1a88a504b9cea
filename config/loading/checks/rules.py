"""Checks of rules of who may use what: `[policy]`, the lists of one server, and `[[hooks]]`. Pure.

A rule that cannot be understood refuses the whole file: whoever wrote it relies on it.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from config.diagnostics import Keys, Problem
from config.loading.parse_addresses import split_url
from config.loading.precedence import Origin
from config.name_globs import problem_of
from config.policy.cel_conditions import BadCondition, compile_condition
from config.policy.selectors import GROUP, MAX_SELECTORS, SCOPE, TOOL, BadSelector, Selector, read_selector
from config.security_settings import ConditionalRule, HookConfig, PolicyConfig
from config.setting_declarations import declarations
from config.settings import LOOPBACK, HubConfig, ServerSettings, UpstreamConfig

LISTS: Final = ("allow", "ask", "deny")
PINNING: Final = ("off", "warn", "freeze", "quarantine", "required")
HIDDEN_TEXT: Final = ("pass", "strip", "quarantine")
"""The values of these settings, the laxest first."""
MAX_RULES: Final = 200
MAX_HOOKS: Final = 50
_NO_ARGUMENTS: Final = "means {}s, which have no arguments to judge"
_NOT_ASKED: Final = "means no tools, and only calls of tools are asked about"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def problems_of_policy(config: HubConfig) -> Iterator[Problem]:
    """Problems of `[policy]`."""
    policy, count, issuers = config.policy, 0, [each.name for each in config.access.issuers]
    for name in LISTS:
        selectors: Sequence[str] = getattr(policy, name)
        count += len(selectors)
        yield from _problems_of_list(selectors, ("policy", name), issuers)
    if policy.allow and policy.default is None and policy.mode != "read-only":
        text = 'says what may be used beside what may anyway; write default = "deny" above it'
        yield Problem("policy.allow", text)
    if policy.mode == "read-only" and policy.default == "allow":
        yield Problem("policy.default", '"allow" contradicts mode = "read-only", which allows what only reads')
    if len(policy.rules) > MAX_RULES:
        yield Problem("policy.rules", f"has {len(policy.rules)} rules, and {MAX_RULES} are the most")
        return
    for number, rule in enumerate(policy.rules):
        keys = ("policy", "rules", str(number))
        count += len(rule.match)
        yield from _problems_of_rule(rule, keys, issuers)
    if count > MAX_SELECTORS:
        yield Problem("policy", f"has {count} selectors, and {MAX_SELECTORS} are the most; join some of them by globs")
    if policy.default == "allow" and policy.allow:
        yield Problem("policy.allow", 'has no effect with default = "allow"; write default = "deny", or take it out')


def warnings_of_policy(config: HubConfig, upstreams: Mapping[str, UpstreamConfig]) -> Iterator[Problem]:
    """Warnings about rules that leave nothing of any of these servers."""
    policy = config.policy
    says = policy.default is not None or policy.mode == "read-only" or policy.allow or policy.rules
    if default_of(config) == "deny" and not says and not any(upstream.allow for upstream in upstreams.values()):
        text = "lets in others than you, so everything is denied that no rule allows, and none does; write"
        yield Problem("auth", f'{text} default = "deny" and allow = [...] below [policy], or default = "allow"')


def words_on_project(
    base: HubConfig, upstreams: Mapping[str, UpstreamConfig], said: Mapping[str, Collection[str]]
) -> Iterator[str]:
    """The sentences for whoever is to trust a project, about its own servers: what they say of themselves against what
    the configuration of the user, `base`, says of all. `said`: the settings that the project has of each."""
    policy = base.policy
    for name, keys in said.items():
        upstream = upstreams[name]
        yours = {
            "allow": 'default = "deny"' if upstream.allow and default_of(base) == "deny" else "",
            "trusted": "rules by what tools do" if upstream.trusted and _goes_by_marks(policy) else "",
            "hints": "rules by what tools do" if upstream.hints and _goes_by_marks(policy) else "",
            "pinning": _stricter("pinning", upstream, policy),
            "hidden_text": _stricter("hidden_text", upstream, policy),
        }
        for key, each in declarations(ServerSettings).items():
            common = getattr(base.defaults, each.attribute)
            if each.setting.owner and common not in (each.default, getattr(upstream, each.attribute)):
                yours[key] = f"`{key}` below [defaults]"
        if name in base.upstreams and is_ruled(base, base.upstreams):
            yield f"{name} is there in place of your server of that name, and your rules that name it count for it"
        for key in keys:
            if counts := yours.get(key):
                yield f"{name} says its own `{key}`, which counts there whatever your {counts} says"


def _goes_by_marks(policy: PolicyConfig) -> bool:
    texts = (*policy.allow, *policy.ask, *policy.deny, *(each for rule in policy.rules for each in rule.match))
    conditions = any(word in rule.when for rule in policy.rules for word in ("hints", "trusted"))
    return policy.mode != "open" or conditions or any("@" in text for text in texts)


def _stricter(key: str, upstream: UpstreamConfig, policy: PolicyConfig) -> str:
    """The value that `[policy]` has, if it is stricter than that of a server."""
    own, common = getattr(upstream, key), getattr(policy, key)
    order = HIDDEN_TEXT if key == "hidden_text" else PINNING
    return f'{key} = "{common}"' if own is not None and order.index(own) < order.index(common) else ""


def _problems_of_rule(rule: ConditionalRule, keys: Keys, issuers: Sequence[str]) -> Iterator[Problem]:
    if rule.effect is None:
        yield Problem((*keys, "effect"), 'is missing: "allow", "ask" or "deny"')
    if not rule.match:
        yield Problem((*keys, "match"), 'is missing: selectors of the tools that it is about, such as ["fs__write_*"]')
    yield from _problems_of_list(rule.match, (*keys, "match"), issuers, _NO_ARGUMENTS)
    if len(rule.reason) > 300 or not rule.reason.isprintable():
        yield Problem((*keys, "reason"), "must be printable text of at most 300 characters")
    if rule.when:
        try:
            compile_condition(rule.when)
        except BadCondition as error:
            yield Problem((*keys, "when"), str(error))


def problems_of_rules_of_server(upstream: UpstreamConfig) -> Iterator[Problem]:
    """Problems of the lists of one server, its hints, what its tools touch, and what they cost."""
    for name in LISTS:
        yield from _problems_of_list(getattr(upstream, name), (name,), ())
    if sum(len(getattr(upstream, name)) for name in LISTS) > MAX_SELECTORS:
        yield Problem("deny", f"has more than {MAX_SELECTORS} selectors together with `ask` and `allow`")
    for name in ("hints", "flow", "prices"):
        given: object = getattr(upstream, name)
        if isinstance(given, Mapping) and given and (why := problem_of(tuple(given))):
            yield Problem(name, why)


def _problems_of_list(
    selectors: Sequence[str], keys: Keys, issuers: Sequence[str], but_tools: str = ""
) -> Iterator[Problem]:
    """`but_tools`: what is wrong with one that is about something else; "": nothing."""
    if len(selectors) > MAX_SELECTORS:
        yield Problem(keys, f"has {len(selectors)} selectors, and {MAX_SELECTORS} are the most; join some by globs")
        return
    for text in selectors:
        try:
            selector = read_selector(text)
        except BadSelector as error:
            yield Problem(keys, f'"{text[:60]}" {error}')
            continue
        if len(issuers) > 1 and (bare := _bare_claims(selector, issuers)):
            other = f"{bare[0].partition(':')[0]}:{issuers[0]}/{bare[0].partition(':')[2]}"
            why = f'"{text[:60]}" does not say whose {bare[0]} it means, and any issuer could give it: write {other}'
            yield Problem(keys, why)
        if but_tools and selector.kind != TOOL:
            yield Problem(keys, f'"{text[:60]}" {but_tools.format(selector.kind)}')


def _bare_claims(selector: Selector, issuers: Sequence[str]) -> list[str]:
    """The scopes and groups in a selector that do not begin with the name of an issuer."""
    terms = (term for term, _ in selector.by if term.kind in (SCOPE, GROUP))
    return [str(term) for term in terms if term.name.partition("/")[0] not in issuers or "/" not in term.name]


def default_of(config: HubConfig) -> str:
    """The effect where no rule says anything: "allow" or "deny"."""
    policy = config.policy
    if policy.default is not None:
        return policy.default
    return "deny" if policy.mode == "read-only" or config.serves_several else "allow"


def is_ruled(config: HubConfig, upstreams: Mapping[str, UpstreamConfig]) -> bool:
    """True if there is any rule at all, or a default that denies."""
    policy = config.policy  # of which pins are no rule
    unruled = PolicyConfig(pinning=policy.pinning, hidden_text=policy.hidden_text, pins_file=policy.pins_file)
    if policy != unruled or default_of(config) == "deny":
        return True
    return any(upstream.allow or upstream.ask or upstream.deny for upstream in upstreams.values())


def places_of_rules(origins: Mapping[Keys, Origin]) -> dict[Keys, Origin]:
    """The places where rules stand."""
    return {keys: at for keys, at in origins.items() if keys[0] == "policy" or (len(keys) == 3 and keys[2] in LISTS)}


# --- hooks ------------------------------------------------------------------------------------------------------------


def problems_of_hooks(config: HubConfig) -> Iterator[Problem]:
    """Problems of the hooks of a hub."""
    if len(config.hooks) > MAX_HOOKS:
        yield Problem("hooks", f"has {len(config.hooks)} hooks, and {MAX_HOOKS} are the most")
    names = [hook.name for hook in config.hooks]
    for number, hook in enumerate(config.hooks):
        keys = ("hooks", str(number))
        yield from (Problem((*keys, key), text) for key, text in _problems_of_hook(hook, names[:number]))
        yield from _problems_of_list(hook.match, (*keys, "match"), (), _NOT_ASKED)


def _problems_of_hook(hook: HookConfig, before: list[str]) -> Iterator[tuple[str, str]]:
    if not _NAME.fullmatch(hook.name):
        yield "name", "must be lower-case letters, digits, dots, dashes or underscores, at most 64"
    elif hook.name in before:
        yield "name", f"there is another hook {hook.name}"
    if hook.on is None:
        yield "on", 'is missing: "before" or "after" a call'
    if not hook.match:
        yield "match", 'is missing: selectors of the tools that it is asked about, such as ["github__*"]'
    if bool(hook.command) == bool(hook.url):
        yield "command", "give a program (`command`) or an address (`url`), one of them"
    if hook.url and not _is_safe(hook.url):
        yield "url", "must be https, or http to this machine (127.0.0.1, localhost, [::1])"


def _is_safe(url: str) -> bool:
    parts = split_url(url)
    if parts is None or not parts.hostname:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
