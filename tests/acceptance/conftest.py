"""The world fixture of the acceptance tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.sandbox.process import SandboxProcess
from tests.acceptance.world import World


@pytest.fixture
def world(database: dict[str, str], tmp_path: Path) -> Iterator[World]:
    """A database and a sandbox of this test's own. Queues are shared: a frame of another test matches no row here."""
    with SandboxProcess() as sandbox:
        made = World(database, sandbox, tmp_path)
        try:
            made.ok("creator indexes")
            yield made
        finally:
            made.close()
