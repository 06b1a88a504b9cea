"""Answers of guarded requests, as they are shown."""

from upstreams.fetch.model import Fetched


def test_an_answer_does_not_show_what_is_in_it():
    shown = repr([Fetched(200, {"set-cookie": "CANARY"}, b'{"access_token": "CANARY"}')])
    assert shown == "[<Fetched 200, 26 bytes>]"
