"""Malformed bodies and headers POSTed to the endpoint: an allowed status, a valid answer, nothing left behind.

`HUBD_FUZZ=10000 pytest tests/hub/downstream/http/test_fuzz_bodies.py` for the long run.
"""

import random

import msgspec
import pytest

from hub.downstream.http.refusals import NOTHING_HERE
from hub.net.look_after_connections import HttpRequest
from hub.wire.mcp import L2, L4, MODERN
from tests.hub.downstream.lines.test_fuzz_lines import COUNT, SEED, mutated, sound
from tests.support.http_fakes import Answered, Host, Scripted, make_endpoint, pending

STATUSES = {200, 202, 400, 404, 405, 406, 415}
VALUES = ("", "x", "\xff", "=?base64?eA==?=", "*/*", L4, "a1-1", "n1-0", "application/json")
PLAIN = {b"", NOTHING_HERE}


def headers_for(chance: random.Random, hosts: list[Host]) -> dict[str, str]:
    headers = chance.choice(hosts).headers()
    if chance.random() < 0.4:
        headers |= {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "progress"}
        headers.pop("mcp-session-id", None)
    for name in list(headers):
        match chance.randrange(12):
            case 0:
                del headers[name]
            case 1:
                headers[name] = chance.choice(
                    ("", "x", "\xff", "=?base64?eA==?=", "*/*", L4, "a1-1", "n1-0", headers[name])
                )
    return headers


@pytest.mark.covers("F-H-08", "F-H-09", "F-H-17", "I-12")
async def test_malformed_bodies(autojump_clock):
    chance = random.Random(SEED)
    endpoint = make_endpoint(Scripted())
    hosts = [Host(endpoint), Host(endpoint)]
    for host, version in zip(hosts, (L2, L4), strict=True):
        await host.initialize(version)
    for _ in range(COUNT):
        response, path = Answered(), chance.choice(("/mcp", "/mcp", "/mcp", "/mcp/files", "/mcp/x"))
        request = HttpRequest("POST", path, headers_for(chance, hosts), mutated(chance), identity=hosts[0].identity)
        if (rest := endpoint.handle(request, response)) is not None:
            await rest
        assert response.complete.is_set(), request
        assert response.status in STATUSES, request
        for said in [data for _, data in response.events] or [response.body]:
            if said not in PLAIN:
                sound(said)
        if response.status == 400:
            assert "error" in msgspec.json.decode(response.body)
        for session in endpoint.sessions:
            if session.id not in [host.session for host in hosts]:
                endpoint.sessions.close(session)
    assert pending(endpoint) == 0
    assert not endpoint.hosts.requests.count
