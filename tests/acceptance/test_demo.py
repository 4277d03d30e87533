"""The whole demonstration, as CI runs it: without a terminal, to the end, by its exit code and its last line."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deploy.local.process import marked_processes

PROJECT = Path(__file__).resolve().parents[2]
KEYS = {
    "planned",
    "accepted",
    "success",
    "failed",
    "is_missed",
    "lost",
    "repeated",
    "resent_unknown",
    "early",
    "lateness_p50_s",
    "lateness_p99_s",
    "reasons",
}


def command(folder: Path) -> list[str]:
    return [sys.executable, "-m", "deploy.local.demo", "--folder", str(folder)]


def processes_that_mention(folder: Path) -> list[str]:
    """Command lines of every process whose open log, arguments or environment lie in `folder`."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            output = str((entry / "fd" / "1").readlink())
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in output or str(folder) in line:
            found.append(line)
    return found


@pytest.mark.timeout(420)
def test_everything_meets_its_fate(tmp_path: Path) -> None:
    done = subprocess.run(command(tmp_path), cwd=PROJECT, capture_output=True, text=True, check=False, timeout=400)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "\x1b" not in done.stdout
    closing = json.loads(done.stdout.splitlines()[-1])
    assert set(closing) == KEYS
    assert closing["lost"] == closing["repeated"] == closing["early"] == 0
    assert closing["planned"] == closing["success"] + closing["failed"] + closing["is_missed"] > 280
    # Phones that are gone without Expo's knowledge are accepted too; the rest of the surplus are second copies.
    assert closing["accepted"] > closing["success"]
    assert closing["resent_unknown"] >= 5
    assert closing["reasons"]["device_not_registered"] == 6
    assert {"opted_out", "superseded", "reminder_cancelled", "outside_allowed_hours"} < set(closing["reasons"])
    assert "killed with SIGKILL" in done.stdout
    assert processes_that_mention(tmp_path) == []


@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_stays_running_when_it_is_interrupted(tmp_path: Path, number: signal.Signals) -> None:
    output = tmp_path.parent / f"{tmp_path.name}.txt"
    with output.open("wb") as file, subprocess.Popen(command(tmp_path), cwd=PROJECT, stdout=file, stderr=file) as demo:
        try:
            wait_until(lambda: "two planners" in output.read_text() or demo.poll() is not None, 90)
            assert demo.poll() is None, output.read_text()
            assert len(processes_that_mention(tmp_path)) >= 7
            demo.send_signal(number)
            code = demo.wait(60)
        finally:
            demo.kill()
    assert code == (-signal.SIGKILL if number is signal.SIGKILL else 128 + signal.SIGINT), output.read_text()
    wait_until(lambda: not processes_that_mention(tmp_path) and not [*marked_processes(tmp_path)], 20)


def wait_until(condition: object, seconds: float) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "awaited in vain"
        time.sleep(0.1)  # other processes' lives have no signal to wait for
