"""Everything on the dashboard is done by keyboard alone, in Debian's chromium: signing in, deciding, signing out."""

import pytest

from tests.support.attached import said
from tests.support.busy_host import busy_host
from tests.support.oauth.browser import browser_sign_in
from tests.support.page_browser import page_browser
from tests.support.processes import running_hub
from tests.support.showcase import configure
from tests.support.signing_hub import signing_hub

pytestmark = [pytest.mark.usefixtures("browser"), pytest.mark.covers("OD-10")]
FOCUSED = "((it) => (it.innerText || it.name || '').replace(/\\s+/g, ' ').trim())(document.activeElement)"
DIALOG = "document.querySelector('dialog[open]') !== null"


def tab_to(page, text):
    """Press Tab until what has the focus begins with `text`, and can be seen to have it."""
    seen = []
    while len(seen) < 60:
        page.press("Tab")
        seen.append(page.run(FOCUSED))
        if seen[-1].startswith(text):
            assert page.run("getComputedStyle(document.activeElement).outlineStyle") != "none"
            return
    raise AssertionError(f"Tab does not lead to {text}: {seen}")


def decide(page, button):
    """Press a button and agree: the question begins with what changes nothing, and Escape changes nothing either."""
    tab_to(page, button)
    page.press("Enter")
    page.waits(DIALOG)
    assert page.run(FOCUSED) == "Cancel"
    page.press("Escape")
    assert not page.run(DIALOG)
    assert page.run(FOCUSED) == button, "what had the focus has it again"
    page.press("Enter")
    page.waits(DIALOG)
    tab_to(page, button)
    page.press("Enter")


def switch_single_keys_off(page):
    """By the help that `?` opens; then `/` and `?` are letters as any other."""
    page.go("#/calls")
    page.until("Words of a host")
    page.press("/")
    assert page.run("document.activeElement.id") == "filter"
    page.run("document.activeElement.blur()")
    page.press("?")
    page.until("are keys of this page")
    page.press("Shift+Tab", "Space")
    assert not page.run("document.querySelector('dialog input').checked")
    page.press("Escape", "/", "?")
    assert not page.run(DIALOG)
    assert page.run("document.activeElement.id") != "filter"


def sign_in(page, hub):
    """Paste what the command prints."""
    url = said(hub, "dashboard", "--print").strip()
    page.open(url.partition("#")[0])
    page.until("Signed out")
    tab_to(page, "ticket")
    page.type(url)
    page.press("Enter")
    page.until("live")


@pytest.mark.in_turn(1)
@pytest.mark.covers("OD-2")
def test_a_person_signs_in_approves_and_signs_out(tmp_path):
    with running_hub(tmp_path, configure(tmp_path)) as hub, busy_host(hub.env) as host, page_browser() as page:
        assert host.call("github__merge_pull_request", number="8")["isError"]
        sign_in(page, hub)
        tab_to(page, "Inbox")
        page.press("Enter")
        page.until("cursor: github__merge_pull_request")
        tab_to(page, "Call")
        page.press("Enter")
        page.until("cursor wants to use github__merge_pull_request")
        decide(page, "Once")
        page.until("approved: github__merge_pull_request for cursor")
        assert not host.call("github__merge_pull_request", number="8")["isError"]
        switch_single_keys_off(page)
        tab_to(page, "Sign out")
        page.press("Enter")
        tab_to(page, "Sign out")
        page.press("Enter")
        page.until("Signed out")
        assert page.said() == []


@pytest.mark.in_turn(1)
@pytest.mark.covers("OD-9")
def test_a_person_signs_in_at_a_server(oauth, tmp_path):
    notes = oauth.liar(behind=oauth.django_toolkit())
    with signing_hub(tmp_path, {"notes": notes.url}) as hub, page_browser() as page:
        hub.until_refused()
        sign_in(page, hub.hub)
        tab_to(page, "Inbox")
        page.press("Enter")
        page.until("notes wants you to sign in")
        tab_to(page, "Sign-in")
        page.press("Enter")
        decide(page, "Begin")
        page.until("Open the page to sign in")
        tab_to(page, "Open the page to sign in")
        url = page.run("document.activeElement.href")
        trip = browser_sign_in(url, follow=True)
        assert "Signed in for notes" in trip.text
        page.until("This waits no more")
        assert hub.call().is_good
