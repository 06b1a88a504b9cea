"""A web of scripted answers in place of `upstreams.fetch`; it judges URLs as that does, and records what is asked."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import trio

from upstreams.fetch.guard import judge_url
from upstreams.fetch.terms_and_answers import Allowed, Fetched, FetchFailed

Answer = dict[str, Any] | int | str | bytes | Fetched | Exception
"""A JSON object, a status without a body, a page of HTML, a body of a 200, a whole answer, or none."""


def json_answer(status: int, value: object) -> Fetched:
    return Fetched(status, {"content-type": "application/json"}, json.dumps(value).encode())


def timed_out(url: str) -> FetchFailed:
    return FetchFailed(f"{url} does not answer within 10 seconds", sent=True)


class ScriptedWeb:
    """Answers GET by URL, else with 404, and POST in turn; `asked` has the URLs, `posted` the bodies."""

    def __init__(self, pages: Mapping[str, Answer] | None = None, *posts: Answer | Callable[[Any], Answer]) -> None:
        self.pages = dict(pages or {})
        self.posts = list(posts)
        self.asked: list[str] = []
        self.posted: list[Any] = []
        self.headers: list[Mapping[str, str]] = []

    async def get(self, url: str, allowed: Allowed, *, headers: Mapping[str, str] | None = None) -> Fetched:
        judge_url(url, allowed)
        self.asked.append(url)
        self.headers.append(headers or {})
        await trio.lowlevel.checkpoint()
        return _answer(self.pages.get(url, 404))

    async def post_json(
        self, url: str, body: object, allowed: Allowed, *, headers: Mapping[str, str] | None = None
    ) -> Fetched:
        judge_url(url, allowed)
        self.asked.append(url)
        self.posted.append(body)
        await trio.lowlevel.checkpoint()
        found = self.posts.pop(0)
        return _answer(found(body) if callable(found) else found)


def _answer(found: Answer) -> Fetched:
    if isinstance(found, Exception):
        raise found
    if isinstance(found, Fetched):
        return found
    if isinstance(found, int):
        return Fetched(found, {}, b"")
    if isinstance(found, dict):
        return json_answer(200, found)
    body = found.encode() if isinstance(found, str) else found
    return Fetched(200, {"content-type": "text/html"}, body)
