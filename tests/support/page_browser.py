"""A real browser that looks at pages: Debian's chromium, headless, one process for as many pages as wanted.

    with page_browser() as page:
        page.open(url, scheme="dark")
        page.click("link", "Inbox")
        assert page.axe() == []

Steps are those of `page_browser.cjs`; each waits for what it is about. `make deps` unpacks the browser.
"""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.oauth.browser import chromium
from tests.support.processes import DEPS, NODE, NODE_ENV

SCRIPT = Path(__file__).with_suffix(".cjs")
AXE = DEPS / "node" / "node_modules" / "axe-core" / "axe.min.js"


class PageBrowser:
    """Carries out one step after the other. Raises AssertionError: a step has failed."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def __getattr__(self, name: str) -> Any:
        def step(*given: object, **options: object) -> Any:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps([name, *given, *([options] if options else [])]) + "\n")
            self._process.stdin.flush()
            answer = json.loads(self._process.stdout.readline())
            assert "error" not in answer, f"{name} {given}: {answer['error']}"
            return answer["value"]

        return step


@contextlib.contextmanager
def page_browser() -> Iterator[PageBrowser]:
    """A browser; it ends with the block."""
    program = chromium()
    assert program is not None, "there is no chromium: make deps"
    argv = [str(NODE), str(SCRIPT), str(program.path), str(AXE)]
    with subprocess.Popen(
        argv, env={**program.env, **NODE_ENV}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield PageBrowser(process)
        assert process.stdin is not None
        process.stdin.close()
