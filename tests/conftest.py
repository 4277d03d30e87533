"""Fixtures that all tests may use. Servers start when the first test asks for them, once per run."""

import shutil
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from pymongo import MongoClient

from deploy.local.stack import LocalStack


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """Real MongoDB and ActiveMQ for the whole run. A test that kills or pauses a server makes it good again.

    Queues are shared by all tests of a run, so a test looks only at messages that it can tell are its own.
    """
    folder = tmp_path_factory.mktemp("stack")
    with LocalStack(folder) as running:
        yield running
    shutil.rmtree(folder, ignore_errors=True)  # hundreds of megabytes of journals


@pytest.fixture
def database(stack: LocalStack) -> Iterator[dict[str, str]]:
    """The settings of the stack with an empty database of this test's own, dropped afterwards."""
    name = f"test_{uuid.uuid4().hex}"
    yield stack.environment() | {"PUNKTLIG_MONGO_DB": name}
    client: MongoClient[dict[str, Any]]
    with MongoClient(stack.mongod.url, serverSelectionTimeoutMS=10_000) as client:
        client.drop_database(name)
