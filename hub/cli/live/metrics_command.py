"""`hubd metrics`: what the hub counts, in the text format of Prometheus, and rules for its alerts."""

from typing import Any

from hub.cli.context import Context, Output, ask_hub
from hub.cli.parser import add
from hub.control.methods import METRICS

_TEXT = """\
  text  the metrics, or the file of rules"""


def add_commands(commands: Any) -> None:
    """`metrics`."""
    metrics = add(commands, "metrics", _metrics, json=_TEXT)
    metrics.add_flag("--rules", "print a file of alert rules for Prometheus; no hub need run")


def _metrics(options: Context, output: Output) -> None:
    if options.rules:
        from hub.telemetry.alert_rules import alert_rules  # not above: few ask

        text = alert_rules()
    else:
        text = ask_hub(METRICS)
    output.set(text=text)
    output.say(text.removesuffix("\n"))
