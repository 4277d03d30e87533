"""The plainest server that satisfies the SDK: the standard library's, with a ticket for each message.

Run as a script; prints its port. The floor of `send` was set against the SDK's rate to a server like this.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    """Accepts everything."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer with a ticket for each message."""
        messages = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps({"data": [{"status": "ok", "id": f"t{number}"} for number in range(len(messages))]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)  # noqa: T201 - whoever started it reads the port
    server.daemon_threads = True
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)
