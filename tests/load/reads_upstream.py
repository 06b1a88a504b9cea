"""An upstream for `reads.py`: the fixture of the benchmark, with resources of any size.

    reads_upstream.py BENCH http --port N --era modern

`bench://up0/1024` is a text of 1024 bytes. In the modern era it is good for an hour, and the same for everyone.
"""

import sys
from functools import cache
from pathlib import Path

sys.path.insert(0, sys.argv.pop(1))

import fixture
import msgspec

SIZES = (1 << 10, 1 << 20)


class Core(fixture.Core):
    def __init__(self, tools: int, era: str, name: str) -> None:
        super().__init__(tools, era, name)
        self.resources = msgspec.json.encode(
            [{"uri": f"bench://{name}/{size}", "name": f"of {size}", "mimeType": "text/plain"} for size in SIZES]
        )
        self.contents = cache(lambda uri: msgspec.json.encode([{"uri": uri, "text": "x" * int(Path(uri).name)}]))

    def handle(self, raw: bytes):
        message = fixture.decode(raw)
        if message.method != "resources/read":
            return super().handle(raw)
        self.stats["calls"] += 1
        hint = b',"ttlMs":3600000,"cacheScope":"public","resultType":"complete"}'
        modern = message.params.meta.version >= fixture.MODERN
        return self.result(
            message.id, b'{"contents":%b%b' % (self.contents(message.params.uri), hint if modern else b"}")
        )


fixture.Core = Core
fixture.main()
