"""Random pipelines do what a small model says: which calls they make, with which arguments, and how they end."""

import json
import os
from random import Random

import pytest

from config.loading.checks.pipelines import problems_of_pipelines
from config.profile_settings import Pipeline, PipelineStep
from hub.wire.jsonrpc import Failure
from tests.journeys.pairs import PAIRS, Pair

SEEDS = range(min(1_000, int(os.environ.get("HUBD_SEEDS", "12"))))
TOOLS = ("a__text", "a__data", "a__both", "b__none", "b__fails", "b__breaks")
NASTY = ("plain", "${input.x}", "$${input.x}", "${s0.text}", "}", '"', "", "x\n")
ANY = {"type": "object"}


class Missing(Exception):
    pass


def value(chance, depth=0):
    """A random value of JSON."""
    kind = chance.choice("tnbsol" if depth < 2 else "tnbs")
    if kind in "ol":
        items = [value(chance, depth + 1) for _ in range(chance.randrange(3))]
        return items if kind == "l" else dict(zip("xyz", items, strict=False))
    return {"t": chance.choice(NASTY), "n": chance.randrange(-9, 99), "b": chance.random() < 0.5, "s": None}[kind]


def answer(tool, arguments):
    """What a tool returns for its arguments; None: an error of the protocol."""
    own, spelled = tool.partition("__")[2], json.dumps(arguments, sort_keys=True)
    texts = [{"type": "text", "text": spelled}, {"type": "text", "text": "${input.x}"}]
    data = {"args": arguments, "list": [1, "${s0.text}", {"x": None}]}
    return {
        "text": {"content": texts},
        "data": {"content": [], "structuredContent": data},
        "both": {"content": texts[1:], "structuredContent": data},
        "none": {"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]},
        "fails": {"content": texts[:1], "isError": True},
        "breaks": None,
    }[own]


def template(chance, ids):
    """A random text of arguments, as a list of plain texts and references."""
    paths = ["input", "input.x", "input.y.0", "input.z.x"]
    parts_of_results = ("text", "data", "data.args", "data.list.1", "data.list.2.x", "data.no")
    paths += [f"{id}.{path}" for id in ids for path in parts_of_results]
    parts = [(chance.random() < 0.5, chance.choice(paths), chance.choice(NASTY)) for _ in range(chance.randrange(1, 4))]
    found = [("ref", path) if is_reference else ("text", text) for is_reference, path, text in parts]
    return [part for part in found if part[1]] or [("text", "")]


def write(parts):
    """A text as the configuration has it."""
    return "".join(f"${{{text}}}" if kind == "ref" else text.replace("${", "$${") for kind, text in parts)


def look_up(path, given, results):
    root, *rest = path.split(".")
    found = given
    if root != "input":
        result = results[root]
        if rest[0] == "text":
            texts = [block["text"] for block in result["content"] if block["type"] == "text"]
            if not texts:
                raise Missing
            return "\n".join(texts)
        if "structuredContent" not in result:
            raise Missing
        found, rest = result["structuredContent"], rest[1:]
    for part in rest:
        try:
            found = found[int(part)] if isinstance(found, list) else found[part]
        except (KeyError, IndexError, TypeError, ValueError):
            raise Missing from None
    return found


def spell(value):
    return json.dumps(value, separators=(",", ":"))


def fill(parts, given, results):
    """The value that a text becomes."""
    values = [look_up(text, given, results) if kind == "ref" else text for kind, text in parts]
    if len(parts) == 1:
        return values[0]
    return "".join(each if isinstance(each, str) else spell(each) for each in values)


def run(steps, given):
    """The calls, and the result or the number of the step that failed."""
    calls, results, result = [], {}, None
    for number, (id, tool, args) in enumerate(steps):
        try:
            arguments = {name: [fill(parts, given, results)] for name, parts in args.items()}
        except Missing:
            return calls, number
        calls.append((tool, arguments))
        result = answer(tool, arguments)
        if result is None or result.get("isError"):
            return calls, number
        results[id] = result
    return calls, result


@pytest.mark.covers("EF-1", "EF-5", "EF-6")
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_random_pipeline_does_what_the_model_says(seed, autojump_clock):
    chance = Random(seed)
    pair = Pair(chance.choice([*PAIRS]), chance.choice(["lines", "http"]))
    pipelines, models = {}, {}
    for at in range(4):
        steps = []
        for number in range(chance.randrange(1, 7)):
            tool = chance.choice(TOOLS if chance.random() < 0.4 else TOOLS[:3])
            args = {name: template(chance, [f"s{n}" for n in range(number)]) for name in "pq"[: chance.randrange(3)]}
            steps.append((f"s{number}", tool, args))
        written = tuple(
            PipelineStep(id=id, tool=tool, args={name: [write(parts)] for name, parts in args.items()})
            for id, tool, args in steps
        )
        pipelines[f"p{at}"], models[f"p{at}"] = Pipeline(description="P.", input=ANY, steps=written), steps
    assert [*problems_of_pipelines(pipelines)] == []
    received = []

    def take(message, conversation):
        params = message["params"]
        tool = next(each for each in TOOLS if each.endswith(f"__{params['name']}"))
        received.append((tool, params["arguments"]))
        result = answer(tool, params["arguments"])
        return Failure(-32603, "it broke") if result is None else pair.whole(**result)

    fakes = {name: pair.fake(tools=[each[3:] for each in TOOLS if each.startswith(f"{name}__")]) for name in "ab"}
    for fake in fakes.values():
        fake.on["tools/call"] = take
    async with pair.house(fakes, pipelines=pipelines) as (_, host):
        for name, steps in models.items():
            given = {key: value(chance) for key in "xyz"[: chance.randrange(4)]}
            calls, outcome = run(steps, given)
            received.clear()
            found = await host.call(f"hub__{name}", given)
            assert received == calls
            if isinstance(outcome, int):
                id, tool, _ = steps[outcome]
                assert found["isError"] is True
                start = f"step {outcome + 1} of {len(steps)} ({id}: {tool}) failed: "
                assert found["content"][0]["text"].startswith(start)
                assert found["_meta"]["dev.hubd/failure"]["step"] == id
            else:
                assert found["content"] == outcome["content"]
                assert found.get("structuredContent") == outcome.get("structuredContent")
                assert "isError" not in found
