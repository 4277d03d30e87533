"""What stands under `deploy/` and in the compose file agrees with the code and with itself."""

import json
import re
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

import consumer.__main__
import creator.__main__
import deploy.local.sandbox.__main__ as sandbox
from shared.adapters.stomp import bell, canary
from shared.runtime.settings import BadSettings, Settings, load_settings

PROJECT = Path(__file__).resolve().parents[2]
BROKER = "{http://activemq.apache.org/schema/core}"
SERVICES = ("indexes", "plan", "counters", "relay", "send", "receipts")
PROCESSES = {"creator": creator.__main__.app, "consumer": consumer.__main__.app}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """The compose file, with `${NAME:-default}` replaced by the default and `$$` by `$`."""
    text = (PROJECT / "docker-compose.yml").read_text()
    text = re.sub(r"\$\$|\$\{\w+:-([^}]*)\}", lambda match: match[1] if match[1] is not None else "$", text)
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def broker_file() -> str:
    return (PROJECT / "deploy/activemq/activemq.xml").read_text()


# --- compose ------------------------------------------------------------------------------------------------


def test_the_compose_file_fits_the_specification(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("check-jsonschema")
    command: list[str | Path] = [program, "--builtin-schema", "vendor.compose-spec"]
    good = subprocess.run([*command, PROJECT / "docker-compose.yml"], capture_output=True, text=True, check=False)
    assert good.returncode == 0, good.stdout + good.stderr
    bad = tmp_path / "docker-compose.yml"
    bad.write_text("services: {mongo: {imagine: mongo}}")
    assert subprocess.run([*command, bad], capture_output=True, check=False).returncode == 1


def test_every_process_has_its_service(compose: dict[str, Any]) -> None:
    ours = {name for name, service in compose["services"].items() if service["image"].startswith("punktlig:")}
    assert ours == {*SERVICES, "sandbox"}


@pytest.mark.parametrize("name", SERVICES)
def test_the_command_of_a_service_parses(compose: dict[str, Any], name: str) -> None:
    service = compose["services"][name]
    if "entrypoint" in service:
        assert 'python -m "$@"' in service["entrypoint"][2]
    part, command, *options = service["command"]
    group = get_command(PROCESSES[part])
    group.commands[command].make_context(command, options)  # type: ignore[attr-defined]
    assert command == name


def test_the_command_of_the_sandbox_parses(compose: dict[str, Any]) -> None:
    service = compose["services"]["sandbox"]
    module, *options = service["command"]
    parsed = sandbox._parser().parse_args(options)
    assert module == sandbox.__package__
    assert service["ports"] == [f"127.0.0.1:{parsed.port}:{parsed.port}"]
    assert f"127.0.0.1:{parsed.port}/" in service["healthcheck"]["test"][-1]
    assert compose["x-settings"]["PUNKTLIG_EXPO_URL"] == f"http://sandbox:{parsed.port}"


@pytest.mark.parametrize("name", SERVICES)
def test_the_settings_of_a_service_are_good(
    compose: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = compose["services"][name]["environment"]
    for variable, value in environment.items():
        assert isinstance(value, str), f"{variable} is not text"
        monkeypatch.setenv(variable, value)
    settings = load_settings()
    (broker,) = settings.brokers
    activemq = compose["services"]["activemq"]["environment"]
    assert (broker.host, str(broker.port)) == ("activemq", activemq["BROKER_PORT"])
    assert settings.stomp_login == activemq["BROKER_LOGIN"]
    assert settings.stomp_passcode.get_secret_value() == activemq["BROKER_PASSCODE"]


def test_a_misspelt_setting_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUNKTLIG_MONGO_URL", "mongodb://mongo")
    monkeypatch.setenv("PUNKTLIG_STOMP_URL", "stomp://activemq:61613")
    with pytest.raises(BadSettings, match="PUNKTLIG_STOMP_URLS"):
        load_settings()


@pytest.mark.parametrize("name", ["relay", "send", "receipts"])
def test_a_service_is_asked_where_it_answers_and_has_time_to_drain(compose: dict[str, Any], name: str) -> None:
    service = compose["services"][name]
    port = service["environment"]["PUNKTLIG_HTTP_PORT"]
    assert f"127.0.0.1:{port}/readyz" in service["healthcheck"]["test"][-1]
    assert int(service["stop_grace_period"].rstrip("s")) > Settings.model_fields["drain_seconds"].default


def test_nothing_starts_before_what_it_needs(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert services["indexes"]["depends_on"] == {"mongo": {"condition": "service_healthy"}}
    for name in ("relay", "send", "receipts"):
        assert services[name]["depends_on"]["indexes"]["condition"] == "service_completed_successfully"
        assert services[name]["depends_on"]["activemq"]["condition"] == "service_healthy"


def test_mounted_files_and_volumes_exist(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            assert (PROJECT / source).is_file() if source.startswith("./") else source in compose["volumes"], mount


def test_the_replica_set_has_one_name(compose: dict[str, Any]) -> None:
    name = yaml.safe_load((PROJECT / "deploy/mongo/mongod.conf").read_text())["replication"]["replSetName"]
    mongo = compose["services"]["mongo"]
    assert f'_id: "{name}"' in mongo["healthcheck"]["test"][-1]
    assert compose["x-settings"]["PUNKTLIG_MONGO_URL"].endswith(f"replicaSet={name}")


# --- broker -------------------------------------------------------------------------------------------------


def test_the_broker_has_the_queues_of_the_product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUNKTLIG_MONGO_URL", "mongodb://somewhere")
    queues = [bell.send_queue(category) for category in load_settings().categories]
    root = ET.fromstring(broker_file())
    made = [queue.get("physicalName") for queue in root.iterfind(f".//{BROKER}destinations/{BROKER}queue")]
    assert made == [*queues, bell.RECEIPTS_QUEUE, canary.QUEUE]
    prefixes = {one.get("queuePrefix") for one in root.iterfind(f".//{BROKER}individualDeadLetterStrategy")}
    assert prefixes == {bell.dead_letter_queue("")}


def test_compose_fills_every_placeholder_of_the_broker_and_no_other(compose: dict[str, Any]) -> None:
    text = re.sub(r"<!--.*?-->", "", broker_file(), flags=re.DOTALL)
    placeholders = dict(re.findall(r"\$\{(BROKER_\w+)(:[^}]*)?\}", text))
    given = compose["services"]["activemq"]["environment"]
    assert {name for name, default in placeholders.items() if not default} <= set(given) <= set(placeholders)


# --- image --------------------------------------------------------------------------------------------------


def dockerfile() -> str:
    return (PROJECT / "deploy/Dockerfile").read_text()


def test_the_image_holds_what_it_copies_and_what_the_context_lets_in() -> None:
    let_in = re.findall(r"^!(\S+)$", (PROJECT / ".dockerignore").read_text(), re.MULTILINE)
    assert all((PROJECT / path).exists() for path in let_in)
    for source in re.findall(r"^COPY (?!--from)(\S+) \S+$", dockerfile(), re.MULTILINE):
        assert any(path == source or path.startswith(f"{source}/") for path in let_in), source


def test_the_compose_file_builds_targets_that_exist(compose: dict[str, Any]) -> None:
    stages = set(re.findall(r"^FROM \S+ AS (\S+)$", dockerfile(), re.MULTILINE))
    built = {service["build"]["target"] for service in compose["services"].values() if "build" in service}
    assert built == {"runtime", "local"} <= stages


def test_each_final_stage_runs_any_process_as_nobody_special() -> None:
    text = dockerfile()
    assert json.loads(re.findall(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)[-1]) == ["python", "-m"]
    for stage in ("local", "runtime"):
        block = re.search(rf"^FROM product AS {stage}\n(.*?)(?=^FROM|\Z)", text, re.MULTILINE | re.DOTALL)
        assert block
        assert re.search(r"^USER [1-9]\d+$", block[1], re.MULTILINE)


def test_the_image_has_a_python_that_the_project_supports() -> None:
    needed = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["requires-python"]
    major, minor = map(int, re.findall(r"^FROM python:(\d+)\.(\d+)-slim AS base$", dockerfile(), re.MULTILINE)[0])
    assert (major, minor) >= tuple(map(int, needed.removeprefix(">=").split(".")))


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-sandbox.lock", "requirements-dev.lock"])
def test_a_lock_file_names_versions_and_hashes_and_no_host(name: str) -> None:
    entries = re.split(r"\n(?=\S)", (PROJECT / name).read_text().strip())
    for entry in entries:
        assert re.match(r"[a-z0-9._-]+==\S+", entry), entry[:60]
        assert "--hash=sha256:" in entry, entry[:60]
        assert "://" not in entry, entry[:60]
