"""Budgets of questions: how much one upstream may ask, of models and of people."""

import pytest

from config.security_settings import ElicitationBudget, SamplingBudget
from config.settings import UpstreamConfig
from hub.wire.jsonrpc import raw
from hub.wire.mcp import ELICIT, INVALID_PARAMS, L4, LIST_ROOTS, SAMPLE
from hub.wire.questions.askable_questions import Question, QuestionRefusal
from upstreams.questions.budgets import DAY_S, QuestionBudget


def config(**budgets):
    parts = {"sampling": SamplingBudget(**budgets.get("sampling", {}))}
    return UpstreamConfig(command="x", elicitation=ElicitationBudget(**budgets.get("elicitation", {})), **parts)


def budget(**budgets):
    return QuestionBudget("up", config(**budgets))


def sample(tokens=100, **more):
    return Question(SAMPLE, {"maxTokens": raw(tokens), **more}, "up", L4)


def form():
    return Question(ELICIT, {}, "up", L4)


def visit(url):
    return Question(ELICIT, {"mode": raw("url"), "url": raw(url)}, "up", L4)


def refusal(asked_of, *questions, now=0.0, asked=0):
    with pytest.raises(QuestionRefusal) as caught:
        asked_of.admit(questions, now, asked)
    assert caught.value.failure.code == INVALID_PARAMS
    return caught.value.failure.message


@pytest.mark.covers("POL-55", "F-I-08")
def test_samples_within_a_minute():
    asked_of = budget(sampling={"per_minute": 2})
    asked_of.admit([sample(), sample()], 0.0)
    assert refusal(asked_of, sample()) == "up asks sampling/createMessage more than 2 times a minute"
    asked_of.admit([sample()], 30.0)
    assert asked_of.refused == 1


@pytest.mark.covers("POL-55")
def test_tokens_of_one_sample():
    asked_of = budget(sampling={"max_tokens": 500})
    asked_of.admit([sample(500)], 0.0)
    assert "for more than 500 tokens" in refusal(asked_of, sample(501))
    assert "for more than 500 tokens" in refusal(asked_of, Question(SAMPLE, {"maxTokens": raw(10**30)}, "up", L4))


@pytest.mark.covers("POL-55")
def test_tokens_of_a_day_are_those_that_were_asked_for():
    asked_of = budget(sampling={"tokens_per_day": 1000, "per_minute": 100})
    for hour in range(10):
        asked_of.admit([sample(100)], hour * 3600.0)
    assert "for more than 1000 tokens a day" in refusal(asked_of, sample(100), now=10 * 3600.0)
    asked_of.admit([sample(100)], DAY_S + 3600.0)  # those of the first hour are forgotten
    assert "tokens a day" in refusal(asked_of, sample(101), now=DAY_S + 3600.0)


@pytest.mark.covers("POL-55")
def test_tools_of_samples():
    asked_of = budget(sampling={"tools": False})
    asked_of.admit([sample()], 0.0)
    assert "with tools" in refusal(asked_of, sample(tools=raw([])))
    budget().admit([sample(tools=raw([]))], 0.0)


@pytest.mark.covers("POL-55", "POL-56")
def test_what_is_not_allowed_at_all():
    asked_of = budget(sampling={"allow": False}, elicitation={"allow": False})
    assert "does not allow" in refusal(asked_of, sample())
    assert "does not allow" in refusal(asked_of, form())
    asked_of.admit([Question(LIST_ROOTS, {}, "up", L4)], 0.0)
    with pytest.raises(QuestionRefusal):
        asked_of.judge([form()])
    assert asked_of.refused == 2


@pytest.mark.covers("POL-56", "F-I-08")
def test_forms_of_one_call_and_of_a_minute():
    asked_of = budget(elicitation={"per_call": 2, "per_minute": 3})
    asked_of.admit([form()], 0.0, asked=1)
    assert "more than 2 times in one call" in refusal(asked_of, form(), asked=2)
    assert "more than 2 times in one call" in refusal(asked_of, form(), form(), form())
    assert "more than 3 times a minute" in refusal(asked_of, form())


@pytest.mark.covers("POL-56")
@pytest.mark.parametrize(
    ("url", "is_named"),
    [
        ("https://pay.example.com/x", True),
        ("HTTPS://PAY.example.com:8443/x", True),
        ("https://example.org", True),
        ("https://example.com.evil.org", False),
        ("https://evil.org/https://example.org", False),
        ("http://example.org", False),
        ("https://", False),
        ("https://pay.example.com\\@evil.org/x", False),
        ("https://1.2.3.4.5", False),
    ],
)
def test_visits_go_to_named_hosts_only(url, is_named):
    asked_of = budget(elicitation={"url_hosts": ("*.example.com", "example.org")})
    if is_named:
        asked_of.admit([visit(url)], 0.0)
    else:
        assert "for a page at a host" in refusal(asked_of, visit(url))
    budget().admit([visit(url)], 0.0)


@pytest.mark.covers("POL-55")
def test_a_successor_goes_on_and_other_settings_count_at_once():
    old = budget(sampling={"tokens_per_day": 150, "per_minute": 1})
    old.admit([sample(100)], 0.0)
    new = budget(sampling={"tokens_per_day": 150, "per_minute": 1})
    new.follow(old)
    assert "a minute" in refusal(new, sample(10))
    new.adjust(config(sampling={"tokens_per_day": 150, "per_minute": 9}))
    assert "a day" in refusal(new, sample(100))
    new.admit([sample(50)], 0.0)
    assert new.refused == 2
