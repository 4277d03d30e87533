"""Send: what one consumer process passes on to Expo, against Expo's SDK alone and nothing around it."""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import requests
from bson import ObjectId
from exponent_server_sdk import PushClient, PushMessage

from deploy.local.sandbox.process import SandboxProcess
from tests.bench.figures import Duel, Figure, Wanted
from tests.bench.ground import UNLIMITED, Ground, arrival_rate, ground, ledger_of
from tests.bench.population import people, push_token, reminders
from tests.bench.processes import Service, run

_MESSAGES = 10_000
_BARE_MESSAGES = 30_000
_PLAIN_MESSAGES = 10_000
_BATCH = 100
_THREADS = 6
_ROUNDS = 3
_WAIT_SECONDS = 120.0


def bench() -> list[Figure]:
    """Frames pile up on the queues first; then one consumer starts, and its arrivals are timed by the sandbox.

    Judged is the ratio to what the SDK alone posts to a plain server, which is what floor and goal were set against.
    The sandbox is several times faster than that; the ratio to the SDK and the sandbox is told beside it.
    """
    duel, sandbox = Duel(), []
    with ground(*UNLIMITED) as here:
        _bare(here.expo)  # the sandbox is slower while it is new
        for _ in range(_ROUNDS):
            duel.bare.append(_to_a_plain_server())
            sandbox.append(_bare(here.expo))
            duel.ours.append(_ours(here))
    told = statistics.median(sandbox)
    ratio = statistics.median(duel.ours) / told
    return [
        duel.figure("send, one consumer", "notifications/s", Wanted(0.2, 0.3)),
        Figure("… beside SDK and sandbox alone", ratio, "x bare", f"bare {told:,.0f} notifications/s"),
    ]


def _ours(here: Ground) -> float:
    here.expo.reset()
    with here.database() as (database, settings):
        # Due already, and within the grace: what the plan inserts can go out at once.
        reminders(database, people(database, _MESSAGES, ["Etc/UTC"]), [datetime.now(UTC).strftime("%H:%M")])
        pile_up(settings, _MESSAGES)
        with Service(settings, "consumer", "send"):
            return arrival_rate(ledger_of(here, database, _MESSAGES, _WAIT_SECONDS))


def pile_up(settings: Mapping[str, str], count: int) -> None:
    """Plan what is due now and put it on the broker."""
    answer = run(settings, "creator", "plan", "--horizon", "0.01", "--json").answer
    planned = json.loads(answer.splitlines()[-1])["summary"]["planned"]
    assert planned == count, answer[-500:]
    answer = run(settings, "creator", "relay", "--once").answer
    assert f"{count} put on the broker" in answer, answer[-500:]


def _bare(sandbox: SandboxProcess) -> float:
    """What somebody does who has the SDK alone: make its messages, a hundred at a time, and publish them."""
    sandbox.reset()
    ids = [ObjectId() for _ in range(_BARE_MESSAGES)]
    batches = [ids[start : start + _BATCH] for start in range(0, _BARE_MESSAGES, _BATCH)]
    with ThreadPoolExecutor(_THREADS) as pool:
        for _ in pool.map(lambda thread: _post(sandbox.url, batches[thread::_THREADS]), range(_THREADS)):
            pass
    return arrival_rate(sandbox.ledger())


def _to_a_plain_server() -> float:
    """The SDK alone, to a server of the standard library, in messages per second."""
    command = [sys.executable, str(Path(__file__).with_name("plain_server.py"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
            ids = [ObjectId() for _ in range(_PLAIN_MESSAGES)]
            batches = [ids[start : start + _BATCH] for start in range(0, _PLAIN_MESSAGES, _BATCH)]
            began = time.monotonic()
            with ThreadPoolExecutor(_THREADS) as pool:
                for _ in pool.map(lambda thread: _post(url, batches[thread::_THREADS]), range(_THREADS)):
                    pass
            return _PLAIN_MESSAGES / (time.monotonic() - began)
        finally:
            server.terminate()


def _post(url: str, batches: list[list[ObjectId]]) -> None:
    with requests.Session() as session:
        session.headers.update({"accept": "application/json", "content-type": "application/json"})
        client = PushClient(host=url, session=session, timeout=30)
        for batch in batches:
            client.publish_multiple([_message(row_id) for row_id in batch])


def _message(row_id: ObjectId) -> PushMessage:
    return PushMessage(
        to=push_token(row_id),
        title="Time for a break",
        body="Your reminder of today",
        data={"screen": "today", "messageId": str(row_id)},
        sound="default",
        expiration=int((datetime.now(UTC) + timedelta(minutes=30)).timestamp()),
    )
