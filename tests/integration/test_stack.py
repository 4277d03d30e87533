"""The local stack, driven as its users do: by command line, by signal and by the block of a test."""

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from deploy.local.dialogue import DialogueError, StompDialogue
from deploy.local.errors import FolderBusyError, NotReadyError
from deploy.local.ports import HOST
from deploy.local.process import LiveProcess, marked_processes
from deploy.local.stack import LocalStack

EXPORT = re.compile(r"export (PUNKTLIG_[A-Z_]+)='([^']*)'")
PROJECT = Path(__file__).resolve().parents[2]
SETTINGS = {
    "PUNKTLIG_MONGO_URL",
    "PUNKTLIG_MONGO_DB",
    "PUNKTLIG_STOMP_URLS",
    "PUNKTLIG_STOMP_LOGIN",
    "PUNKTLIG_STOMP_PASSCODE",
}


def local(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "deploy.local", *map(str, arguments))
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=60)


def up(folder: Path) -> dict[str, str]:
    answer = local("up", "--no-sandbox", "--no-indexes", "--folder", folder)
    assert answer.returncode == 0, answer.stderr
    lines = answer.stdout.splitlines()
    matches = [EXPORT.fullmatch(line) for line in lines]
    assert all(matches), answer.stdout
    return {match[1]: match[2] for match in matches if match}


def running(folder: Path) -> dict[str, int]:
    found = list(marked_processes(folder.resolve()))
    for _, process in found:
        process.close()
    return {mark.name: process.pid for mark, process in found}


def mongo(url: str) -> MongoClient[dict[str, Any]]:
    return MongoClient(url, serverSelectionTimeoutMS=10_000, w="majority", journal=True)


def port_of(url: str) -> int:
    return int(re.findall(r":(\d+)", url)[0])


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "stack"
    local("down", "--folder", tmp_path / "stack")


@pytest.fixture
def dialogue(stack: LocalStack) -> Iterator[StompDialogue]:
    with stack.broker.dialogue(10) as open_dialogue:
        yield open_dialogue


class TestUpAndDown:
    def test_up_again_and_down(self, folder: Path, stack: LocalStack) -> None:
        strangers = (stack.mongod.pid, stack.broker.pid)
        first = up(folder)
        pids = running(folder)
        assert first.keys() == SETTINGS
        assert pids.keys() == {"mongod", "activemq"}
        assert first["PUNKTLIG_MONGO_DB"] == "punktlig"
        with mongo(first["PUNKTLIG_MONGO_URL"]) as client:
            client["kept"]["rows"].insert_one({"_id": 1})

        assert up(folder) == first
        assert running(folder) == pids

        assert local("down", "--folder", folder).returncode == 0
        assert running(folder) == {}
        assert "nothing runs" in local("down", "--folder", folder).stderr
        assert (stack.mongod.pid, stack.broker.pid) == strangers
        assert stack.mongod.is_running
        assert stack.broker.is_running

        assert up(folder) == first, "a shell pointed at the stack stays pointed at it"
        with mongo(first["PUNKTLIG_MONGO_URL"]) as client:
            assert client["kept"]["rows"].count_documents({}) == 1
        (folder / "mine.txt").write_text("of the user")
        assert local("down", "--wipe", "--folder", folder).returncode == 0
        assert [path.name for path in folder.iterdir()] == ["mine.txt"]

    def test_a_shell_evaluates_the_exports_and_nobody_else_reads_the_passcode(self, folder: Path) -> None:
        up_again = 'settings=$("$0" -m deploy.local up --no-sandbox --no-indexes --folder "$1")'
        command = ("sh", "-ec", f'{up_again} && eval "$settings" && env', sys.executable, str(folder))
        answer = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True, timeout=60)
        seen = dict(line.partition("=")[::2] for line in answer.stdout.splitlines())
        assert seen.keys() >= SETTINGS
        passcode = seen["PUNKTLIG_STOMP_PASSCODE"]
        assert stat.S_IMODE((folder / "credentials.json").stat().st_mode) == 0o600
        pids = running(folder).values()
        assert len(pids) == 2
        for pid in pids:
            assert passcode.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()

    def test_a_killed_predecessor_leaves_nothing_in_the_way(self, folder: Path) -> None:
        before = up(folder)
        pids = running(folder)
        with mongo(before["PUNKTLIG_MONGO_URL"]) as client:
            client["kept"]["rows"].insert_one({"_id": 1})
        os.kill(pids["mongod"], signal.SIGKILL)  # leaves mongod.lock
        os.kill(pids["activemq"], signal.SIGSTOP)  # leaves a process that holds port and locks and answers nobody

        after = up(folder)
        now = running(folder)
        assert now["mongod"] != pids["mongod"]
        assert now["activemq"] != pids["activemq"]
        assert not Path(f"/proc/{pids['activemq']}/environ").exists()
        assert after == before
        with mongo(after["PUNKTLIG_MONGO_URL"]) as client:
            assert client["kept"]["rows"].count_documents({}) == 1

    def test_up_killed_half_way_is_completed_by_the_next(self, folder: Path) -> None:
        command = (
            sys.executable,
            "-m",
            "deploy.local",
            "up",
            "--no-sandbox",
            "--no-indexes",
            "--folder",
            str(folder),
        )
        with subprocess.Popen(command, cwd=PROJECT, stderr=subprocess.PIPE, text=True) as first:
            assert first.stderr is not None
            for line in first.stderr:
                if "starting activemq" in line:
                    first.kill()
        left = running(folder)
        assert "mongod" in left
        assert up(folder).keys() == SETTINGS
        assert running(folder)["mongod"] == left["mongod"]

    def test_a_port_taken_meanwhile_and_false_records_are_no_obstacle(self, folder: Path) -> None:
        before = up(folder)
        with mongo(before["PUNKTLIG_MONGO_URL"]) as client:
            client["kept"]["rows"].insert_one({"_id": 1})
        local("down", "--folder", folder)
        old_port = port_of(before["PUNKTLIG_MONGO_URL"])
        ports = json.loads((folder / "ports.json").read_text())
        (folder / "ports.json").write_text(json.dumps({**ports, "activemq": old_port}))
        with socket.socket() as stranger:
            stranger.bind((HOST, old_port))
            after = up(folder)
            assert old_port not in (
                port_of(after["PUNKTLIG_MONGO_URL"]),
                port_of(after["PUNKTLIG_STOMP_URLS"]),
            )
            # The replica set knew its member by the old address.
            with mongo(after["PUNKTLIG_MONGO_URL"]) as client:
                assert client["kept"]["rows"].count_documents({}) == 1

    def test_wrong_usage(self) -> None:
        answer = local("sideways")
        assert (answer.returncode, answer.stdout) == (2, "")


class TestOwnedStack:
    def test_its_folder_belongs_to_one(self, stack: LocalStack) -> None:
        with pytest.raises(FolderBusyError):
            LocalStack(stack.folder).start()
        assert stack.mongod.is_running

    def test_servers_die_with_a_killed_owner(self, tmp_path: Path) -> None:
        program = (
            "import sys, pathlib; from deploy.local.stack import LocalStack\n"
            "with LocalStack(pathlib.Path(sys.argv[1])) as stack:\n"
            "    print(stack.mongod.pid, stack.broker.pid, flush=True)\n"
            "    sys.stdin.read()\n"
        )
        command = (sys.executable, "-c", program, str(tmp_path))
        pipe = subprocess.PIPE
        with subprocess.Popen(command, cwd=PROJECT, text=True, stdin=pipe, stdout=pipe) as owner:
            assert owner.stdout is not None
            servers = [LiveProcess(int(pid)) for pid in owner.stdout.readline().split()]
            assert len(servers) == 2
            assert not any(server.wait(0) for server in servers)
            owner.kill()
            assert all(server.wait(10) for server in servers)
        for server in servers:
            server.close()

    def test_a_block_that_ends_leaves_nothing_running(self, tmp_path: Path) -> None:
        with LocalStack(tmp_path) as other:
            assert running(tmp_path).keys() == {"mongod", "activemq"}
            other.broker.pause()
        assert running(tmp_path) == {}


class TestMongod:
    def test_settings(self, stack: LocalStack) -> None:
        with mongo(stack.mongod.url) as client:
            answer = client.admin.command("getParameter", 1, transactionLifetimeLimitSeconds=1)
            assert answer["transactionLifetimeLimitSeconds"] == 10
            assert client.admin.command("hello")["setName"] == "punktlig"
            listening = client.admin.command("getCmdLineOpts")["parsed"]["net"]["bindIp"]
            assert listening == "127.0.0.1"

    def test_kill_and_restart_on_the_same_port(self, stack: LocalStack, database: dict[str, str]) -> None:
        name, port = database["PUNKTLIG_MONGO_DB"], stack.mongod.port
        with mongo(stack.mongod.url) as client:
            client[name]["rows"].insert_one({"_id": 1})
            stack.mongod.kill()
            assert not stack.mongod.is_running
            stack.mongod.restart()
            assert stack.mongod.port == port
            assert client[name]["rows"].count_documents({}) == 1

    def test_a_paused_server_is_not_ready(self, stack: LocalStack) -> None:
        for server in (stack.mongod, stack.broker):
            server.pause()
            try:
                with pytest.raises((OSError, NotReadyError)):
                    server.probe(0.5)
            finally:
                server.resume()
            server.wait_ready(10)


class TestBroker:
    def test_a_delayed_message_survives_a_crash(self, stack: LocalStack) -> None:
        mine = uuid.uuid4().hex
        headers = {
            "destination": "/queue/notifications.mood",
            "persistent": "true",
            "AMQ_SCHEDULED_DELAY": "2500",
        }
        with stack.broker.dialogue(10) as dialogue:
            begin = time.monotonic()
            dialogue.send_with_receipt({**headers, "mine": mine}, b"ring", 10)
        stack.broker.kill()
        stack.broker.restart()
        with stack.broker.dialogue(10) as dialogue:
            dialogue.subscribe("/queue/notifications.mood", {"selector": f"mine = '{mine}'"})
            assert dialogue.expect("MESSAGE", 10).body == b"ring"
        assert time.monotonic() - begin >= 2.5

    @pytest.mark.parametrize("queue", ["notifications.meal", "notifications.a_new_category", "receipts"])
    def test_what_is_refused_lies_in_the_dead_letters_of_its_queue(
        self, stack: LocalStack, dialogue: StompDialogue, queue: str
    ) -> None:
        mine = {"selector": f"mine = '{uuid.uuid4().hex}'"}
        message = {
            "destination": f"/queue/{queue}",
            "persistent": "true",
            "mine": mine["selector"].split("'")[1],
        }
        dialogue.send_with_receipt(message, b"poison", 10)
        dialogue.subscribe(f"/queue/{queue}", {**mine, "ack": "client-individual"})
        taken = dialogue.expect("MESSAGE", 10)
        dialogue.send("NACK", {"id": taken.headers["ack"]})
        with stack.broker.dialogue(10, as_ops=True) as ops:
            ops.subscribe(f"/queue/DLQ.{queue}", mine)
            assert ops.expect("MESSAGE", 10).body == b"poison"

    def test_services_park_dead_letters_and_only_operators_read_them(
        self, stack: LocalStack, dialogue: StompDialogue
    ) -> None:
        mine = uuid.uuid4().hex
        queue = "/queue/DLQ.notifications.parked"
        dialogue.send_with_receipt({"destination": queue, "persistent": "true", "mine": mine}, b"\xff\x00", 10)
        with stack.broker.dialogue(10, as_ops=True) as ops:
            ops.subscribe(queue, {"selector": f"mine = '{mine}'"})
            assert ops.expect("MESSAGE", 10).body == b"\xff\x00"
        dialogue.subscribe(queue)
        assert "not authorized to read" in dialogue.expect("ERROR", 10).headers["message"]

    @pytest.mark.parametrize("as_ops", [True, False])
    def test_statistics_tell_the_depth_of_a_queue(self, stack: LocalStack, *, as_ops: bool) -> None:
        queue = f"notifications.depth_{uuid.uuid4().hex}"
        with stack.broker.dialogue(10, as_ops=as_ops) as dialogue:
            for _ in range(3):
                dialogue.send_with_receipt({"destination": f"/queue/{queue}", "persistent": "true"}, b"x", 10)
            dialogue.subscribe("/temp-queue/depth", {"transformation": "jms-map-json"})
            question = f"/queue/ActiveMQ.Statistics.Destination.{queue}"
            dialogue.send("SEND", {"destination": question, "reply-to": "/temp-queue/depth"})
            entries = json.loads(dialogue.expect("MESSAGE", 10).body)["map"]["entry"]
        assert {"string": "size", "long": 3} in entries

    @pytest.mark.parametrize(
        "destination",
        [
            "/topic/ActiveMQ.Scheduler.Management",
            "/queue/activemq.scheduler.management.anything",
            "/remote-temp-queue/ActiveMQ.Scheduler.Management",
            "/queue/ActiveMQ.Scheduler.Management,notifications.meal",
            "/queue/notifications.meal,ActiveMQ.Scheduler.Management",
            "/queue/elsewhere",
        ],
    )
    def test_services_may_not_command_the_scheduler(self, dialogue: StompDialogue, destination: str) -> None:
        dialogue.send("SEND", {"destination": destination, "AMQ_SCHEDULER_ACTION": "REMOVEALL", "receipt": "done"})
        assert "not authorized to write" in dialogue.expect("ERROR", 10).headers["message"]

    def test_a_repeating_message_is_refused(self, dialogue: StompDialogue) -> None:
        poison = {"AMQ_SCHEDULED_CRON": "* * * * *", "AMQ_SCHEDULED_REPEAT": "1", "receipt": "sent"}
        dialogue.send("SEND", {"destination": "/queue/notifications.meal", "persistent": "true", **poison})
        assert dialogue.receive(10).command == "ERROR"

    def test_strangers_are_refused(self, stack: LocalStack) -> None:
        # The broker closes the connection after its ERROR frame, now and then before that is out.
        with pytest.raises(DialogueError, match=r"invalid|hung up"):
            StompDialogue((HOST, stack.broker.port), "punktlig", "a guess", 10)

    def test_without_a_passcode_it_does_not_start(self, stack: LocalStack, tmp_path: Path) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BROKER_")}
        environment |= {"BROKER_OPS_PASSCODE": "x"}
        command = [word.replace(str(stack.broker.home), str(tmp_path)) for word in stack.broker.command()]
        answer = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
        )
        assert answer.returncode != 0
        assert "BROKER_PASSCODE" in answer.stdout + answer.stderr + (tmp_path / "broker.log").read_text()
