"""The pages say what the code does: metrics, settings, states, queues, commands, modules and links."""

import ast
import importlib.util
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main
from prometheus_client import Counter, Gauge, Histogram

import consumer.__main__
import creator.__main__
from shared.adapters.stomp import bell, canary
from shared.domain.envelope import Frame, Kind, decode, encode, parse_instant
from shared.domain.states import REASONS, TRANSITIONS, DeletedReason, Reason, Status, Transition
from shared.domain.token_moves import RetiredReason
from shared.runtime.metrics import Metrics
from shared.runtime.settings import PREFIX, Settings, load_settings

PROJECT = Path(__file__).resolve().parents[2]
PAGES = sorted([*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md")])
PROCESSES = {"creator": creator.__main__.app, "consumer": consumer.__main__.app}
_CODE = re.compile(r"`([^`]+)`")


def table(page: str, first_heading: str) -> Iterator[list[str]]:
    """The rows of every table of a page whose first column has this heading, as lists of cells."""
    inside = False
    for line in (PROJECT / page).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            inside = False
        elif cells[0] == first_heading:
            inside = True
        elif inside and set(cells[0]) != {"-"}:
            yield cells


def code(cell: str) -> list[str]:
    return _CODE.findall(cell)


# --- metrics ------------------------------------------------------------------------------------------------


def declared_metrics() -> dict[str, tuple[str, tuple[str, ...]]]:
    kinds: dict[type, str] = {Counter: "counter", Gauge: "gauge", Histogram: "histogram"}
    found = {}
    for metric in vars(Metrics()).values():
        if type(metric) in kinds:
            suffix = "_total" if isinstance(metric, Counter) else ""
            found[metric._name + suffix] = (kinds[type(metric)], tuple(metric._labelnames))
    return found


def test_the_metrics_page_lists_every_metric_with_its_type_and_labels() -> None:
    listed = {code(name)[0]: (kind, tuple(code(labels))) for name, kind, labels, _ in table("docs/metrics.md", "name")}
    assert listed == declared_metrics()


def test_every_metric_is_registered_under_the_product_name() -> None:
    metrics = Metrics()
    registered = {family.name for family in metrics.registry.collect()}
    assert registered == {name.removesuffix("_total") for name in declared_metrics()}
    assert all(name.startswith("punktlig_") for name in registered)


# --- settings -----------------------------------------------------------------------------------------------


def example_settings() -> dict[str, str]:
    """Variable to value in `.env.example`, commented lines too, as a shell would read them."""
    found: dict[str, str] = {}
    for line in (PROJECT / ".env.example").read_text().splitlines():
        match = re.fullmatch(r"(?:# )?(PUNKTLIG_[A-Z_]+)=(.*)", line)
        if match:
            assert match[1] not in found, f"{match[1]} stands there twice"
            found[match[1]] = match[2].strip("'")
    return found


def test_the_example_lists_every_setting_and_no_other() -> None:
    assert set(example_settings()) == {PREFIX + name.upper() for name in Settings.model_fields}


def test_the_example_shows_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = example_settings()
    monkeypatch.setenv("PUNKTLIG_MONGO_URL", shown["PUNKTLIG_MONGO_URL"])
    defaults = load_settings()
    for variable, value in shown.items():
        monkeypatch.setenv(variable, value)
    for name in Settings.model_fields:
        assert getattr(load_settings(), name) == getattr(defaults, name), name


def test_only_settings_without_a_default_are_shown_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    # An empty variable counts as absent, so the comparison above would let a missing default pass.
    monkeypatch.setenv("PUNKTLIG_MONGO_URL", "mongodb://somewhere")
    settings = load_settings()
    for variable, value in example_settings().items():
        default = getattr(settings, variable.removeprefix(PREFIX).lower())
        is_empty = default is None or (hasattr(default, "__len__") and not len(default))
        assert (value == "") == is_empty, variable


def test_every_setting_of_the_example_is_explained() -> None:
    lines = (PROJECT / ".env.example").read_text().splitlines()
    for before, line in itertools.pairwise(lines):
        if re.match(r"(# )?PUNKTLIG_", line):
            assert re.match(r"# [^-P]|# P(?!UNKTLIG)", before), line


def test_settings_named_on_pages_exist() -> None:
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    for page in PAGES:
        assert set(re.findall(r"PUNKTLIG_[A-Z_]*[A-Z]", page.read_text())) <= known, page.name


# --- states -------------------------------------------------------------------------------------------------


def test_the_chart_draws_every_transition() -> None:
    arrows = re.findall(r"^    (\w+) --> (\w+): (.+)$", (PROJECT / "docs/states.md").read_text(), re.MULTILINE)
    drawn = [
        Transition(move, Status(source), Status(target))
        for source, target, moves in arrows
        for move in moves.split(", ")
    ]
    assert sorted(drawn) == sorted(TRANSITIONS)


def test_the_state_page_explains_every_reason() -> None:
    listed = [code(row[0])[0] for row in table("docs/states.md", "reason")]
    reasons: list[Reason | DeletedReason] = [*Reason, *DeletedReason]
    assert sorted(listed) == sorted(reason.value for reason in reasons)


@pytest.mark.parametrize("status", REASONS)
def test_reasons_stand_under_their_status(status: Status) -> None:
    page = (PROJECT / "docs/states.md").read_text()
    block = page.split(f"\nOf `{status.value}`")[1].split("\nOf ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", block, re.MULTILINE)) == {reason.value for reason in REASONS[status]}


def test_the_state_page_names_every_reason_for_retiring_a_token() -> None:
    tokens = (PROJECT / "docs/states.md").read_text().split("## Tokens")[1]
    assert {reason.value for reason in RetiredReason} <= set(code(tokens))


# --- what travels through the broker ------------------------------------------------------------------------


def test_the_contract_names_every_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUNKTLIG_MONGO_URL", "mongodb://somewhere")
    queues = [bell.send_queue(category) for category in load_settings().categories]
    rows = [code(row[0]) for row in table("docs/message-contract.md", "queue")]
    assert rows == [queues, [bell.RECEIPTS_QUEUE], [bell.dead_letter_queue("")], [canary.QUEUE]]


def test_the_frame_of_the_contract_is_one() -> None:
    page = (PROJECT / "docs/message-contract.md").read_text()
    text = page.split("```json\n")[1].split("\n```")[0]
    assert encode(decode(text, Kind.SEND)) == text
    fields = {code(row[0])[0] for row in table("docs/message-contract.md", "field")}
    full = Frame(Kind.SEND, "meal", parse_instant("2026-03-29T07:00:00Z"), ("x",), early=1)
    assert fields == set(json.loads(encode(full)))


# --- commands -----------------------------------------------------------------------------------------------


def parse_command(words: list[str]) -> None:
    """Parse the words behind `python -m` as the process would; raises what its parser raises."""
    group = typer.main.get_command(PROCESSES[words[0]])
    context = group.make_context(words[0], words[1:2])
    name, command, _ = group.resolve_command(context, words[1:2])  # type: ignore[attr-defined]
    command.make_context(name, words[2:], parent=context)


def make_targets() -> dict[str, str]:
    """Every target of the Makefile with its recipe."""
    text = (PROJECT / "Makefile").read_text()
    return dict(re.findall(r"^([a-z]+):.*\n((?:\t.*\n?)*)", text, re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_make_targets_named_on_pages_exist(page: Path) -> None:
    text = page.read_text()
    named = set(re.findall(r"`make (?:-s )?([a-z]+)`", text))
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
        named |= set(re.findall(r"\bmake (?:-s )?([a-z]+)", block))
    assert named <= set(make_targets())


def test_the_readme_has_its_two_commands() -> None:
    readme = (PROJECT / "README.md").read_text()
    assert re.search(r"^make demo +#.*\nmake test +#", readme, re.MULTILINE)


def test_make_targets_run_what_exists() -> None:
    for target, recipe in make_targets().items():
        for module in re.findall(r"-m ((?:deploy|tests)[\w.]*)", recipe):
            assert importlib.util.find_spec(f"{module}.__main__"), target
        for name in re.findall(r"(?:\$\(PY\)|@) ?((?:tests|deploy)/\S+)", recipe):
            path = PROJECT / name
            assert (path / "__main__.py" if path.is_dir() else path).is_file(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_on_pages_parse(page: Path) -> None:
    text = page.read_text()
    shown = re.findall(r"python -m ((?:creator|consumer)[^\n`#&]*)", text)
    shown += re.findall(r"`((?:creator|consumer) [a-z][^`]*)`", text)
    for words in shown:
        parse_command(words.split())


def test_a_command_that_does_not_exist_is_noticed() -> None:
    for words in (["creator", "plann"], ["consumer", "send", "--twice"]):
        with pytest.raises(Exception, match=r"(?i)no such"):
            parse_command(words)


# --- modules and links --------------------------------------------------------------------------------------


def test_the_module_map_is_complete() -> None:
    text = (PROJECT / "docs/architecture.md").read_text().split("## Module map")[1].split("```")[1]
    listed = sorted(re.findall(r"\b(\w+\.py)\b", text))
    modules = [path for part in ("shared", "creator", "consumer") for path in (PROJECT / part).rglob("*.py")]
    assert listed == sorted(path.name for path in modules if path.name != "__init__.py")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_named_on_pages_exist(page: Path) -> None:
    for path in re.findall(r"`((?:shared|creator|consumer|deploy|tests|docs)/[\w./-]+)`", page.read_text()):
        assert (PROJECT / path).exists(), path


def test_what_the_readme_imports_exists() -> None:
    for block in re.findall(r"```python\n(.*?)```", (PROJECT / "README.md").read_text(), re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom):
                module = importlib.import_module(node.module or "")
                assert all(hasattr(module, alias.name) for alias in node.names), node.module


def test_decisions_are_numbered_and_complete() -> None:
    pages = sorted((PROJECT / "docs/adr").glob("*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    for page in pages:
        text = page.read_text()
        assert text.startswith(f"# {int(page.name[:4])}. "), page.name
        assert all(f"**{part}.**" in text for part in ("Context", "Decision", "Consequences")), page.name
