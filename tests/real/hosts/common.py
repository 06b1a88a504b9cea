"""The common part of the Python hosts: their plan and their report.

The one argument is JSON: how to connect (`url` and `token`, or `command` and `env`), the `mode`, and `steps`, a list of
`[verb, ...]`. Printed is one JSON object: the revision agreed on, an answer per step, and the logs that arrived.
"""

import json
import sys

import anyio

LIMIT_S = 60


def plain(model):
    """A model of the SDK as JSON on the wire."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


class Host:
    """One client session; subclasses connect. `logs` and `progress` collect what arrives on the side."""

    def __init__(self, plan):
        self.plan = plan
        self.logs = []
        self.progress = []

    async def on_log(self, params):
        self.logs.append({"level": params.level, "data": params.data})

    async def on_progress(self, progress, total, message):
        self.progress.append([progress, total])

    async def walk(self, client, version):
        """Take all steps in turn."""
        answers = []
        for verb, *rest in self.plan["steps"]:
            self.progress = []
            try:
                answer = plain(await getattr(self, verb)(client, *rest))
            except Exception as error:  # noqa: BLE001 (a host reports whatever its SDK raises)
                answer = {
                    "error": {"code": getattr(getattr(error, "error", None), "code", None), "message": str(error)}
                }
            answers.append({**answer, "progress": self.progress} if self.progress else answer)
        return {"version": version, "answers": answers, "logs": self.logs}


def run(host_class):
    """Follow the plan in the argument, within a time limit, and print the report."""
    host = host_class(json.loads(sys.argv[1]))

    async def bounded():
        with anyio.fail_after(LIMIT_S):
            return await host.main()

    sys.stdout.write(json.dumps(anyio.run(bounded)) + "\n")
