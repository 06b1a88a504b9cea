"""The one list of flows that test_flows.py walks, and how a host sees that each went through.

A check is given the case (`test_flows.Case`) and what the host saw (`hosts/flows.py`).
"""

from collections.abc import Callable
from typing import NamedTuple

PAIRS = ("LL", "LM", "ML", "MM")
ROOT = "file:///work/one"
GREETED = "m-1 said hello (endTurn)"


def ada(text):
    """The answer of the user to that question."""
    return f"accept Ada({text[-6:]})"


def sampled(case, saw):
    assert saw["text"] == GREETED
    (asked,) = saw["asked"]
    assert asked["sampling"]["maxTokens"] == 50
    (message,) = asked["sampling"]["messages"]
    assert message["content"] == {"type": "text", "text": "what"}


def sampled_with_tools(case, saw):
    assert saw["text"] == "let me see: weather Ulm (toolUse)"
    (asked,) = saw["asked"]
    assert [tool["name"] for tool in asked["sampling"]["tools"]] == ["weather"]


def elicited(text, answer):
    def check(case, saw):
        assert saw["text"] == answer
        (asked,) = saw["asked"]
        assert asked["elicitation"]["message"] == f"[{case.upstream}] {text}"
        assert asked["elicitation"]["requestedSchema"]["properties"]["name"]["type"] == "string"

    return check


def went_to_page(case, saw):
    assert saw["text"] == "url accept"
    (asked,) = saw["asked"]
    assert (asked["elicitation"]["mode"], asked["elicitation"]["url"]) == ("url", "https://example.com/sign-in")
    assert ("elicitationId" in asked["elicitation"]) == (case.pair[0] == "L")


def came_back_from_page(case, saw):
    key = f"{case.host}-{case.upstream}"
    assert saw["text"] == f"visited {key}"
    if case.pair == "LL":
        assert saw["url"] == f"https://example.com/{key}"
        assert saw["id"] != key
    else:
        assert saw["asked"][0]["elicitation"]["url"] == f"https://example.com/{key}"


def told_roots(case, saw):
    assert saw["text"] == ROOT


def told_new_roots(case, saw):
    assert saw["text"] == f"file:///work/{case.scheme}"


def answered_both(case, saw):
    assert saw["text"] == f"{ada('] Who?')} and {GREETED}"
    assert sorted(next(iter(asked)) for asked in saw["asked"]) == ["elicitation", "sampling"]


def answered_twice(case, saw):
    assert saw["text"] == f"{ada('First?')}, {ada('econd?')}"
    assert len(saw["asked"]) == 2


def got_prompt(case, saw):
    assert saw["text"] == f"Brief {ada(' Whom?')}."


def heard_update(case, saw):
    assert saw == {"uri": f"{case.scheme}://board"}


def saw_list_change(case, saw):
    assert saw == {"before": False, "after": True, "text": f"grown_{case.host}_{case.scheme}"}


def saw_progress(case, saw):
    assert saw == {"text": "3 steps", "progress": [[1, 3], [2, 3], [3, 3]]}


def was_cancelled(case, saw):
    assert saw == {"text": "cancelled"}


def heard_logs(case, saw):
    assert saw["text"] == "logged"
    text = f"of {case.upstream}"
    heard = [each for each in saw["logs"] if text in each["data"]]
    assert heard == [{"level": level, "data": f"{level} {text}"} for level in ("warning", "error")]


def saw_values(case, saw):
    assert saw == {"values": ["Ada", "Alan"]}


def saw_result(case, saw):
    assert saw == {"text": "task done"}


def saw_asking_result(case, saw):
    assert saw["text"] == f"task {ada('Go on?')}"
    assert len(saw["asked"]) == 1


def saw_task(case, saw):
    assert saw["text"] == "task done"
    assert saw["statuses"][-1] == "completed"


def saw_asking_task(case, saw):
    assert saw["text"] == f"task {ada('Go on?')}"
    assert saw["statuses"][-1] == "completed"
    assert "input_required" in saw["statuses"]


def saw_app(case, saw):
    assert saw == {
        "links": [f"ui://{case.upstream}~{case.scheme}/app.html"],
        "mime": "text/html;profile=mcp-app",
        "ui": {"prefersBorder": True},
        "page": "<!doctype html><title>A clock</title>",
        "text": "noon",
    }


def asked_in_call(saw):
    """The one question that was asked in a call; this server wants roots besides, as soon as it is connected."""
    (asked,) = [each for each in saw["asked"] if "roots" not in each]
    return asked


def npm_sampled(case, saw):
    assert '"text": "hello"' in saw["text"]
    asked = asked_in_call(saw)
    assert asked["sampling"]["systemPrompt"] == "You are a helpful test server."


def npm_elicited(case, saw):
    assert "User provided the requested information" in saw["text"]
    asked = asked_in_call(saw)
    fields = asked["elicitation"]["requestedSchema"]["properties"]
    assert any("oneOf" in field for field in fields.values())
    assert any("items" in field for field in fields.values())
    assert any("enumNames" in field for field in fields.values())


def npm_visited(case, saw):
    assert asked_in_call(saw)["elicitation"]["url"] == "https://example.com/sign-in"


def npm_researched(case, saw):
    assert "# Research Report: python (programming)" in saw["text"]
    assert asked_in_call(saw)


class Flow(NamedTuple):
    """A flow: what a host must have seen, the pairs in which it exists, and the requirements that it proves."""

    check: Callable
    covers: tuple[str, ...]
    pairs: tuple[str, ...] = PAIRS
    shared: bool = False
    """Whether the outcome is the state of one process for all hosts."""
    npm: bool = False
    """Whether the server is npm's server-everything."""
    calls: bool = True
    """Whether it is a call of a tool, so that it can be made by way of another."""


FLOWS = {
    "sampling": Flow(sampled, ("R-16", "C-9")),
    "sampling_tools": Flow(sampled_with_tools, ("R-16",)),
    "elicitation_accept": Flow(elicited("Who are you?", ada("e you?")), ("R-16", "G-10")),
    "elicitation_decline": Flow(elicited("You decline?", "decline"), ("R-18", "G-10")),
    "elicitation_cancel": Flow(elicited("You cancel?", "cancel"), ("R-18", "G-10")),
    "elicitation_url": Flow(went_to_page, ("G-2",)),
    # Modern servers have no such error.
    "url_required": Flow(came_back_from_page, ("G-2",), ("LL", "ML")),
    "roots": Flow(told_roots, ("G-11",)),
    # A question that does not say which request it belongs to, as the legacy SDK asks for roots.
    "roots_aside": Flow(told_roots, ("G-11",), ("LL", "ML")),
    # Modern hosts do not tell that their roots are others now.
    "roots_changed": Flow(told_new_roots, ("C-7",), ("LL", "LM")),
    "two_questions": Flow(answered_both, ("R-11",)),
    "two_rounds": Flow(answered_twice, ("R-12",)),
    "prompt_asks": Flow(got_prompt, ("R-2",), calls=False),
    "subscription": Flow(heard_update, ("N-1", "N-13"), shared=True, calls=False),
    "list_changed": Flow(saw_list_change, ("N-8",), shared=True, calls=False),
    "progressing": Flow(saw_progress, ("P-2",)),
    "cancellation": Flow(was_cancelled, ("P-7", "P-10")),
    "logging": Flow(heard_logs, ("N-9",)),
    "completion": Flow(saw_values, ("S-1",), calls=False),
    "task": Flow(saw_result, ("X-2", "X-3")),
    "task_asks": Flow(saw_asking_result, ("X-2", "X-3")),
    # Legacy hosts are never shown tasks.
    "task_shown": Flow(saw_task, ("X-5",), ("ML", "MM")),
    "task_asks_shown": Flow(saw_asking_task, ("X-5",), ("ML", "MM")),
    "apps": Flow(saw_app, ("X-15", "X-16"), calls=False),
    "npm_sampling": Flow(npm_sampled, ("R-16",), ("LL", "ML"), npm=True),
    "npm_elicitation": Flow(npm_elicited, ("R-16",), ("LL", "ML"), npm=True),
    "npm_url": Flow(npm_visited, ("G-2",), ("LL", "ML"), npm=True),
    "npm_task": Flow(npm_researched, ("X-14",), ("LL", "ML"), npm=True),
}
