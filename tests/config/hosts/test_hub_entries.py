"""Which variables an entry has to carry, so that a host which the desktop starts finds this shell's hub."""

import os
from pathlib import Path

import pytest

from config.hosts.hub_entries import variables_to_carry

HOME = Path("/home/me")
USUAL = f"/run/user/{os.getuid()}"


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, {}),
        ({"XDG_RUNTIME_DIR": USUAL}, {}),
        ({"XDG_RUNTIME_DIR": f"{USUAL}/"}, {}),
        ({"HUBD_RUNTIME_DIR": f"{USUAL}/hubd"}, {}),
        ({"XDG_RUNTIME_DIR": "/other"}, {"HUBD_RUNTIME_DIR": "/other/hubd"}),
        ({"XDG_RUNTIME_DIR": "/other", "HUBD_RUNTIME_DIR": "/mine"}, {"HUBD_RUNTIME_DIR": "/mine"}),
        ({"HUBD_RUNTIME_DIR": "relative"}, {}),
        ({"XDG_CONFIG_HOME": "/home/me/.config", "XDG_STATE_HOME": "/home/me/.local/state"}, {}),
        ({"XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s/"}, {"XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s"}),
        ({"XDG_CONFIG_HOME": "c", "XDG_STATE_HOME": ""}, {}),
        ({"XDG_DATA_HOME": "/d"}, {"XDG_DATA_HOME": "/d"}),
        ({"XDG_DATA_HOME": "/home/me/.local/share"}, {}),
        ({"XDG_CACHE_HOME": "/k", "HUBD_TOKEN": "s3cret", "PATH": "/bin"}, {}),
    ],
)
def test_only_what_leads_elsewhere_is_carried(environ, found):
    assert variables_to_carry(environ, HOME) == found
    assert variables_to_carry(found, HOME) == found, "by these alone the same hub is found"
