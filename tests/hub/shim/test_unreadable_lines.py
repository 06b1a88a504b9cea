"""Lines that cannot be read, in an interpreter like the shim's: without the json package, where Python's scanner fails
otherwise than it does beside it."""

import subprocess
import sys
import textwrap

import pytest

ALONE = """
import sys
from hub.shim.mini_jsonrpc import ends, first_id, members, params_of, parse
assert "json" not in sys.modules

def read(line):
    parse(line), ends(line), members(line), params_of(line, {}), first_id(line, 0, len(line))
    first_id(line, min(22, len(line) - 1), len(line))
"""
CONVERSATION = (
    ALONE
    + """
from hub.shim.line_buffers import ToHost, ToHub
from hub.shim.replay import Replay

class Hub:
    def __init__(self):
        self.got = b""
    def send(self, data, flags):
        self.got += data
        return len(data)

INIT = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}\\n'
PING = b'{"jsonrpc":"2.0","id":77,"method":"ping"}\\n'
WELCOME = (b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","instructions":"%s",'
    b'"capabilities":{"tools":{"listChanged":true}}}}\\n')

def converse(*lines):
    recall, hub = Replay(), Hub()
    recall.greeting()
    to_hub, to_host = ToHub(recall), ToHost(recall)
    to_hub.put(b"".join(lines))
    while to_hub:
        to_hub.send(hub)
    assert hub.got == b"".join(lines)
    return recall, to_hub, to_host
def hear(to_host, line, size=65536):
    return b"".join(b"".join(to_host.pass_on(line[at:at + size])) for at in range(0, len(line), size))
"""
)
LINES = [
    b'{"jsonrpc" "2.0"}',
    b'{"jsonrpc":"2.0',
    b'{"a":1,}',
    b"hello",
    b'{"p":"C:\\x"}',
    b'{"jsonrpc":"2.0","method":"notifications/x","params":{"a":"b\tc"}}',
    b"[1, 2",
    b"[1,]",
    b'{"a":"\\ud8',
    b'{"id":-}',
    b'"\xff"',
    b"\xff\xfe\x00",
    b"{",
    b"{1:2}",
    b"[" * 100_000,
    b'{"id":' + b"9" * 5000 + b"}",
    b'{"a":1} 2',
    b'{"jsonrpc":"2.0","id":"' + b"i" * 600 + b'","method":"ping"}',
    b'{"method":"ping","id":"' + b"i" * 600 + b'","jsonrpc":"2.0"}',
    b'{"jsonrpc":"2.0","trace":"' + b"t" * 600 + b'","id":5,"method":"ping"}',
    b'{"jsonrpc":"2.0","trace":"' + b'\\"' * 600 + b'","id":5,"method":"ping"}',
    b'{"method":"notifications/cancelled","params":{"requestId":9,"reason":"' + b"r" * 600 + b'"},"jsonrpc":"2.0"}',
    b'{"jsonrpc":"2.0","method":"resources/subscribe","id":3,"params":{"uri":' + b"[" * 900 + b"]" * 900 + b"}}",
    b'{"jsonrpc":"2.0","id":"a',
    b'{"jsonrpc":"2.0","id":"a\\x","result":{}}',
    b'{"jsonrpc":"2.0","error":{"message":' + b"[" * 900 + b"]" * 900 + b"}}",
    b'{"jsonrpc":"2.0","error":{"message"}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":',
    b'{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"x',
    b'{"hubd":1,"bye',
]


def alone(code: str, before: str = ALONE) -> None:
    """Run some code in an interpreter of its own; what it raises is the failure of the test."""
    code = before + f"LINES = {LINES!r}\n" + textwrap.dedent(code) + '\nassert "json" not in sys.modules\n'
    found = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr[-2000:]


def test_a_line_that_cannot_be_read_says_nothing():
    alone("""
        for line in LINES:
            read(line)
            read(line + b"\\n")
        assert [parse(line) for line in LINES[:17]] == [None] * 17
    """)


@pytest.mark.parametrize("index", [17, 18, 19, 20])
def test_a_long_member_does_not_hide_the_request(index):
    alone(f"assert members(LINES[{index}])['method'] == 'ping' and members(LINES[{index}])['id']")


@pytest.mark.covers("SEC-16")
def test_mutated_lines_raise_nothing():
    """Two thousand lines, each some changes away from one of those above; the same ones in each run."""
    alone(
        """
        from _random import Random
        chance = Random(7)
        def below(end): return chance.getrandbits(30) % end
        for turn in range(2000):
            line = bytearray(LINES[turn % len(LINES)][:4000])
            for _ in range(1 + below(6)):
                at, kind = below(len(line)), below(4)
                if kind == 0:
                    line[at] = below(256)
                elif kind == 1:
                    del line[at : at + 1 + below(8)]
                elif kind == 2:
                    line[at:at] = bytes((b'"\\\\{}[],:0\\t ' [below(11)],))
                else:
                    line[at:at] = line[below(len(line)):][:600]
                line = line or bytearray(b"{")
            line = bytes(line).replace(b"\\n", b"")
            read(line)
            _, to_hub, to_host = converse(INIT, line + b"\\n", PING)
            hear(to_host, line + b"\\n")
    """,
        CONVERSATION,
    )


@pytest.mark.covers("SEC-16")
def test_the_conversation_goes_on_after_each():
    alone(
        """
        for line in LINES:
            recall, to_hub, to_host = converse(INIT, line + b"\\n", PING)
            hear(to_host, line + b"\\n")
            answer = b'{"jsonrpc":"2.0","id":77,"result":{}}\\n'
            assert hear(to_host, answer) == answer
            assert b'"id":77,' not in recall.on_loss() + recall.give_up(b"")
    """,
        CONVERSATION,
    )


def test_a_fault_of_what_is_remembered_leaves_the_bytes_alone():
    alone(
        """
        class Faulty(Replay):
            def _note(self, message, line): raise AssertionError
            def _heard(self, data, start, end): raise AssertionError
        Replay = Faulty
        _, _, to_host = converse(INIT, PING)
        assert hear(to_host, WELCOME + PING) == WELCOME + PING
    """,
        CONVERSATION,
    )


@pytest.mark.parametrize("size", [700, 5_000, 65_536])
def test_a_long_acknowledgement_in_pieces_is_read_whole(size):
    """Of a host that listens to a thousand resources with long addresses."""
    alone(
        f"""
        uris = b",".join(b'"x://' + b"u" * 700 + b'%d"' % i for i in range(1000))
        listen = b'{{"jsonrpc":"2.0","id":5,"method":"subscriptions/listen","params":{{}}}}\\n'
        recall, _, to_host = converse(listen)
        told = (b'{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"notifications":'
            b'{{"resourceSubscriptions":[%s]}},"_meta":{{"io.modelcontextprotocol/subscriptionId":5}}}}}}\\n' % uris)
        assert hear(to_host, told, {size}) == told
        recall.on_loss(), recall.greeting(), recall.rest()
        said = hear(ToHost(recall), told, {size})
        assert said.count(b"notifications/resources/updated") == 1000 and b"acknowledged" not in said
    """,
        CONVERSATION,
    )


@pytest.mark.parametrize("size", [7, 65_536])
def test_a_long_answer_to_initialize_in_pieces_is_read_whole(size):
    alone(
        f"""
        recall, to_hub, to_host = converse(INIT)
        welcome = WELCOME % (b"i" * 200_000)
        assert hear(to_host, welcome, {size}) == welcome
        to_hub.put(b'{{"jsonrpc":"2.0","method":"notifications/initialized"}}\\n')
        to_hub.send(Hub())
        recall.on_loss(), recall.greeting()
        assert hear(to_host, welcome, {size}).count(b"tools/list_changed") == 1
        assert recall.greeted and not recall.refusal
        """,
        CONVERSATION,
    )


def test_a_request_of_which_only_the_ends_were_kept_is_not_sent_again():
    """But answered: the next hub could not read it."""
    alone(
        """
        recall, to_hub, _ = converse(INIT)
        line = b'{"jsonrpc":"2.0","id":9,"method":"prompts/get","params":{"a":"%s"}}\\n' % (b"x" * 200_000)
        hub = Hub()
        for at in range(0, len(line), 65536):
            to_hub.put(line[at : at + 65536])
            to_hub.send(hub)
        assert hub.got == line
        assert b'"id":9,"error"' in recall.on_loss()
        recall.greeting()
        assert b"prompts/get" not in recall.rest()
    """,
        CONVERSATION,
    )
