"""A STOMP 1.2 dialogue over one plain socket, for probes: every step has its own time-out."""

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", ":": "\\c"}
_UNESCAPES = {escaped: character for character, escaped in _ESCAPES.items()}
_ESCAPED = re.compile(r"\\.")
_HEAD_END = b"\n\n"


class DialogueError(OSError):
    """The broker refused, hung up or stayed silent; the text says which."""


@dataclass(frozen=True)
class Frame:
    """One frame from the broker."""

    command: str
    headers: Mapping[str, str]
    body: bytes


class StompDialogue:
    """A logged-in connection; use as a context manager. All time-outs are in seconds."""

    def __init__(self, address: tuple[str, int], login: str, passcode: str, timeout: float) -> None:
        self._socket = socket.create_connection(address, timeout=timeout)
        self._buffer = b""
        try:
            self.send("CONNECT", {"accept-version": "1.2", "host": "/", "login": login, "passcode": passcode})
            self.expect("CONNECTED", timeout)
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, command: str, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Send one frame."""
        plain = command == "CONNECT"  # for compatibility with STOMP 1.0, CONNECT does not escape
        lines = [f"{name}:{value if plain else _escape(value)}" for name, value in headers.items()]
        self._socket.sendall("\n".join([command, *lines, "", ""]).encode() + body + b"\0")

    def send_with_receipt(self, headers: Mapping[str, str], body: bytes, timeout: float) -> None:
        """Send a message and wait until the broker says that it is durable."""
        self.send("SEND", {**headers, "receipt": "sent", "content-length": str(len(body))}, body)
        self.expect("RECEIPT", timeout)

    def subscribe(self, destination: str, headers: Mapping[str, str] | None = None) -> None:
        """Ask for a destination's messages, acknowledged as they are sent."""
        self.send("SUBSCRIBE", {"id": destination, "destination": destination, "ack": "auto", **(headers or {})})

    def expect(self, command: str, timeout: float) -> Frame:
        """The next frame, which must be this one; DialogueError if it is another or none comes in time."""
        frame = self.receive(timeout)
        if frame.command != command:
            raise DialogueError(f"expected {command}, got {frame.command} {frame.headers.get('message', '')}".strip())
        return frame

    def receive(self, timeout: float) -> Frame:
        """The next frame of whatever kind; DialogueError if none comes in time or the broker hangs up."""
        self._socket.settimeout(timeout)
        head = self._take_head()
        command, *lines = head.decode().replace("\r", "").split("\n")
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers.setdefault(_unescape(name), _unescape(value))  # of a repeated header the first counts
        length = headers.get("content-length")
        return Frame(command, headers, self._take_body(int(length) if length else None))

    def _take_head(self) -> bytes:
        while _HEAD_END not in (waiting := self._buffer.lstrip(b"\r\n")):
            self._read()
        head, _, self._buffer = waiting.partition(_HEAD_END)
        return head

    def _take_body(self, length: int | None) -> bytes:
        while (len(self._buffer) <= length) if length is not None else (b"\0" not in self._buffer):
            self._read()
        end = length if length is not None else self._buffer.index(b"\0")
        body, self._buffer = self._buffer[:end], self._buffer[end + 1 :]
        return body

    def _read(self) -> None:
        try:
            piece = self._socket.recv(65536)
        except TimeoutError as fault:
            raise DialogueError("the broker stayed silent") from fault
        if not piece:
            raise DialogueError("the broker hung up")
        self._buffer += piece


def _escape(text: str) -> str:
    return "".join(_ESCAPES.get(character, character) for character in text)


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: _UNESCAPES.get(found[0], found[0]), text)
