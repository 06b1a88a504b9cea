"""Where browsers begin and come back to, at whole hubs: one port for two hubs, taken ports, addresses that are not
theirs, and requests that are no person's."""

import os
import socket
import urllib.error
import urllib.request

import pytest

from config.settings import DEFAULT_LISTEN
from hub.control.client_errors import ControlFailed
from tests.support.oauth.rig import walk, walk_to_the_end
from tests.support.processes import free_port
from tests.support.signing_hub import signing_hub

IS_BLIND = os.getuid() in (0, 65534)


def status_of(url: str, method: str = "GET", **fields: str) -> int:
    """The status of one request, redirects not followed. `fields`: headers, with _ for -."""
    headers = {name.replace("_", "-"): value for name, value in fields.items()}
    request = urllib.request.Request(url, headers=headers, method=method)

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *args: object) -> None:
            return None

    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({}), Stay).open(request, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.alone  # it needs the usual port
def test_two_hubs_with_the_usual_port_both_sign_in(oauth, tmp_path):
    """As two users of a machine have them: one hub listens elsewhere each time, and keeps a port for browsers."""
    notes = oauth.liar()
    places = tmp_path / "one", tmp_path / "two"
    for place in places:
        place.mkdir()
    with signing_hub(places[0], {"notes": notes.url}, listen=DEFAULT_LISTEN) as one:
        assert one.sign_in_by_page().state == "signed_in"
        ports = []
        for _ in range(2):
            with signing_hub(places[1], {"notes": notes.url}, listen=DEFAULT_LISTEN) as two:
                assert two.sign_in_by_page().state == "signed_in"
                assert two.account().state == "good"
                two.sign_out()
                with two.begun(yes=True) as begun:
                    ports.append(begun.step.port)
        assert one.account().state == "good"
    assert ports[0] == ports[1] != 8765
    assert len(notes.asked("registration")) == 2, "one each"


@pytest.mark.parametrize("taken", ["127.0.0.1", "::1"])
def test_a_registered_port_that_another_program_has(oauth, tmp_path, taken):
    notes, port = oauth.liar(), free_port()
    family = socket.AF_INET6 if ":" in taken else socket.AF_INET
    if family is socket.AF_INET6 and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    settings = f'oauth.redirect_uri = "http://localhost:{port}/callback"'
    with signing_hub(tmp_path, {"notes": notes.url}, notes=settings) as hub:
        with (
            socket.create_server((taken, port), family=family),
            pytest.raises(ControlFailed, match=f"Port {port} of redirect_uri is taken by another program"),
            hub.begun(),
        ):
            pass
        assert hub.sign_in_by_page().state == "signed_in", "as soon as it is free"
    assert not notes.asked("EVIL")


def test_an_answer_counts_once_and_at_its_own_address(oauth, tmp_path):
    """Servers that do not say who they are have addresses of their own; back and reload bring no second code."""
    notes = oauth.liar(None, "--no-iss")
    with signing_hub(tmp_path, {"notes": notes.url}) as hub, hub.begun() as begun:
        came = walk(begun.url)
        assert "/oauth/callback/1?" in came
        for elsewhere in ("/oauth/callback/2?", "/oauth/callback?", "/oauth/callback/01?"):
            assert status_of(came.replace("/oauth/callback/1?", elsewhere)) in (403, 404)
        assert status_of(came, method="POST") in (403, 404, 405)
        assert status_of(came, Origin="https://evil.example") == 403
        assert status_of(came, Sec_Fetch_Dest="image", Sec_Fetch_Mode="no-cors") == 403
        assert status_of(f"{came}&code=another") in (400, 403)
        assert notes.asked("token") == []
        assert status_of(came) == 303
        assert begun.outcome().state == "signed_in"
        assert [status_of(came) for _ in range(2)] == [403, 403]
        assert len(notes.asked("token")) == 1


@pytest.mark.skipif(IS_BLIND, reason="browsers of this user cannot be told from others, so no page is offered")
def test_nobody_begins_a_sign_in_but_a_person(oauth, tmp_path):
    """Prefetching, pictures, frames and HEAD make no authorization request; the person's browser does."""
    notes = oauth.liar()
    with signing_hub(tmp_path, {"notes": notes.url}) as hub, hub.begun() as begun:
        url = begun.step.url
        assert status_of(url, Sec_Purpose="prefetch", Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="document") == 403
        assert status_of(url, Sec_Fetch_Mode="no-cors", Sec_Fetch_Dest="image") == 403
        assert status_of(url, Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="iframe") == 403
        assert status_of(url, Origin="https://evil.example") == 403
        assert status_of(url, X_Forwarded_For="10.0.0.1") == 403
        assert status_of(url, method="HEAD") == 200
        assert notes.asked("authorization") == []
        assert status_of(url, Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="document") == 302
        walk_to_the_end(begun.url)
        assert begun.outcome().state == "signed_in"
