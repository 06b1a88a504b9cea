"""`[pipelines.NAME]`: what may stand there, and what is said of all else."""

import pytest

from config.diagnostics import ConfigError
from config.loading.assemble import load_all
from config.loading.checks import pipelines as checks

HEAD = """
[upstreams.github]
command = "x"
[pipelines.p]
description = "P."
input = { type = "object", properties = { number = { type = "integer" } } }
"""


def step(id="one", tool="github__get", args="{}"):
    return f'[[pipelines.p.steps]]\nid = "{id}"\ntool = "{tool}"\nargs = {args}\n'


def load(tmp_path, text):
    path = tmp_path / "hubd.toml"
    path.write_text(text)
    return load_all(path, {})


def problems(tmp_path, text):
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, text)
    return [f"{'.'.join(each.keys)}: {each.text}" for each in refused.value.diagnostics]


@pytest.mark.covers("EF-2")
def test_a_pipeline_is_read_as_it_is_written(tmp_path):
    args = '{ n = "${input.number}", deep = [{ t = "$${x} ${one.text}" }], home = "${one.data.a.0}" }'
    found = load(tmp_path, HEAD + step() + step("two", args=args))
    pipeline = found.config.pipelines["p"]
    assert [each.id for each in pipeline.steps] == ["one", "two"]
    deep = [{"t": "$${x} ${one.text}"}]
    assert pipeline.steps[1].args == {"n": "${input.number}", "deep": deep, "home": "${one.data.a.0}"}
    assert found.warnings == ()


@pytest.mark.covers("EF-1", "EF-2")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (step(args='{ a = "${two.text}" }') + step("two"), "steps.0.args: `${two.text}` leads to no earlier step"),
        (step(args='{ a = "${one.text}" }'), "steps.0.args: `${one.text}` leads to no earlier step"),
        (step("issue") + step("two", args='{ a = "${isue.text}" }'), "did you mean issue?"),
        (
            step(args='{ a = ["${input.nummber}"] }'),
            "leads to no argument that `input` describes; did you mean number?",
        ),
        (step(args='{ a = "${x" }'), "steps.0.args: `${` has no `}`"),
        (step(tool="hub__p"), "steps.0.tool: a step calls a tool of a server, and no pipeline"),
        (step(tool="hub__find_tools"), "steps.0.tool: a step calls a tool of a server"),
        (step() * 2, "steps.1.id: another step has this id"),
        (step("input"), 'steps.0.id: "input" means the arguments'),
        (step("A b"), "steps.0.id: a step needs an id"),
        (step(tool=""), "steps.0.tool: a step needs the visible name of a tool"),
        ("".join(step(f"s{n}") for n in range(17)), "steps: has 17 steps; a pipeline has 1 to 16"),
        ("", "steps: has 0 steps"),
        (step(args=f'{{ a = "{"x" * 70_000}" }}'), "steps.0.args: is no value that JSON can hold in 65536 bytes"),
        (step(args="{ a = nan }"), "steps.0.args: is no value"),
    ],
)
def test_what_is_wrong_with_steps(tmp_path, text, problem):
    assert [each for each in problems(tmp_path, HEAD + text) if problem in each and each.startswith("pipelines.p.")]


@pytest.mark.covers("EF-2")
@pytest.mark.parametrize(
    ("input", "problem"),
    [
        ('{ type = "string" }', 'write type = "object"'),
        ('{ type = "object", properties = 3 }', "is no JSON Schema that can be used"),
        ('{ type = "object", "$ref" = "https://example.com/x" }', "is no JSON Schema that can be used"),
        ('{ type = "object", properties = { a = { pattern = "(?=a)b" } } }', "is no JSON Schema that can be used"),
        (f'{{ type = "object", title = "{"x" * 70_000}" }}', "is no JSON Schema of at most 65536 bytes"),
    ],
)
def test_what_is_wrong_with_a_schema(tmp_path, input, problem):
    text = HEAD.replace(HEAD.partition("input = ")[2], input + "\n") + step()
    assert problem in problems(tmp_path, text)[0]


@pytest.mark.covers("EF-2")
@pytest.mark.parametrize(
    ("name", "problem"), [("Find", "cannot be the name"), ("find_tools", "hub__find_tools is another tool of the hub")]
)
def test_names_that_a_pipeline_cannot_have(tmp_path, name, problem):
    assert problem in problems(tmp_path, (HEAD + step()).replace("pipelines.p", f"pipelines.{name}"))[0]


@pytest.mark.covers("EF-2")
def test_a_pipeline_without_a_description_and_too_many(tmp_path):
    assert "write what the pipeline is for" in problems(tmp_path, HEAD.replace('"P."', '""') + step())[0]
    many = "".join(f'[pipelines.p{n}]\ndescription = "P."\n' for n in range(65))
    assert problems(tmp_path, many) == ["pipelines: there are 65 pipelines, and 64 are the most"]


@pytest.mark.covers("EF-3")
def test_without_the_extra_there_is_a_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(checks, "HAS_SCHEMAS", False)
    [warning] = load(tmp_path, HEAD + step()).warnings
    assert "checking their input needs the extra `schema`" in warning.text


@pytest.mark.covers("EF-2")
def test_a_tool_of_no_server_is_a_warning(tmp_path):
    def warnings(tool, more=""):
        servers = f'[upstreams.files]\ncommand = "x"\naliases = ["docs"]\n{more}'
        text = f'{servers}[pipelines.p]\ndescription = "P."\n[[pipelines.p.steps]]\nid = "s"\ntool = "{tool}"\n'
        return [".".join((*each.keys, each.text)) for each in load(tmp_path, text).warnings]

    assert warnings("files__any") == warnings("docs__any") == []
    [unknown] = warnings("fils__write")
    assert unknown.startswith("pipelines.p.steps.0.tool.no server here has tools of such names")
    assert unknown.endswith("'fils__write' (did you mean 'files__write'?)")
    [plain] = warnings("write")
    assert plain.endswith("tools are called SERVER__TOOL, and 'write' names no server")
    assert warnings("write", '[upstreams.bare]\ncommand = "x"\nprefix = ""\n') == []
