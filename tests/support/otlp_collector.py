"""A collector of OTLP over HTTP, which reads what it gets by the official classes, or hangs, or refuses."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Collector:
    """What a collector has got. `mode`: `ok`, `hang`, `refuse` (503) or `slow`."""

    def __init__(self, mode="ok"):
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2  # noqa: F401  # not while `_news` is held

        self.mode = mode
        self.bodies = []
        self.headers = []
        self.requests = 0
        self.ended = threading.Event()
        self._news = threading.Condition()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.take(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
                if collector.mode == "hang":
                    collector.ended.wait()
                    return
                if collector.mode == "slow":
                    collector.ended.wait(1)
                self.send_response(503 if collector.mode == "refuse" else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def take(self, path, headers, body):
        with self._news:
            self.requests += 1
            if self.mode in ("ok", "slow"):
                assert path == "/v1/traces"
                self.headers.append(headers)
                self.bodies.append(body)
            self._news.notify_all()

    def await_requests(self, number):
        """Wait until so many came."""
        with self._news:
            assert self._news.wait_for(lambda: self.requests >= number, timeout=60)

    def await_spans(self, number):
        """The spans, once there are so many."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.spans()) >= number, timeout=20), self.spans()
        return self.spans()

    def spans(self):
        """All spans, with the schema's URL and the resource in `about`."""
        from gzip import decompress

        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        found = []
        for headers, body in zip(list(self.headers), list(self.bodies), strict=False):
            data = decompress(body) if headers.get("content-encoding") == "gzip" else body
            for resource in ExportTraceServiceRequest.FromString(data).resource_spans:
                for scope in resource.scope_spans:
                    found += [CollectedSpan(span, attributes_of(resource.resource), scope) for span in scope.spans]
        return found


class CollectedSpan:
    """A span as people compare it."""

    def __init__(self, span, resource, scope):
        self.name = span.name
        self.is_server = span.kind == span.SPAN_KIND_SERVER
        self.trace, self.id, self.parent = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()
        self.state = span.trace_state
        self.attributes = attributes_of(span)
        self.is_error, self.text = span.status.code == 2, span.status.message
        self.began, self.ended = span.start_time_unix_nano, span.end_time_unix_nano
        self.took_s = (self.ended - self.began) / 1e9
        self.links = [(link.trace_id.hex(), link.span_id.hex()) for link in span.links]
        self.resource, self.schema = resource, scope.scope.name

    def __repr__(self):
        return f"{'SERVER' if self.is_server else 'CLIENT'} {self.name} {self.attributes}"


def attributes_of(message):
    """The attributes of a message."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in message.attributes}


@contextmanager
def collecting(mode="ok"):
    """A collector that runs during the block."""
    collector = Collector(mode)
    thread = threading.Thread(target=collector.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield collector
    finally:
        collector.ended.set()
        collector.server.shutdown()
        collector.server.server_close()
        thread.join()
