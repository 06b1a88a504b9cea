"""Secrets that stand literally in settings of servers: where they are, and references in their places.

    spots_of(values)                      the places that look like secrets: (setting, name or position in it)
    refer_to_store(values, name, spots, new)  ${secret:SERVER_VARIABLE} in their places; `new` gets names and values
    referring(values, name, spots)        ${VARIABLE} in their places; the variables

Nothing is kept here: whoever writes the references first gives `NewSecrets.keep` the store. Only names may be shown.
"""

import re
from collections.abc import Callable, Mapping
from copy import copy
from hashlib import sha256
from itertools import count
from typing import Any, Final, NamedTuple

from config.diagnostics import EditError
from config.secrets.detection import looks_secret, secret_arguments
from config.secrets.store import SecretStore, SecretUnavailable, Stored
from config.setting_declarations import Secret

MAX_NAME: Final = 56
"""Characters of a name that leave room for a number or a digest."""
_SCHEME = re.compile(r"(?:Bearer|Basic|token) +", re.I)
_LIVE = re.compile(r"(?<!\$)\$\{")
_USE = re.compile(r"(?<!\$)\$\{secret:([A-Za-z0-9_.-]{1,64})\}|\0secret:[0-9a-f]*:([A-Za-z0-9_.-]{1,64})\0")

Spots = list[tuple[str, str]]


class _Literal(NamedTuple):
    """A secret in its setting."""

    before: str
    """The text that stands before it and stays: the name of an option, a word such as `Bearer`."""
    variable: str
    """The name that it has there, or a word for where it stands."""
    value: str


class NewSecrets:
    """Secrets that are to be kept under names of their own. `store` says which names are taken."""

    def __init__(self, store: SecretStore) -> None:
        self._store = store
        self._taken = store.names()
        self._made: list[str] = []
        self._variables: set[str] = set()
        self.values: dict[str, Secret] = {}

    def __repr__(self) -> str:
        return f"<NewSecrets {', '.join(self.values)}>"

    def keep_variable(self, name: str, value: str) -> None:
        """Keep a variable under its own name, by which servers refer to it. There is no secret of that name yet."""
        self._variables.add(name)
        self.values[name] = Secret(value)

    def name_for(self, wanted: str, value: str) -> str:
        """The name under which `value` is kept, or will be: `wanted`, or with a number if that is another secret."""
        digest = sha256(wanted.encode()).hexdigest()[:8]
        short = wanted if len(wanted) <= MAX_NAME else f"{wanted[: MAX_NAME - 9]}_{digest}"
        for number in count(1):
            name = short if number == 1 else f"{short}_{number}"
            if name not in self.values and name not in self._taken:
                self.values[name] = Secret(value)
                return name
            if self._value(name) == value:
                return name
        raise AssertionError

    def _value(self, name: str) -> str | None:
        return self.values[name].reveal() if name in self.values else self._store_name(name)

    def _store_name(self, name: str) -> str | None:
        try:
            return self._store.get(name)
        except SecretUnavailable:
            return None

    def forget_unused(self, texts: list[str]) -> None:
        """Drop secrets that no text refers to, but not variables."""
        used = {name for name in self.values if any(f"${{secret:{name}}}" in text for text in texts)} | self._variables
        self.values = {name: value for name, value in self.values.items() if name in used}

    def keep(self) -> dict[str, Stored]:
        """Keep all of them; where each is that was not there yet.
        Raises: EditError, if a name has another secret by now, and none was kept; or one cannot be kept, and those
        before it are."""
        names = self._store.names()
        if changed := [name for name in self.values if name in names and self._store_name(name) != self._value(name)]:
            text = "was kept by another program meanwhile; nothing was changed: run this again"
            raise EditError(f"the secret {', '.join(changed)} {text}")
        found = {}
        for name in [name for name in self.values if name not in names]:
            self._made.append(name)
            found[name] = self._store.keep(name, self.values[name].reveal())
        return found

    def take_back(self) -> None:
        """Forget those that `keep` kept, and that are still what it kept.
        Raises: EditError, if some could not be forgotten; the others were."""
        failed = []
        for name in sorted(self._store.names().keys() & set(self._made)):
            try:
                if (value := self._store_name(name)) is None:
                    failed.append(f"{name}: it cannot be read now, so it was left")
                elif value == self.values[name].reveal():
                    failed.append(self._store.remove(name))
            except EditError as error:
                failed.append(f"{name}: {error}")
        if any(failed):
            raise EditError("; ".join(filter(None, failed)))


def spots_of(values: Mapping[str, Any]) -> Spots:
    """The places of secrets in the settings of a server: the setting, and the name or position in it."""
    found = [
        (setting, name)
        for setting in ("env", "headers")
        for name, value in _table(values.get(setting)).items()
        if isinstance(name, str) and isinstance(value, str) and looks_secret(name, value)
    ]
    found += [("args", str(at)) for at, _ in secret_arguments(_words(values))]
    url = values.get("url")
    return [*found, ("url", "")] if isinstance(url, str) and looks_secret("", url) else found


def refer_to_store(values: Mapping[str, Any], name: str, spots: Spots, new: NewSecrets) -> dict[str, Any]:
    """The settings of the server `name` with references to secrets; the secrets are added to `new`.

    A value that holds a reference already stays as it is.
    """

    def refer(literal: _Literal) -> str | None:
        if _LIVE.search(literal.value):
            return None
        wanted = re.sub(r"[^A-Za-z0-9_.-]", "_", f"{_upper(name)}_{literal.variable}")
        return f"${{secret:{new.name_for(wanted, literal.value.replace('$${', '${'))}}}"

    return _replace(values, spots, refer)


def referring(values: Mapping[str, Any], name: str, spots: Spots) -> tuple[dict[str, Any], list[str]]:
    """The settings of the server `name` with references to variables, and the variables."""
    variables: list[str] = []

    def refer(literal: _Literal) -> str:
        is_of_env = literal.variable in _table(values.get("env"))
        variables.append(literal.variable if is_of_env else f"{_upper(name)}_{literal.variable}")
        return f"${{{variables[-1]}}}"

    return _replace(values, spots, refer), variables


def _replace(values: Mapping[str, Any], spots: Spots, refer: Callable[[_Literal], str | None]) -> dict[str, Any]:
    found = {setting: copy(value) for setting, value in values.items()}
    for setting, at in spots:
        literal = _literal(values, setting, at)
        reference = refer(literal)
        if reference is None:
            continue
        text = literal.before + reference
        if setting == "url":
            found["url"] = text
        else:
            found[setting][int(at) if setting == "args" else at] = text
    return found


def _literal(values: Mapping[str, Any], setting: str, at: str) -> _Literal:
    if setting == "url":
        return _Literal("", "URL", values["url"])
    if setting == "env":
        return _Literal("", at, values["env"][at])
    if setting == "headers":
        scheme, value = _scheme(values["headers"][at])
        return _Literal(scheme, "TOKEN" if at.lower() == "authorization" else _upper(at), value)
    word = _words(values)[int(at)]
    start = dict(secret_arguments(_words(values)))[int(at)]
    scheme, value = _scheme(word[start:])
    return _Literal(word[:start] + scheme, _upper(word[:start].strip("-=: ")) or f"ARG_{at}", value)


def _scheme(value: str) -> tuple[str, str]:
    """The word before a secret, if there is one, and the secret."""
    found = _SCHEME.match(value)
    return (found[0], value[found.end() :]) if found else ("", value)


def _upper(text: str) -> str:
    return re.sub(r"[^A-Z0-9]", "_", text.upper())


def _words(values: Mapping[str, Any]) -> list[str]:
    args = values.get("args")
    return [word if isinstance(word, str) else "" for word in args] if isinstance(args, list | tuple) else []


def _table(value: object) -> Mapping[Any, Any]:
    """`value`, or an empty table if it is none: problems of an entry are told when it is checked."""
    return value if isinstance(value, Mapping) else {}


def open_references(value: Any, secret: Callable[[str], str | None]) -> Any:
    """`value` with known secrets in the places of references to them, so that it can be compared with what a host has;
    in all strings of tuples."""
    if isinstance(value, str):
        return _USE.sub(lambda found: secret(found[1] or found[2]) or found[0], value) if "secret:" in value else value
    return tuple(open_references(each, secret) for each in value) if isinstance(value, tuple) else value
