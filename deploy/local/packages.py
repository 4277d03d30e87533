"""Debian packages that the local stack needs: installed by root, else unpacked into the project."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from deploy.local.errors import MissingServerError

PROJECT = Path(__file__).resolve().parents[2]
_COMMAND_SECONDS = 900
_POLICY = "usr/sbin/policy-rc.d"
_QUIET = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}


class Packages:
    """Where files of Debian packages are found, and the two ways to get what is missing.

    `system` is the root whose files and package database count as installed; `unpacked` holds one folder per
    set of packages that was unpacked without root's rights.
    """

    def __init__(self, unpacked: Path = PROJECT / ".local" / "packages", system: Path = Path("/")) -> None:
        self._unpacked = unpacked
        self._system = system

    def roots(self) -> list[Path]:
        """Every folder that looks like a root of a Debian system, the real one first."""
        return [self._system, *sorted(self._unpacked.glob("*.root"))]

    def find(self, *patterns: str) -> Iterator[Path]:
        """Files that match glob patterns relative to a root, over all roots; symbolic links may dangle."""
        for root in self.roots():
            for pattern in patterns:
                yield from sorted(root.glob(pattern))

    def library_path(self) -> Mapping[str, str]:
        """The environment variable that makes unpacked shared libraries known; empty if there are none."""
        folders = [str(folder) for root in self.roots()[1:] for folder in root.glob("usr/lib/*-linux-gnu")]
        return {"LD_LIBRARY_PATH": ":".join(folders)} if folders else {}

    def obtain(self, names: Sequence[str], purpose: str) -> None:
        """Install or unpack packages and all they depend on, after one line on stderr that says so.

        MissingServerError if this is no Debian, has no network, or anything else stands in the way.
        """
        wanted = " ".join(names)
        if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
            raise MissingServerError(_advice(wanted, purpose, "this is no Debian system"))
        as_root = os.geteuid() == 0 and self._system == Path("/")
        where = "installing" if as_root else f"unpacking into {self._unpacked}"
        print(f"stack: {purpose} is missing: {where} {wanted} from Debian", file=sys.stderr, flush=True)
        try:
            if as_root:
                self._install(names)
            else:
                self._unpack(names)
        except (OSError, subprocess.SubprocessError) as fault:
            raise MissingServerError(_advice(wanted, purpose, _reason(fault))) from fault

    def _install(self, names: Sequence[str]) -> None:
        with suppress(subprocess.CalledProcessError):  # a foreign source may be broken; Debian's may still do
            _run("apt-get", "update", "-qq")
        with _no_service_starts(self._system / _POLICY):
            _run(
                "apt-get",
                "install",
                "-y",
                "-qq",
                "--no-install-recommends",
                "-o",
                "DPkg::Lock::Timeout=300",
                *names,
            )

    def _unpack(self, names: Sequence[str]) -> None:
        apt = self._unpacked / "apt"
        options = self._private_apt(apt)
        with suppress(subprocess.CalledProcessError):
            _run("apt-get", *options, "update", "-qq")
        _run("apt-get", *options, "install", "-y", "-qq", "--no-install-recommends", "--download-only", *names)
        partial = self._unpacked / f"{names[0]}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        for archive in sorted((apt / "cache" / "archives").glob("*.deb")):
            # The C library fits its own loader only; the machine's is always there.
            if not archive.name.startswith(("libc6_", "libc-bin_")):
                _run("dpkg-deb", "-x", str(archive), str(partial))
        _relink(partial)
        whole = self._unpacked / f"{names[0]}.root"
        shutil.rmtree(whole, ignore_errors=True)
        partial.rename(whole)
        shutil.rmtree(apt)

    def _private_apt(self, apt: Path) -> list[str]:
        """Options that make apt keep its files in our folder and resolve against the real database."""
        for folder in ("state/lists/partial", "cache/archives/partial"):
            (apt / folder).mkdir(parents=True, exist_ok=True)
        settings = {
            "Dir::State": apt / "state",
            "Dir::State::status": self._system / "var/lib/dpkg/status",
            "Dir::Cache": apt / "cache",
            "Debug::NoLocking": "true",
            "APT::Sandbox::User": "",
        }
        return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


@contextmanager
def _no_service_starts(policy: Path) -> Iterator[None]:
    """Forbid package scripts to start services: the stack runs a broker of its own, on its own terms."""
    if policy.exists():
        yield
        return
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink(missing_ok=True)


def _relink(root: Path) -> None:
    """Point absolute symbolic links of an unpacked tree at its own files, where it has them."""
    for link in root.rglob("*"):
        if link.is_symlink() and (target := link.readlink()).is_absolute():
            inside = root / target.relative_to("/")
            with suppress(OSError):
                if inside.exists() or inside.is_symlink():
                    link.unlink()
                    link.symlink_to(os.path.relpath(inside, link.parent))


def _run(*command: str) -> None:
    subprocess.run(
        command,
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, **_QUIET},
        timeout=_COMMAND_SECONDS,
    )


def _reason(fault: Exception) -> str:
    if isinstance(fault, subprocess.CalledProcessError):
        words = [line for line in fault.stderr.decode(errors="replace").splitlines() if line.strip()]
        return words[-1] if words else f"{fault.cmd[0]} ended with {fault.returncode}"
    return str(fault)


def _advice(wanted: str, purpose: str, reason: str) -> str:
    return (
        f"{purpose} is missing and could not be fetched ({reason}); "
        f"run `apt-get install {wanted}` as root, or `docker compose up` for the same stack in containers"
    )
