"""Budgets: how much one upstream may ask, of models and of people, by its configuration.

One budget counts for all sessions of an upstream, and for its successor. What is beyond is refused as any question that
nobody can be asked; the call goes on, if it can do without. Sampling counts by the tokens that are asked for, since
what a host really spends is its own affair.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from config.name_globs import NameChoice
from config.policy.cel_conditions import host_of
from config.settings import UpstreamConfig
from hub.link.rate_limits import TokenBucket
from hub.wire.jsonrpc import peek_str
from hub.wire.mcp import ELICIT, SAMPLE
from hub.wire.modern_metadata import read_number
from hub.wire.questions.askable_questions import Question, QuestionRefusal, mode_of

DAY_S: Final = 86_400.0
SLICES: Final = 24
"""Parts of a day by which tokens are forgotten."""

OnAsked = Callable[[str, str, bool], None]
"""Told that an upstream, by its name, asks models or people something, by its method; True: it may not."""


def tell_nobody(*question: object) -> None:
    """What nobody wants to know of questions."""


class QuestionBudget:
    """The budget of one upstream."""

    def __init__(self, name: str, config: UpstreamConfig, on_asked: OnAsked = tell_nobody) -> None:
        """`on_asked` is told of each question to models and people that is asked, or beyond the budget."""
        self.refused = 0
        """Questions that were beyond it."""
        self._name = name
        self._on_asked = on_asked
        self._spent: deque[list[float]] = deque()
        """Begin and tokens of each part of the last day in which some were asked for."""
        self._sampling, self._elicitation, self._rates = config.sampling, config.elicitation, _rates_of(config)

    def adjust(self, config: UpstreamConfig) -> None:
        """Go by other settings from now on; a rate that changed begins anew."""
        if (config.sampling, config.elicitation) != (self._sampling, self._elicitation):
            self._sampling, self._elicitation, self._rates = config.sampling, config.elicitation, _rates_of(config)

    def follow(self, old: "QuestionBudget") -> None:
        """Go on where the budget of the predecessor ends."""
        self.refused += old.refused
        self._spent = old._spent
        if (old._sampling, old._elicitation) == (self._sampling, self._elicitation):
            self._rates = old._rates

    def admit(self, questions: Iterable[Question], now: float, asked: int = 0) -> None:
        """Count questions that are about to be asked, during a call that has `asked` for so many forms and visits
        before. Raises QuestionRefusal: one is beyond the budget."""
        found = [*questions]
        try:
            for question in found:
                self._judge(question)
                if question.method == ELICIT:
                    asked += 1
                    if asked > self._elicitation.per_call:
                        raise self._refusal(f"more than {self._elicitation.per_call} times in one call", question)
                if question.method in self._rates and not self._rates[question.method].take(now):
                    budget = self._sampling if question.method == SAMPLE else self._elicitation
                    raise self._refusal(f"more than {budget.per_minute} times a minute", question)
                if question.method == SAMPLE:
                    self._spend(question, now)
        except QuestionRefusal:
            self.refused += 1
            self._tell(found, is_refused=True)
            raise
        self._tell(found)

    def _tell(self, questions: Iterable[Question], *, is_refused: bool = False) -> None:
        for question in questions:
            if question.method in self._rates:
                self._on_asked(self._name, question.method, is_refused)

    def judge(self, questions: Iterable[Question]) -> None:
        """Check questions that were counted before, or will be. Raises QuestionRefusal: no budget would do for one."""
        for question in questions:
            self._judge(question)

    def _judge(self, question: Question) -> None:
        if question.method not in self._rates:
            return
        if (self._sampling if question.method == SAMPLE else self._elicitation).allow is False:
            raise self._refusal("which its configuration does not allow", question)
        if question.method == SAMPLE:
            if _tokens(question) > self._sampling.max_tokens:
                raise self._refusal(f"for more than {self._sampling.max_tokens} tokens", question)
            if not self._sampling.tools and "tools" in question.params:
                raise self._refusal("with tools, which its configuration does not allow", question)
        elif mode_of(question) == "url" and (hosts := self._elicitation.url_hosts):
            url = peek_str(question.params.get("url")) or ""
            if not url.lower().startswith("https://") or not _is_at(url, hosts):
                raise self._refusal("for a page at a host that its configuration does not name", question)

    def _spend(self, question: Question, now: float) -> None:
        while self._spent and self._spent[0][0] <= now - DAY_S - DAY_S / SLICES:
            self._spent.popleft()
        wanted = _tokens(question)
        if sum(tokens for _, tokens in self._spent) + wanted > self._sampling.tokens_per_day:
            raise self._refusal(f"for more than {self._sampling.tokens_per_day} tokens a day", question)
        if not self._spent or self._spent[-1][0] <= now - DAY_S / SLICES:
            self._spent.append([now, 0])
        self._spent[-1][1] += wanted

    def _refusal(self, how: str, question: Question) -> QuestionRefusal:
        return QuestionRefusal(f"{self._name} asks {question.method} {how}")


def _rates_of(config: UpstreamConfig) -> dict[str, TokenBucket]:
    rates = {SAMPLE: config.sampling.per_minute, ELICIT: config.elicitation.per_minute}
    return {method: TokenBucket(rate, rate / 60) for method, rate in rates.items()}


def _is_at(url: str, hosts: tuple[str, ...]) -> bool:
    try:
        return host_of(url) in NameChoice(hosts)
    except ValueError:  # programs may disagree about its host
        return False


def _tokens(question: Question) -> float:
    """The tokens that a question asks for; a question that does not say is refused elsewhere."""
    return read_number(question.params.get("maxTokens")) or 0
