"""Step-up: whether an operation that the upstream refuses for want of scopes leads to another sign-in. Pure."""

from collections.abc import Sequence
from typing import Final

from config.name_globs import NameChoice
from config.oauth_settings import UpstreamOAuth
from upstreams.oauth.model import Challenge, Grant

MAX_STEP_UPS: Final = 2
"""Sign-ins for more scopes that one operation leads to."""
MAX_OPERATIONS: Final = 256


class StepUps:
    """Those of one credential; `most`: for one operation."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._tried: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<StepUps {self._tried}>"

    def scopes(self, grant: Grant, challenge: Challenge, settings: UpstreamOAuth, operation: str) -> str:
        """The scopes to ask for: granted, asked for before, and challenged; "": another sign-in is of no use."""
        challenged = challenge.scope.split()
        wanted = _permitted([*grant.scope.split(), *grant.asked_scope.split(), *challenged], settings)
        tried = self._tried.get(operation, 0)
        is_forbidden = not set(challenged) <= set(wanted)
        gave_less = bool(challenged) and set(challenged) <= set(grant.asked_scope.split())
        if is_forbidden or gave_less or tried >= self._most or not challenged:
            return ""
        if len(self._tried) < MAX_OPERATIONS or operation in self._tried:
            self._tried[operation] = tried + 1
        return " ".join(wanted)


def _permitted(scopes: Sequence[str], settings: UpstreamOAuth) -> list[str]:
    choice = NameChoice(settings.max_scopes or ("*",))
    return [scope for scope in dict.fromkeys(scopes) if scope in choice]
