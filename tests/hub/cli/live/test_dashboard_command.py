"""`hubd dashboard` and the page behind it, with a real hub: what a person gets, and a program of a host does not."""

import http.client
import json
import re
import sys
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import pytest

from tests.support.attached import DEMO, hubd, last_record, ready, said
from tests.support.busy_host import busy_host
from tests.support.looking import until_connected
from tests.support.processes import running_hub

OFF = '[dashboard]\nenabled = "off"\n'


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    with running_hub(tmp_path_factory.mktemp("dashboard"), DEMO) as hub:
        until_connected(hub.env, "demo")
        yield hub


class Browser:
    """A page that was opened by an address."""

    def __init__(self, url):
        address = urlsplit(url)
        self.host, self.port, self.key = address.hostname, address.port, ""
        self.key = self.post("login", {"ticket": address.fragment.removeprefix("ticket=")})[1]["key"]

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"Host": f"{self.host}:{self.port}", "Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {self.key}"} if self.key else {}
        connection.request(method, f"/ui/api/{path}", None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        data = json.loads(response.read())
        connection.close()
        return response.status, data

    def post(self, path, body):
        return self.ask("POST", path, body)

    def get(self, path):
        return self.ask("GET", path)


@pytest.mark.covers("OD-2", "OD-3", "OD-4")
def test_an_address_is_printed_that_opens_it_once(hub):
    done = hubd(hub, "dashboard", "--print")
    assert done.returncode == 0
    assert re.fullmatch(r"http://hubd-[a-z0-9]{8}\.localhost:\d+/ui/#ticket=[\w-]{43}\n", done.stdout)
    assert "good once, for 60 s; the page is signed in for 1 h" in done.stderr
    browser = Browser(done.stdout.strip())
    assert browser.get("overview")[1]["server/demo"]["word"] == "connected"
    for path, expected in (("metrics", 401), ("mcp", 401), ("healthz", 401)):
        request = urllib.request.Request(hub.url.removesuffix("mcp") + path)
        request.add_header("Authorization", f"Bearer {browser.key}")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=60)
        assert refused.value.code == expected
        refused.value.close()
    assert hubd(hub, "dashboard", "--sign-out").stdout == "all pages of the dashboard are signed out\n"
    assert browser.get("overview")[0] == 401
    shown = json.loads(said(hub, "dashboard", "--print", "--json"))
    assert (shown["opened"], shown["expires_s"], shown["session_s"]) == (False, 60, 3600)


@pytest.mark.covers("OD-2")
def test_no_program_of_a_host_gets_a_ticket(hub):
    with ready(hub):
        done = hubd(hub, "dashboard", "--print")
        assert (done.returncode, done.stdout) == (1, "")
        assert (
            "`hubd dashboard` was run by a program of a host or a server, and only a person may do that" in done.stderr
        )


@pytest.mark.covers("OD-8")
def test_a_server_is_switched_off_and_on_by_its_file(hub):
    browser = Browser(said(hub, "dashboard", "--print").strip())
    before = hub.config.read_text()
    status, answer = browser.post("do/disable", {"name": "demo"})
    assert status == 200, answer
    assert answer["text"].startswith(f"disabled demo: {hub.config} (before: ")
    assert "disabled = true" in hub.config.read_text()
    assert browser.get("overview")[1]["server/demo"]["word"] == "disabled"
    assert browser.post("do/disable", {"name": "demo"})[1] == {"text": "demo is disabled"}
    assert browser.post("do/enable", {"name": "demo"})[0] == 200
    assert hub.config.read_text() == before
    assert browser.post("do/enable", {"name": "x"})[0] == 409
    assert browser.post("do/reload", {})[0] == 200
    while (record := last_record(hub, "dashboard"))["m"] != "reload":
        pass  # it is written a moment later
    assert record["p"] == "local"


@pytest.mark.covers("OD-11")
def test_it_can_be_turned_off_while_the_hub_runs(hub):
    browser = Browser(said(hub, "dashboard", "--print").strip())
    before = hub.config.read_text()
    hub.config.write_text(OFF + before)
    said(hub, "reload")
    assert 'the dashboard is off ([dashboard] enabled = "off")' in said(hub, "dashboard", code=1)
    assert browser.get("overview")[0] == 404
    hub.config.write_text(before)
    said(hub, "reload")
    assert browser.get("overview")[0] == 200


def test_a_server_that_cannot_start_waits_in_the_inbox(tmp_path):
    config = f"[upstreams.mail]\ncommand = {json.dumps(sys.executable)}\nenv = {{ KEY = '${{NOT_SET_ANYWHERE}}' }}\n"
    with running_hub(tmp_path, config) as hub:
        browser = Browser(said(hub, "dashboard", "--print").strip())
        (item,) = browser.get("overview")[1]["inbox"]["items"]
        assert (item["kind"], item["id"]) == ("secret", "mail")
        shown = browser.get("item?kind=secret&id=mail")[1]
        assert "NOT_SET_ANYWHERE" in shown["title"]
        assert (shown["offers"], shown["cli"]) == ([], "hubd env mail")


@pytest.mark.covers("OD-9")
def test_a_project_is_trusted_as_it_was_shown(hub, tmp_path):
    file = tmp_path / ".mcp.json"
    file.write_text('{"mcpServers": {"shop": {"command": "shop-server"}}}')
    browser = Browser(said(hub, "dashboard", "--print").strip())
    with busy_host(hub.env, cwd=tmp_path):
        while not (items := browser.get("overview")[1]["inbox"]["items"]):
            pass
        assert [(each["kind"], each["id"]) for each in items] == [("project", str(tmp_path))]
        shown = browser.get(f"item?kind=project&id={tmp_path}")[1]
        assert "shop-server" in shown["blocks"][0]["text"]
        file.write_text('{"mcpServers": {"shop": {"command": "another-server"}}}')
        status, answer = browser.post("do/trust", {"id": str(tmp_path), "state": shown["state"]})
        assert (status, answer["kind"]) == (409, "moved")
        shown = browser.get(f"item?kind=project&id={tmp_path}")[1]
        assert "another-server" in shown["blocks"][0]["text"]
        status, answer = browser.post("do/trust", {"id": str(tmp_path), "state": shown["state"]})
        assert (status, answer) == (200, {"text": f"trusted: {tmp_path}, as it is now"})
        while browser.get("overview")[1]["inbox"]["items"]:
            pass
        assert [each["root"] for each in browser.get("overview")[1]["projects"]] == [str(tmp_path)]
