"""Effects and verdicts: all that rules can say of a call. Pure."""

from enum import Enum
from typing import Final, NamedTuple


class Effect(Enum):
    """The fate of a call."""

    ALLOW = "allow"
    ASK = "ask"
    """A person is asked first."""
    DENY = "deny"


class Verdict(NamedTuple):
    """The word of the rules about one thing for one caller."""

    effect: Effect
    rule: str
    """The rule that decided it, for people: its file and line, and where it stands there, such as
    `hubd.toml:12 mode careful`; "default": none did."""
    reason: str = ""
    """The reason that the rule gives, as a clause; "": it gives none."""
    says: tuple[str, ...] = ()
    """Of one that asks, the digests of what all rules say that ask, wherever they stand; (): it is of no rule."""
    why: str = ""
    """The reason for which it could not be judged, for people alone; ""."""

    @property
    def words(self) -> str:
        """The rule with its reason."""
        return f"{self.rule}: {self.reason}" if self.reason else self.rule


UNRULED: Final = Verdict(Effect.ALLOW, "default")
