"""Sign in: a person at a browser without a browser. It follows redirects and fills in forms until a URL is reached.

It fills text fields whose name says user, login, name or email with the user, password fields with the password, keeps
hidden fields, and presses the button that agrees. Standard library only.
"""

import http.cookiejar
import json
import urllib.error
import urllib.request
from html.parser import HTMLParser
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

AGREE = ("accept", "allow", "continue", "confirm", "sign", "log", "submit", "yes", "authorize", "next", "answer")
REFUSE = ("cancel", "deny", "reject", "abort", "refuse", "logout", "no")
TEXTS = ("user", "login", "name", "email")
LIMIT_S = 60
PAGES = 25


class Stuck(Exception):
    """The way did not lead to the redirect URI; the text has the page."""


class Answer(NamedTuple):
    """What a server said at a URL, redirects not followed."""

    url: str
    status: int
    headers: dict[str, str]
    text: str


class Form(NamedTuple):
    action: str
    method: str
    fields: list[tuple[str, str, str, bool]]
    """Name, kind, value, checked."""


class Forms(HTMLParser):
    """The forms of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self._open = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "form":
            self.forms.append(Form(found.get("action") or "", (found.get("method") or "get").lower(), []))
            self._open = True
        elif self._open and tag in ("input", "button") and (name := found.get("name")):
            kind = (found.get("type") or ("submit" if tag == "button" else "text")).lower()
            self.forms[-1].fields.append((name, kind, found.get("value") or "", "checked" in found))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._open = False

    def likeliest(self) -> Form | None:
        """The form with a field to fill in, else the one with most fields."""
        posts = [form for form in self.forms if form.method == "post" and "logout" not in form.action]
        wanted = [form for form in posts if any(kind in ("password", "text", "email") for _, kind, *_ in form.fields)]
        ranked = wanted or sorted(posts, key=lambda form: len(form.fields)) or self.forms
        return ranked[-1] if ranked else None


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


class Walker:
    """One person, with the cookies of a browser."""

    def __init__(self, user: str = "alice", password: str = "secret", fields: dict[str, str] | None = None) -> None:
        """`fields`: values of fields by their names."""
        self.jar = http.cookiejar.CookieJar()
        no_proxy = urllib.request.ProxyHandler({})
        self._opener = urllib.request.build_opener(no_proxy, urllib.request.HTTPCookieProcessor(self.jar), _Stay())
        self.user, self.password, self.fields = user, password, fields or {}
        self.trail: list[str] = []
        """The pages of the way, each with its method, without queries."""

    def fetch(self, url: str, data: bytes | None = None, headers: dict[str, str] | None = None) -> Answer:
        """One request as a browser makes it when its user goes there; redirects are not followed."""
        self.trail.append(f"{'GET' if data is None else 'POST'} {url.partition('?')[0]}")
        sent = {
            "Accept": "text/html,*/*",
            "Sec-Fetch-Mode": "navigate",
            "Sec-Fetch-Dest": "document",
            "Sec-Fetch-Site": "cross-site",
        }
        request = urllib.request.Request(url, data=data, headers={**sent, **(headers or {})})
        try:
            answer = self._opener.open(request, timeout=LIMIT_S)
        except urllib.error.HTTPError as error:  # a redirect, or a page that says what is wrong
            answer = error
        with answer:
            text = answer.read().decode("utf-8", "replace")
            return Answer(url, answer.status, {name.lower(): value for name, value in answer.headers.items()}, text)

    def walk(self, url: str, until: str, *, refuse: bool = False, pages: int = PAGES) -> str:
        """Go on until a redirect to a URL that begins with `until`; returns it whole, without going there.

        `refuse`: presses the button that denies. Raises: Stuck.
        """
        data = None
        for _ in range(pages):
            answer = self.fetch(url, data, {"Referer": url})
            if 300 <= answer.status < 400:
                url, data = urljoin(url, answer.headers["location"]), data if answer.status in (307, 308) else None
                if url.startswith(until):
                    return url
                continue
            form = Forms(answer.text).likeliest()
            if form is None:
                where = url.partition("?")[0]
                raise Stuck(f"{answer.status} at {where}, and nothing to fill in:\n{answer.text[:600]}")
            pairs = self._filled(form, refuse)
            url = urljoin(url, form.action)
            if form.method == "get":
                url, data = f"{url.partition('?')[0]}?{urlencode(pairs)}", None
            else:
                data = urlencode(pairs).encode()
        raise Stuck(f"still not at {until} after {pages} pages: {self.trail}")

    def follow(self, url: str, *, pages: int = PAGES) -> Answer:
        """Go to a URL and follow redirects to the page behind them, as for the redirect URI at the end of a walk."""
        for _ in range(pages):
            answer = self.fetch(url)
            if not 300 <= answer.status < 400:
                return answer
            url = urljoin(url, answer.headers["location"])
        raise Stuck(f"no page after {pages} redirects: {self.trail}")

    def glewlwyd_sign_in(self, api: str, client_id: str, scope: str) -> None:
        """Sign in and consent at Glewlwyd by its API; its page needs JavaScript."""
        who = {"username": self.user, "password": self.password}
        for method, path, body in (("POST", "/auth", who), ("PUT", f"/auth/grant/{client_id}", {"scope": scope})):
            kind = {"Content-Type": "application/json"}
            request = urllib.request.Request(api + path, json.dumps(body).encode(), kind, method=method)
            self._opener.open(request, timeout=LIMIT_S).close()

    def _filled(self, form: Form, refuse: bool) -> list[tuple[str, str]]:
        pairs: list[tuple[str, str]] = []
        buttons: list[tuple[str, str]] = []
        for name, kind, value, checked in form.fields:
            if name in self.fields:
                pairs.append((name, self.fields[name]))
            elif kind == "password":
                pairs.append((name, self.password))
            elif kind in ("text", "email") and any(word in name.lower() for word in TEXTS):
                pairs.append((name, self.user))
            elif kind in ("submit", "image"):
                buttons.append((name, value))
            elif kind not in ("checkbox", "radio"):
                pairs.append((name, value))
            elif checked:
                pairs.append((name, value or "on"))
        liked = [button for button in buttons if _likes(button, refuse)]
        if liked or (buttons and not refuse):
            pairs.append((liked or buttons)[0])
        return pairs


def _likes(button: tuple[str, str], refuse: bool) -> bool:
    """Whether the button says what the person wants."""
    text = f"{button[0]} {button[1]}".lower()
    if refuse:
        return any(word in text for word in REFUSE)
    return any(word in text for word in AGREE) and not any(word in text.split() for word in REFUSE)


def redirect_uri_of(url: str) -> str:
    """The redirect URI that an authorization URL asks for."""
    return parse_qs(urlsplit(url).query)["redirect_uri"][0]
