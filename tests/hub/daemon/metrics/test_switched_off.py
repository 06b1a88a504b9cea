"""Metrics of a hub that is a real process: there by default, gone and back by the configuration."""

import urllib.error
import urllib.request

import pytest

from tests.support.attached import DEMO, said
from tests.support.processes import running_hub


def status_of(hub, token):
    url = hub.url.removesuffix("/mcp") + "/metrics"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.covers("OM-5")
def test_the_page_is_there_unless_it_is_switched_off(tmp_path):
    with running_hub(tmp_path, DEMO) as hub:
        token = said(hub, "token", "--metrics").strip()
        assert [status_of(hub, each) for each in (token, hub.token, "x" * 43)] == [200, 200, 401]
        hub.config.write_text(f"{DEMO}[metrics]\nenabled = false\n")
        said(hub, "reload")
        assert [status_of(hub, each) for each in (hub.token, "x" * 43)] == [404, 404]
        assert said(hub, "metrics").startswith("# HELP"), "who may open the control socket is told all the same"
        hub.config.write_text(DEMO)
        said(hub, "reload")
        assert status_of(hub, token) == 200
