"""The parts that settings are declared with: the facts about one setting, and a text that does not show itself."""

from typing import Literal

from msgspec import Struct


class Setting(Struct, frozen=True, kw_only=True):
    """Facts about one setting that its type, default and description do not say."""

    reload: Literal["live", "reconnect", "restart"] | None
    """The time at which a change takes effect: at once, in new sessions with the server, or at the next start of the
    hub. None: a change means nothing by itself (`include`), or each setting of this table says it (`cache`)."""
    min: float | None = None
    """The smallest number."""
    above: float | None = None
    """The number that it must be larger than."""
    max: float | None = None
    """The largest number."""
    unit: str = ""
    """The noun for what the number counts."""
    zero: str = ""
    """The meaning of 0, if it is a special one."""
    pattern: str = ""
    """A regular expression for editors, anchored at the start; `loading.check` is stricter."""
    expanded: bool = False
    """True if variables such as `${NAME}` are replaced."""
    path: bool = False
    """True if it is the path of a file, relative to the file that the setting is in."""
    mask: Literal["guess", "url", "arguments", "never"] = "guess"
    """The form in which a text is shown that is no `Secret` by its type: masked if name or value look like a secret,
    without the secret parts of a URL, without the secrets among arguments, or as it is."""
    identity: Literal["server", "session"] | None = None
    """The identity that it belongs to, of the server or of sessions with it: what is remembered is kept apart by it."""
    needs: Literal["command", "url"] | None = None
    """The setting beside which alone it makes sense."""
    adds: bool = False
    """True if a server's list is added to that of `[defaults]`, and does not replace it."""
    instead_of: tuple[str, ...] = ()
    """Names that other programs have for it, for hints about unknown settings."""


class Secret:
    """A text that does not show itself: its repr and str are masked. Read it with `reveal`."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


def reveal(value: object) -> str:
    """The text of a secret, as an `enc_hook` of msgspec."""
    if isinstance(value, Secret):
        return value.reveal()
    raise NotImplementedError
