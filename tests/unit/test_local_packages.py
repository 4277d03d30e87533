"""Finding and fetching Debian packages, with stand-ins for apt: nothing is installed, no network is used."""

import os
from pathlib import Path

import pytest

from deploy.local.errors import MissingServerError
from deploy.local.packages import Packages
from deploy.local.programs import broker_program

JARS = ("activemq-broker.jar", "xstream.jar", "xpp3.jar", "jettison.jar")


def put(path: Path, text: str = "", *, runs: bool = False) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if runs:
        path.chmod(0o755)
    return path


def java(root: Path, version: str) -> Path:
    script = f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n"
    return put(root / "usr/lib/jvm/some/bin/java", script, runs=True)


def broker(root: Path) -> None:
    link = root / "usr/share/activemq/lib/activemq-broker.jar"
    link.parent.mkdir(parents=True)
    link.symlink_to("../../java/activemq-broker.jar")


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with nothing but a shell's basics and what the test puts into the returned folder."""
    folder = tmp_path / "commands"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


@pytest.fixture
def packages(tmp_path: Path) -> Packages:
    return Packages(unpacked=tmp_path / "unpacked", system=tmp_path / "system")


def test_a_broker_is_put_together_from_several_roots(tmp_path: Path, packages: Packages) -> None:
    # The link is in the system, what it points at was unpacked; the system's Java is too old.
    broker(tmp_path / "system")
    java(tmp_path / "system", "1.8.0_402")
    unpacked = tmp_path / "unpacked" / "activemq.root"
    newer = java(unpacked, "21.0.4")
    for name in JARS:
        put(unpacked / "usr/share/java" / name)
    program = broker_program(packages)
    assert program.java == newer
    assert program.home == tmp_path / "system/usr/share/activemq"
    assert {path.name for path in program.class_path} == set(JARS)
    assert all(path.is_file() for path in program.class_path)


@pytest.mark.parametrize("absent", JARS)
def test_a_broker_without_one_of_its_archives_is_missing(
    tmp_path: Path, packages: Packages, monkeypatch: pytest.MonkeyPatch, absent: str
) -> None:
    system = tmp_path / "system"
    broker(system)
    java(system, "17.0.1")
    for name in set(JARS) - {absent}:
        put(system / "usr/share/java" / name)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingServerError, match="no Debian"):
        broker_program(packages)


def test_without_debian_one_line_says_what_to_do(packages: Packages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(MissingServerError) as caught:
        packages.obtain(("activemq",), "ActiveMQ")
    message = str(caught.value)
    assert caught.value.exit_code == 2
    assert "\n" not in message
    assert "apt-get install activemq" in message
    assert "docker compose up" in message


def test_packages_are_unpacked_without_rights(tmp_path: Path, packages: Packages, commands: Path) -> None:
    log = tmp_path / "log"
    archives = tmp_path / "unpacked/apt/cache/archives"
    put(
        commands / "apt-get",
        f'#!/bin/sh\necho "$@" >> {log}\ntouch {archives}/java_1.deb {archives}/libc6_2.deb\n',
        runs=True,
    )
    unpack = (
        '#!/bin/sh\nmkdir -p "$3/etc/java" "$3/usr/lib/x86_64-linux-gnu"\n'
        'echo yes > "$3/etc/java/conf"\nln -s /etc/java "$3/usr/lib/conf"\n'
        f'echo "unpack $2" >> {log}\n'
    )
    put(commands / "dpkg-deb", unpack, runs=True)
    packages.obtain(("activemq", "libxstream-java"), "ActiveMQ")

    root = tmp_path / "unpacked/activemq.root"
    assert packages.roots() == [tmp_path / "system", root]
    assert (root / "usr/lib/conf/conf").read_text() == "yes\n", "absolute links lead into the unpacked tree"
    assert packages.library_path() == {"LD_LIBRARY_PATH": str(root / "usr/lib/x86_64-linux-gnu")}
    asked = log.read_text()
    assert f"Dir::State::status={tmp_path}/system/var/lib/dpkg/status" in asked
    assert "--download-only activemq libxstream-java" in asked
    assert "java_1.deb" in asked
    assert "unpack " + str(archives / "libc6_2.deb") not in asked, "the machine's C library stays in use"
    assert sorted(path.name for path in (tmp_path / "unpacked").iterdir()) == ["activemq.root"]


def test_a_failed_unpacking_leaves_nothing_that_looks_whole(packages: Packages, commands: Path) -> None:
    put(commands / "apt-get", "#!/bin/sh\necho 'E: no such host' >&2\nexit 100\n", runs=True)
    put(commands / "dpkg-deb", "#!/bin/sh\nexit 1\n", runs=True)
    with pytest.raises(MissingServerError, match="no such host"):
        packages.obtain(("activemq",), "ActiveMQ")
    assert len(packages.roots()) == 1
    assert packages.library_path() == {}


@pytest.mark.parametrize("fails", [False, True])
def test_no_service_starts_while_packages_are_installed(tmp_path: Path, commands: Path, *, fails: bool) -> None:
    policy = tmp_path / "system/usr/sbin/policy-rc.d"
    policy.parent.mkdir(parents=True)
    seen = tmp_path / "seen"
    look = f'{policy}; echo "$? $DEBIAN_FRONTEND" > {seen}'
    script = f'#!/bin/sh\n[ "$1" = update ] && exit 100\n{look}\nexit {int(fails)}\n'
    put(commands / "apt-get", script, runs=True)
    installing = Packages(unpacked=tmp_path / "unpacked", system=tmp_path / "system")
    if fails:
        with pytest.raises(Exception, match="exit status 1"):
            installing._install(("activemq",))
    else:
        installing._install(("activemq",))
    assert seen.read_text().split() == ["101", "noninteractive"]
    assert not policy.exists()


def test_a_policy_of_the_machine_stays(tmp_path: Path, commands: Path) -> None:
    policy = put(tmp_path / "system/usr/sbin/policy-rc.d", "#!/bin/sh\nexit 0\n", runs=True)
    put(commands / "apt-get", "#!/bin/sh\nexit 0\n", runs=True)
    Packages(unpacked=tmp_path / "unpacked", system=tmp_path / "system")._install(("activemq",))
    assert policy.read_text() == "#!/bin/sh\nexit 0\n"
    assert os.access(policy, os.X_OK)
