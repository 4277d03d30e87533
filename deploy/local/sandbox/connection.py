"""The push endpoints over HTTP: reading requests, and answering, trickling or cutting the connection."""

import asyncio
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from deploy.local.sandbox import answers
from deploy.local.sandbox.answers import Answer, Manner
from deploy.local.sandbox.bodies import MAX_BODY_BYTES
from deploy.local.sandbox.faults import Fault, On
from deploy.local.sandbox.moments import Moment
from deploy.local.sandbox.push_service import PushService, Request

_CUT = "sandbox.cut"


class CuttableProtocol(H11Protocol):
    """HTTP/1.1 whose applications can break the connection: ASGI itself has no word for that."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        application = self.app

        async def with_cut(scope: Scope, receive: Receive, send: Send) -> None:
            scope[_CUT] = self.transport.abort
            await application(scope, receive, send)

        self.app = with_cut


class ClientGone(Exception):
    """The client left before its request was read."""


class PushEndpoint:
    """An ASGI application for one of the two push endpoints."""

    def __init__(self, service: PushService, kind: On) -> None:
        self._service = service
        self._kind = kind

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or break its connection."""
        with self._service.in_flight.entered() as in_flight:
            request = self._service.arrive(self._kind, Headers(scope=scope), in_flight)
            answer = await self._decide(request, receive)
            is_cut = answer.manner is Manner.CUT
            waits = await _client_waits(answer.delay + (answer.pause if is_cut else 0.0), receive)
            if waits and answer.manner is Manner.TRICKLE:
                waits = await _trickle_all_but_last(answer, receive, send)
            answered = waits and not is_cut
            self._service.depart(request, answer.status if answered else None, Moment.now())
        # Out of the count and in the log before the answer is complete: its reader may act on it at once.
        if not answered:
            await _cut(scope, receive)
        elif answer.manner is Manner.TRICKLE:
            await send({"type": "http.response.body", "body": answer.body[-1:]})
        else:
            await _start(answer, send)
            await send({"type": "http.response.body", "body": answer.body})

    async def _decide(self, request: Request, receive: Receive) -> Answer:
        service = self._service
        if service.faults.refuses(request.kind, request.arrived.steady):
            request.faults.append(Fault.REFUSE)
            return answers.cut()
        try:
            raw = await _read(receive)
        except ClientGone:
            return answers.cut()
        return service.judge(request, raw, Moment.now())


async def _read(receive: Receive) -> bytes:
    """The whole body, or one byte more than any request may have. Raises ClientGone."""
    chunks: list[bytes] = []
    size, more = 0, True
    while more and size <= MAX_BODY_BYTES:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        more = message.get("more_body", False)
    return b"".join(chunks)


async def _client_waits(seconds: float, receive: Receive) -> bool:
    """Let time pass; False as soon as the client has left."""
    if seconds <= 0:
        return True
    try:
        async with asyncio.timeout(seconds):
            await _until_gone(receive)
    except TimeoutError:
        return True
    return False


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _start(answer: Answer, send: Send) -> None:
    headers = [
        (b"content-type", answer.content_type.encode()),
        (b"content-length", str(len(answer.body)).encode()),
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})


async def _trickle_all_but_last(answer: Answer, receive: Receive, send: Send) -> bool:
    """Send the answer byte by byte, except for the last one; False if the client left."""
    await _start(answer, send)
    for byte in answer.body[:-1]:
        await send({"type": "http.response.body", "body": bytes([byte]), "more_body": True})
        if not await _client_waits(answer.pause, receive):
            return False
    return True


async def _cut(scope: Scope, receive: Receive) -> None:
    scope[_CUT]()
    # The server believes a connection lost only once it was told; returning sooner would make it answer 500.
    await _until_gone(receive)
