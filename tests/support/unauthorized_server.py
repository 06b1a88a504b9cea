"""An HTTP server that lets nobody in, as remote servers do before somebody has signed in."""

import contextlib
import http.server
import threading


class _Refusing(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _refuse(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Bearer error="invalid_token"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST = do_DELETE = _refuse

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def unauthorized_server():
    """The URL of a server that answers 401 to everything."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Refusing) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp"
        finally:
            server.shutdown()
            thread.join(10)
