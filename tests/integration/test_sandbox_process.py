import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path

import pytest

from deploy.local.sandbox.process import SandboxError, SandboxProcess

_PROJECT = Path(__file__).parents[2]


def _push(sandbox, message_id, timeout=10.0):
    connection = HTTPConnection("127.0.0.1", int(sandbox.url.rpartition(":")[2]), timeout=timeout)
    body = json.dumps({"to": "ExponentPushToken[a]", "data": {"messageId": message_id}})
    with contextlib.closing(connection):
        connection.request("POST", "/--/api/v2/push/send", body, {"content-type": "application/json"})
        return connection.getresponse().status


def _run(*flags):
    command = [sys.executable, "-m", "deploy.local.sandbox", *flags]
    return subprocess.run(command, cwd=_PROJECT, capture_output=True, text=True, timeout=20, check=False)


def _is_over(pidfd, seconds):
    return bool(select.select([pidfd], [], [], seconds)[0])


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--port=many",),
        ("--port=70000",),
        ("--port=0", "--rate=-1"),
        ("--port=0", "--receipt-delay=nan"),
        ("--port=0", "--por=1"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(flags):
    done = _run(*flags)

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("sandbox: ")
    assert done.stderr.count("\n") == 1


def test_a_taken_port_is_one_line_and_exit_code_1():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = _run(f"--port={taken.getsockname()[1]}")

    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


def test_the_reason_for_a_failed_start_is_told():
    with pytest.raises(SandboxError, match="is below 0"):
        SandboxProcess("--rate=-5").start()


def test_sigterm_ends_it_at_once_even_while_requests_hang():
    command = [sys.executable, "-m", "deploy.local.sandbox", "--port", "0"]
    with subprocess.Popen(command, cwd=_PROJECT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        prefix = "sandbox listening on http://127.0.0.1:"
        assert line.startswith(prefix)
        with socket.create_connection(("127.0.0.1", int(line.removeprefix(prefix))), timeout=5) as client:
            client.sendall(b"GET /_ledger?wait=60 HTTP/1.1\r\nhost: x\r\n\r\n")
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert process.wait(5) == 0
            assert time.monotonic() - began < 1


def test_it_ends_with_its_parent():
    script = (
        "import time\nfrom deploy.local.sandbox.process import SandboxProcess\n"
        "s = SandboxProcess(); s.start(); print(s.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=_PROJECT, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pidfd = os.pidfd_open(int(parent.stdout.readline()))
        try:
            assert not _is_over(pidfd, 0)
            parent.kill()
            assert _is_over(pidfd, 10)
        finally:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.close(pidfd)


def test_the_ledger_file_survives_a_kill_and_a_second_start_takes_the_same_port(tmp_path):
    path = tmp_path / "ledger.jsonl"
    sandbox = SandboxProcess(f"--ledger-file={path}")
    with sandbox:
        url = sandbox.url
        _push(sandbox, "before")
        sandbox.kill()
        with pytest.raises(SandboxError, match="refused"):
            sandbox.ledger()
        sandbox.start()
        _push(sandbox, "after")

        assert sandbox.url == url
        assert [entry["messageId"] for entry in sandbox.ledger()] == ["after"]
        written = [json.loads(line)["messageId"] for line in path.read_bytes().splitlines()]
        assert written == ["before", "after"]


def test_a_frozen_sandbox_answers_once_it_goes_on():
    with SandboxProcess() as sandbox:
        sandbox.pause()
        with pytest.raises(TimeoutError):
            _push(sandbox, "too slow", timeout=0.3)
        sandbox.resume()

        (entry,) = sandbox.wait_for(bool, timeout=5)
        assert entry["messageId"] == "too slow"


def test_waiting_is_woken_by_the_entry_and_ends_with_its_time():
    with SandboxProcess() as sandbox, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(sandbox.wait_for, lambda entries: len(entries) == 2, 15)
        _push(sandbox, "m1")
        _push(sandbox, "m2")
        assert [entry["messageId"] for entry in waiting.result(5)] == ["m1", "m2"]

        with pytest.raises(TimeoutError, match="2 entries"):
            sandbox.wait_for(lambda entries: len(entries) == 3, timeout=0.1)


def test_the_ledger_is_read_in_parts_and_cleared():
    with SandboxProcess() as sandbox:
        for number in range(3):
            _push(sandbox, f"m{number}")

        assert [entry["messageId"] for entry in sandbox.ledger(after=1)] == ["m1", "m2"]
        assert sandbox.ledger(after=9) == []
        assert [entry["request"] for entry in sandbox.requests(after=2)] == [3]
        assert sandbox.devices(["ExponentPushToken[a]", "unknown"]).keys() == {"ExponentPushToken[a]"}
        sandbox.reset()
        assert (sandbox.ledger(), sandbox.requests(), sandbox.devices()) == ([], [], {})


@pytest.mark.parametrize("query", ["after=x", "after=-1", "wait=nan", "wait=301"])
def test_a_bad_query_is_refused(query):
    with (
        SandboxProcess() as sandbox,
        contextlib.closing(HTTPConnection(sandbox.url[7:], timeout=5)) as connection,
    ):
        connection.request("GET", f"/_ledger?{query}")
        assert connection.getresponse().status == 400


def test_bad_devices_are_refused_with_the_reason():
    with SandboxProcess() as sandbox:
        with pytest.raises(SandboxError, match="state cannot be 'dead'"):
            sandbox.set_devices({"ExponentPushToken[a]": {"state": "dead"}})

        assert sandbox.devices() == {}
