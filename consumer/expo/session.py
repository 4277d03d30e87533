"""The HTTP session under Expo's SDK: compressed, bounded in time, and aware of whether anything was sent.

`requests` bounds each wait for bytes but not the whole answer, so a trickling server could hold a request past its
claim; and its errors do not tell a request that never left from one that was perhaps accepted. Both matter here.
"""

import contextlib
import gzip
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

CONNECT_SECONDS = 3.05


@dataclass
class Flight:
    """What a session's current request has done so far."""

    sent: bool = False
    connection: HTTPConnection | None = None

    def cut(self) -> None:
        """Shut the connection, which ends whatever waits on it."""
        sock = getattr(self.connection, "sock", None)
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


class ExpoSession(requests.Session):
    """A session for one thread. Posts are gzipped, never redirected, and end within `total_seconds`.

    Proxies and netrc of the environment are ignored: they could leak the access token or the messages.
    """

    def __init__(self, total_seconds: float, access_token: str) -> None:
        super().__init__()
        self.trust_env = False
        self.flight = Flight()
        self._total_seconds = total_seconds
        self.headers.update(_headers(access_token))
        adapter = _Adapter(self.flight)
        self.mount("http://", adapter)
        self.mount("https://", adapter)

    def post(self, url: Any, data: Any = None, json: Any = None, **_kwargs: Any) -> requests.Response:
        """POST as the SDK calls it; time-outs are the session's own.

        Raises:
            requests.RequestException: `flight.sent` tells whether anything had left.

        """
        self.flight.sent, self.flight.connection = False, None
        prepared = self.prepare_request(requests.Request("POST", url, json=json, data=data))
        body = prepared.body if isinstance(prepared.body, bytes) else str(prepared.body or "").encode()
        prepared.prepare_body(gzip.compress(body, compresslevel=1), None)
        prepared.headers["Content-Encoding"] = "gzip"
        with self._deadline():
            timeout = (CONNECT_SECONDS, self._total_seconds)
            return self.send(prepared, timeout=timeout, allow_redirects=False, verify=True)

    @contextlib.contextmanager
    def _deadline(self) -> Iterator[None]:
        timer = threading.Timer(self._total_seconds, self.flight.cut)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


class _Watched:
    """Mixed into the connection classes: notes the first byte of a request on its way out."""

    flight: Flight

    def send(self, data: Any) -> None:
        self.flight.connection = self  # type: ignore[assignment]
        if getattr(self, "sock", None) is None:
            self.connect()  # type: ignore[attr-defined]
        self.flight.sent = True
        super().send(data)  # type: ignore[misc]


class _Adapter(HTTPAdapter):
    """Never retries by itself, and opens watched connections."""

    def __init__(self, flight: Flight) -> None:
        self._flight = flight
        super().__init__(pool_connections=1, pool_maxsize=1, max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        watched = {"flight": self._flight}
        plain = type("PlainConnection", (_Watched, HTTPConnection), watched)
        secure = type("SecureConnection", (_Watched, HTTPSConnection), watched)
        self.poolmanager.pool_classes_by_scheme = {
            "http": type("PlainPool", (HTTPConnectionPool,), {"ConnectionCls": plain}),
            "https": type("SecurePool", (HTTPSConnectionPool,), {"ConnectionCls": secure}),
        }


def _headers(access_token: str) -> Mapping[str, str]:
    headers = {
        "accept": "application/json",
        "accept-encoding": "gzip, deflate",
        "content-type": "application/json",
    }
    return {**headers, "authorization": f"Bearer {access_token}"} if access_token else headers
