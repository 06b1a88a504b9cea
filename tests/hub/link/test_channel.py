"""Descriptors beneath streams, and TCP peers that vanish."""

import os
import socket

import pytest
import trio
import trio.testing

from hub.link.channel import PEER_DEAD_S, descriptor, watch_peer

LIMIT = 100


def pipe():
    """Both ends of a pipe: (ours for writing, theirs for reading)."""
    reading, writing = os.pipe()
    return trio.lowlevel.FdStream(writing), trio.lowlevel.FdStream(reading)


async def test_sockets_and_pipes_have_descriptors():
    ours, theirs = pipe()
    left, right = socket.socketpair()
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(left))
    assert descriptor(ours) == ours.fileno()
    assert descriptor(stream) == left.fileno()
    assert descriptor(trio.testing.memory_stream_pair()[0]) is None
    right.close()
    for each in (ours, theirs, stream):
        await each.aclose()


@pytest.mark.covers("F-R-09")
async def test_a_peer_that_vanishes_is_noticed():
    tcp, unix = trio.socket.socket(), trio.socket.socket(socket.AF_UNIX)
    with tcp, unix:
        watch_peer(tcp)
        watch_peer(unix)
        assert tcp.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        wait_s, every_s, times = (
            tcp.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
        assert wait_s + every_s * times == PEER_DEAD_S
        assert tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == PEER_DEAD_S * 1000
