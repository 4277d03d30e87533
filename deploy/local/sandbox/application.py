"""All that the stand-in answers over HTTP: Expo's two endpoints, and those that tests steer it by."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from deploy.local.sandbox.connection import PushEndpoint
from deploy.local.sandbox.devices import DevicesError
from deploy.local.sandbox.faults import On, OrdersError, read_orders
from deploy.local.sandbox.journal import Journal
from deploy.local.sandbox.moments import Moment
from deploy.local.sandbox.push_service import PushService

_LONGEST_WAIT_SECONDS = 300.0
_JSON_LINES = "application/x-ndjson"
_Handler = Callable[[Request], Awaitable[Response]]


class QueryError(ValueError):
    """A query parameter that is no number in range."""


def build_application(service: PushService) -> Starlette:
    """The ASGI application over one push service."""
    steering = Steering(service)
    journals = {"/_ledger": service.ledger, "/_requests": service.requests}
    return Starlette(
        routes=[
            Route("/--/api/v2/push/send", PushEndpoint(service, On.SEND), methods=["POST"]),
            Route("/--/api/v2/push/getReceipts", PushEndpoint(service, On.RECEIPTS), methods=["POST"]),
            *(Route(path, _reader(journal), methods=["GET"]) for path, journal in journals.items()),
            *(Route(path, _eraser(journal), methods=["DELETE"]) for path, journal in journals.items()),
            Route("/_faults", steering.show_faults, methods=["GET"]),
            Route("/_faults", steering.order_faults, methods=["PUT"]),
            Route("/_faults", steering.clear_faults, methods=["DELETE"]),
            Route("/_devices", steering.show_devices, methods=["GET"]),
            Route("/_devices", steering.set_devices, methods=["PUT"]),
            Route("/_devices", steering.forget_devices, methods=["DELETE"]),
        ]
    )


class Steering:
    """The endpoints for faults and devices."""

    def __init__(self, service: PushService) -> None:
        self._service = service

    async def show_faults(self, _: Request) -> Response:
        """The present orders and how often each struck."""
        return JSONResponse(self._service.faults.describe())

    async def order_faults(self, request: Request) -> Response:
        """Replace the present orders; 400 and no change if one is bad."""
        try:
            orders = read_orders(json.loads(await request.body()))
        except OrdersError as problem:
            return _bad(problem)
        except (ValueError, RecursionError):
            return _bad("the body is not JSON")
        self._service.faults.replace(orders, Moment.now().steady)
        return JSONResponse(self._service.faults.describe())

    async def clear_faults(self, _: Request) -> Response:
        """Forget all orders."""
        self._service.faults.replace([], Moment.now().steady)
        return Response(status_code=204)

    async def show_devices(self, request: Request) -> Response:
        """What the owners see; ``?token=`` (repeatable) narrows it down."""
        tokens = request.query_params.getlist("token") or None
        return StreamingResponse(self._described(tokens), media_type="application/json")

    async def set_devices(self, request: Request) -> Response:
        """Make devices known or change them; 400 and no change if one is bad."""
        try:
            self._service.devices.update(json.loads(await request.body()))
        except DevicesError as problem:
            return _bad(problem)
        except (ValueError, RecursionError):
            return _bad("the body is not JSON")
        return Response(status_code=204)

    async def forget_devices(self, _: Request) -> Response:
        """Forget all devices."""
        self._service.devices.clear()
        return Response(status_code=204)

    async def _described(self, tokens: list[str] | None) -> AsyncIterator[bytes]:
        opening = b"{"
        for token, description in self._service.devices.describe(tokens):
            yield opening + f"{json.dumps(token)}: {json.dumps(description)}".encode()
            opening = b",\n"
        yield b"{}" if opening == b"{" else b"}"


def _reader(journal: Journal) -> _Handler:
    async def read(request: Request) -> Response:
        try:
            after = int(_number(request, "after", 1e15))
            wait = _number(request, "wait", _LONGEST_WAIT_SECONDS)
        except QueryError as problem:
            return _bad(problem)
        if wait > 0:
            await journal.wait_beyond(after, wait)
        return StreamingResponse(_chunks(journal.since(after)), media_type=_JSON_LINES)

    return read


async def _chunks(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def _eraser(journal: Journal) -> _Handler:
    async def erase(_: Request) -> Response:
        journal.clear()
        return Response(status_code=204)

    return erase


def _number(request: Request, name: str, highest: float) -> float:
    text = request.query_params.get(name, "0")
    try:
        value = float(text)
    except ValueError:
        raise QueryError(f"{name} must be a number, not {text!r}") from None
    if not 0 <= value <= highest:
        raise QueryError(f"{name} must be from 0 to {highest:.0f}, not {text}")
    return value


def _bad(problem: object) -> Response:
    return JSONResponse({"error": str(problem)}, status_code=400)
