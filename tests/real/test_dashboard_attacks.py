"""The dashboard in a browser where others are at work: a worker left behind on its port, script that gets into a page,
servers with script in all that they write, and one that floods its log."""

import http.server
import json
import shlex
import sys
import threading

import pytest

from tests.support.attached import hubd, said
from tests.support.busy_host import busy_host
from tests.support.looking import until_connected
from tests.support.page_browser import page_browser
from tests.support.processes import free_port, running_hub
from tests.support.showcase import HOSTILE, configure, offer, tool

pytestmark = pytest.mark.usefixtures("browser")

WORKER = """
self.addEventListener('install', () => self.skipWaiting());
self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()));
self.addEventListener('fetch', (event) => event.respondWith(new Response(
  '<!doctype html><title>none</title><script>document.title = "stolen " + location.hash;</script>',
  { headers: { 'Content-Type': 'text/html' } })));
"""
LANDING = "<!doctype html><title>before</title><script>navigator.serviceWorker.register('worker.js');</script>"


class Before(http.server.BaseHTTPRequestHandler):
    """A program of somebody else's, which has the port before the hub."""

    def do_GET(self):
        is_worker = self.path == "/worker.js"
        body = (WORKER if is_worker else LANDING).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/javascript" if is_worker else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.mark.in_turn(1)
@pytest.mark.covers("OD-2")
def test_a_worker_that_was_left_behind_on_the_port_sees_nothing(tmp_path):
    port = free_port()
    with page_browser() as page:
        with http.server.ThreadingHTTPServer(("127.0.0.1", port), Before) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            page.open(f"http://127.0.0.1:{port}/")
            page.waits("navigator.serviceWorker.controller")
            server.shutdown()
            thread.join()
        with running_hub(tmp_path, configure(tmp_path), listen=f"127.0.0.1:{port}") as hub:
            url = said(hub, "dashboard", "--print").strip()
            page.tab(f"http://127.0.0.1:{port}/ui/#ticket=canary")
            page.waits("document.title === 'stolen #ticket=canary'")  # it would answer in the hub's place
            page.tab(url)
            page.until("live")
            assert "hubd" in page.run("document.title")
            assert page.run("navigator.serviceWorker.controller") is None


CODE = 'document.title="in"'
TRIES = {
    "a script": ("script", f"it.textContent = '{CODE}'"),
    "a script from elsewhere": ("script", f"it.src = 'data:,{CODE}'"),
    "markup": ("div", "it.innerHTML = '<b>x</b>'"),
    "a handler": ("img", f"it.setAttribute('onerror', '{CODE}'); it.src = 'x'"),
    "a link": ("a", f"it.href = 'javascript:{CODE}'; setTimeout(() => it.click())"),
    "a frame": ("iframe", f"it.srcdoc = '<script>parent.{CODE}</script>'"),
}


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A hub with servers that write script wherever they can, a host that calls them, and a browser."""
    directory = tmp_path_factory.mktemp("attacked")
    config = configure(directory)
    offer(directory, "notes", [tool(HOSTILE[:40], HOSTILE, fails=True, **{HOSTILE: HOSTILE}), tool("plain", HOSTILE)])
    flood = "import sys; sys.stdin.readline(); [print(f'line {each} of it', file=sys.stderr) for each in range(20_000)]"
    dying = f"echo {shlex.quote(HOSTILE)} >&2; exit 1"
    for name, command, script in (("dying", "sh", dying), ("loud", sys.executable, flood)):
        args = json.dumps(["-c", script], ensure_ascii=False)
        config += f"[upstreams.{name}]\ncommand = {json.dumps(command)}\nargs = {args}\n"
    config += "disabled = true\n"
    with running_hub(directory, config) as hub, busy_host(hub.env) as host, page_browser() as page:
        until_connected(hub.env, "notes")
        names = [each["name"] for each in json.loads(said(hub, "tools", "notes", "--json"))]
        for name in names:
            host.call(name)
        yield hub, host, page


@pytest.mark.in_turn(1)
@pytest.mark.covers("OD-5")
def test_script_that_gets_into_a_page_does_not_run(shown):
    hub, _, page = shown
    page.open(said(hub, "dashboard", "--print").strip())
    page.until("live")
    page.run("document.addEventListener('securitypolicyviolation', (event) => { document.refused = event; })")
    for what, (element, code) in TRIES.items():
        page.run("document.refused = null")
        page.run(
            f"(() => {{ const it = document.createElement('{element}'); document.body.append(it);"
            f" try {{ {code} }} catch {{}} }})()"
        )
        page.waits("document.refused !== null")
        assert page.run("document.title") != "in", what


PAGES = ("#/", "#/calls", "#/hosts", "#/inbox", "#/log", "#/config")
PAGES += ("#/server/notes", "#/server/notes/calls", "#/server/notes/log", "#/server/dying", "#/server/dying/log")


@pytest.mark.covers("OD-6")
def test_script_of_servers_is_text_on_every_page(shown):
    hub, _, page = shown
    page.open(said(hub, "dashboard", "--print").strip())
    page.until("live")
    seen = ""
    for hash in PAGES:
        page.go(hash)
        page.waits("!document.querySelector('main').innerText.includes('Loading.')")
        page.run("document.querySelectorAll('main details').forEach((each) => { each.open = true; })")
        text = page.text("main")
        assert page.run("document.querySelectorAll('main img, main script, main iframe').length") == 0, hash
        assert "owned" not in page.run("document.title"), hash
        assert not set("\u202e\u200b\U000e0041") & set(text), hash
        assert page.axe() == [], hash
        seen += text
    assert seen.count("<img src=x") >= 6
    assert "U+202E" in seen
    assert page.said() == []


@pytest.mark.in_turn(1)
@pytest.mark.covers("OD-7")
def test_a_flood_in_a_log_neither_ends_a_page_nor_fills_it(shown):
    hub, host, page = shown
    page.open(said(hub, "dashboard", "--print").strip())
    page.until("live")
    page.go("#/log")
    page.waits("document.querySelector('ol.log li') !== null")
    hubd(hub, "enable", "loud")
    page.waits("/line [0-9]+ of it/.test(document.querySelector('ol.log')?.innerText)")
    page.waits("/loud.*exit/s.test(document.querySelector('ol.log').innerText)")
    assert page.run("document.querySelectorAll('ol.log li').length") <= 400
    assert not host.call("files__read_file", path="x")["isError"]
    page.go("#/calls")
    page.until("files__read_file")
    page.until("live")
