"""The small HTTP server of every service: /metrics, /healthz (alive), /readyz (can do its job)."""

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from shared.runtime.settings import PREFIX, BadSettings

# What a service cannot do right now, by the part that says so; empty when it is ready.
Complaints = Callable[[], Mapping[str, str]]


class StatusServer:
    """Answers on `port` (0 takes a free one) until closed."""

    def __init__(
        self, port: int, registry: CollectorRegistry, complaints: Complaints, facts: Mapping[str, str]
    ) -> None:
        self._registry, self._complaints, self._facts = registry, complaints, facts
        try:
            self._server = ThreadingHTTPServer(("", port), self._handler())
        except OSError as error:
            raise BadSettings(f"{PREFIX}HTTP_PORT: {port} cannot be used: {error.strerror}") from error
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="status", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)

    def _answer(self, path: str) -> tuple[int, str, bytes]:
        if path == "/metrics":
            return 200, CONTENT_TYPE_LATEST, generate_latest(self._registry)
        if path == "/healthz":
            return 200, "application/json", json.dumps({"alive": True, **self._facts}).encode()
        if path == "/readyz":
            complaints = dict(self._complaints())
            body = {"ready": not complaints, "cannot": complaints, **self._facts}
            return (503 if complaints else 200), "application/json", json.dumps(body).encode()
        return 404, "text/plain", b"try /metrics, /healthz or /readyz\n"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self._answer

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, kind, body = answer(self.path.split("?")[0])
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_args: object) -> None:
                """Health checks are not worth a log line."""

        return Handler
