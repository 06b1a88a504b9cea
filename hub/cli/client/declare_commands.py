"""The words of `hubd call`, `read`, `prompt` and their like; `requests` carries them out."""

from typing import Any, Final

from hub.cli.parser import Parser, add

RUN: Final = "hub.cli.client.requests"


def add_commands(commands: Any) -> None:
    """`tools`, `call` and their like."""
    _add_call(commands)
    lists = "as the hosts of a profile see them"
    resources = add(commands, "resources", f"{RUN}:run_resources", json=True)
    resources.add_value("name", "NAME", "a server's name, or part of a URI or name", nargs="?")
    read = add(commands, "read", f"{RUN}:run_read", json=True)
    read.add_value("uri", "URI", "as `hubd resources` shows it, or made of one of its templates")
    read.add_value("--profile", "PROFILE", "as the hosts of a profile do: by its account at a server that has several")
    prompts = add(commands, "prompts", f"{RUN}:run_prompts", json=True)
    prompts.add_value("name", "NAME", "a server name or a prompt-name prefix", nargs="?")
    prompt = add(commands, "prompt", f"{RUN}:run_prompt", json=True)
    prompt.add_value("name", "NAME", "the prompt's name as `hubd prompts` shows it")
    _add_words(prompt, "an argument of the prompt")
    prompt.add_value("--profile", "PROFILE", "as the hosts of a profile do")
    complete = add(commands, "complete", f"{RUN}:run_complete", json=True)
    complete.add_value("name", "NAME", "a prompt's name, or a template as `hubd resources` shows it")
    _add_words(complete, "arguments; the last one is completed")
    complete.add_value("--profile", "PROFILE", "as the hosts of a profile do")
    for each in (resources, prompts):
        each.add_value("--profile", "PROFILE", lists)


def _add_call(commands: Any) -> None:
    call = add(commands, "call", f"{RUN}:run_call")
    call.add_value("name", "NAME", "the tool's name as `hubd tools` shows it")
    text = (
        "an argument; parsed as JSON unless the tool expects a string. a.b=1 sets b within a, a[]=x adds to a list, "
        "a=@./file takes the text of a file (@- of standard input)"
    )
    _add_words(call, text)
    call.add_value("--json", "ARGUMENTS", "all arguments as a JSON object; - reads stdin", dest="object")
    text = "call as the hosts of a profile do: its names, its fixed arguments, and nothing that it leaves out"
    call.add_value("--profile", "PROFILE", text)
    call.add_flag("--raw", "print the whole result as JSON, and ask nothing")
    call.add_flag("--yes", "approve the call where a rule asks for that; else it is asked on a terminal")


def _add_words(parser: Parser, text: str) -> None:
    parser.add_value("arguments", "KEY=VALUE", text, nargs="*", default=[])
