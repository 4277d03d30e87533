"""The parts of the local stack that need no server: marks, signals, ports, log-ins, locks, frames."""

import json
import signal
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.credentials import Credentials
from deploy.local.dialogue import DialogueError, StompDialogue
from deploy.local.errors import FolderBusyError
from deploy.local.lock import FolderLock
from deploy.local.ports import HOST, free_port, is_free
from deploy.local.process import Launch, Launcher, LiveProcess, Mark, marked_processes
from deploy.local.stack import StackFolder

FOREVER = ("sleep", "600")


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    tied = Launcher(tied=True)
    yield tied
    tied.close()


def launch(launcher: Launcher, folder: Path, command: tuple[str, ...] = FOREVER) -> LiveProcess:
    return launcher.launch(Launch(Mark("server", 1, folder), command, {}, folder / "output.log"))


def wait_for_mark(process: LiveProcess) -> None:
    """While a process becomes another program, its environment cannot be read for some microseconds."""
    while Mark.of(process.pid) is None:
        assert not process.wait(0.01)


class TestProcesses:
    def test_marks_tell_whose_a_process_is(self, launcher: Launcher, tmp_path: Path) -> None:
        process = launch(launcher, tmp_path)
        wait_for_mark(process)
        (mark, found), *others = list(marked_processes(tmp_path))
        assert (mark, found.pid, others) == (Mark("server", 1, tmp_path), process.pid, [])
        assert list(marked_processes(tmp_path / "other")) == []
        process.kill()
        assert list(marked_processes(tmp_path)) == []

    def test_a_folder_with_a_colon_is_read_whole(self, launcher: Launcher, tmp_path: Path) -> None:
        folder = tmp_path / "a:b"
        process = launch(launcher, folder)
        wait_for_mark(process)
        assert Mark.of(process.pid) == Mark("server", 1, folder)
        process.kill()

    def test_a_paused_process_ends_when_asked(self, launcher: Launcher, tmp_path: Path) -> None:
        process = launch(launcher, tmp_path)
        process.send(signal.SIGSTOP)
        process.ask_to_end()
        assert process.wait(10)

    def test_a_process_that_does_not_listen_is_killed(self, launcher: Launcher, tmp_path: Path) -> None:
        deaf = ("sh", "-c", "trap '' TERM; echo deaf; exec sleep 600")
        process = launch(launcher, tmp_path, deaf)
        log = tmp_path / "output.log"
        while not log.read_text():
            assert not process.wait(0.01)
        process.end(0.1)
        assert process.wait(0)

    def test_signals_to_an_ended_process_reach_nobody(self, launcher: Launcher, tmp_path: Path) -> None:
        process = launch(launcher, tmp_path)
        process.kill()
        process.send(signal.SIGKILL)
        process.ask_to_end()
        assert process.wait(0)

    def test_tied_processes_end_with_their_launcher(self, tmp_path: Path) -> None:
        launcher = Launcher(tied=True)
        process = launch(launcher, tmp_path)
        launcher.close()
        assert process.wait(10)

    def test_stopping_a_folder_finds_what_a_dead_predecessor_left(self, tmp_path: Path) -> None:
        launcher = Launcher(tied=False)
        process = launch(launcher, tmp_path)
        launcher.close()
        assert not process.wait(0.05)
        assert StackFolder(tmp_path).stop() == 1
        assert process.wait(0)
        assert StackFolder(tmp_path).stop() == 0


class TestPorts:
    def test_a_taken_port_is_not_free(self) -> None:
        port = free_port()
        assert is_free(port)
        with socket.create_server((HOST, port)):
            assert not is_free(port)

    def test_no_outgoing_connection_can_take_it(self) -> None:
        lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
        assert all(free_port() < lowest for _ in range(20))


class TestFolder:
    def test_log_ins_are_made_once_and_private(self, tmp_path: Path) -> None:
        mine = Credentials.of(tmp_path)
        path = tmp_path / "credentials.json"
        assert Credentials.of(tmp_path) == mine
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert mine.passcode != mine.ops_passcode
        assert mine.passcode not in repr(mine)

    @pytest.mark.parametrize("damage", ["", "{}", "[1]", json.dumps({"login": "x", "colour": "red"})])
    def test_damaged_log_ins_are_made_anew(self, tmp_path: Path, damage: str) -> None:
        (tmp_path / "credentials.json").write_text(damage)
        mine = Credentials.of(tmp_path)
        assert len(mine.passcode) >= 24
        assert Credentials.of(tmp_path) == mine

    def test_one_at_a_time(self, tmp_path: Path) -> None:
        with FolderLock(tmp_path, 0):
            with pytest.raises(FolderBusyError):
                FolderLock(tmp_path, 0).acquire()
            waiting = FolderLock(tmp_path, 10)
            thread = threading.Thread(target=waiting.acquire)
            thread.start()
        thread.join(10)
        with pytest.raises(FolderBusyError):
            FolderLock(tmp_path, 0).acquire()
        waiting.release()

    def test_wipe_takes_only_what_stacks_keep(self, tmp_path: Path) -> None:
        (tmp_path / "mongod").mkdir()
        (tmp_path / "photos").mkdir()
        StackFolder(tmp_path).wipe()
        assert [path.name for path in tmp_path.iterdir()] == ["photos"]


class TestDialogue:
    @staticmethod
    def answering(*pieces: bytes) -> tuple[tuple[str, int], threading.Thread]:
        """A server on a free port that answers any first words with these pieces, then hangs up."""
        listener = socket.create_server((HOST, 0))

        def serve() -> None:
            with listener, listener.accept()[0] as connection:
                connection.recv(4096)
                for piece in pieces:
                    connection.sendall(piece)
                connection.shutdown(socket.SHUT_WR)
                connection.recv(4096)

        thread = threading.Thread(target=serve)
        thread.start()
        return listener.getsockname(), thread

    def test_frames_are_read_however_they_are_cut(self) -> None:
        address, thread = self.answering(
            b"CONNECTED\nversion:1.2\n\n\0\n",
            b"\nMESS",
            b"AGE\nname:a\\cb\\\\n\\n\nname:second\ncontent-length:3\n\n",
            b"x\0",
            b"y\0RECEIPT\nreceipt-id:r\n",
            b"\n\0",
        )
        with StompDialogue(address, "me", "secret", 10) as dialogue:
            message = dialogue.expect("MESSAGE", 10)
            assert (message.body, message.headers["name"]) == (b"x\0y", "a:b\\n\n")
            assert dialogue.expect("RECEIPT", 10).headers["receipt-id"] == "r"
            with pytest.raises(DialogueError, match="hung up"):
                dialogue.receive(10)
        thread.join(10)

    def test_another_frame_than_expected_is_named(self) -> None:
        address, thread = self.answering(b"ERROR\nmessage:wrong passcode\n\n\0")
        with pytest.raises(DialogueError, match="expected CONNECTED, got ERROR wrong passcode"):
            StompDialogue(address, "me", "secret", 10)
        thread.join(10)

    def test_silence_has_an_end(self) -> None:
        with socket.create_server((HOST, 0)) as listener, pytest.raises(DialogueError, match="silent"):
            StompDialogue(listener.getsockname(), "me", "secret", 0.05)
