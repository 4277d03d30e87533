"""The connection to MongoDB, and the edge at which the driver's errors become ours."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pymongo
from bson.codec_options import CodecOptions, DatetimeConversion
from pymongo import MongoClient, WriteConcern
from pymongo.database import Database as MongoDatabase
from pymongo.errors import (
    ConfigurationError,
    ConnectionFailure,
    DuplicateKeyError,
    ExecutionTimeout,
    InvalidURI,
    NetworkTimeout,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
    WTimeoutError,
)

from shared.adapters.errors import DatabaseUnavailable
from shared.domain.moves import Move

Document = dict[str, Any]
Database = MongoDatabase[Document]

_PASSING = (
    ConnectionFailure,
    ExecutionTimeout,
    NetworkTimeout,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
    WTimeoutError,
)
# A lock held by a stopped worker must not hold the whole batch.
WRITE_TIMEOUT_SECONDS = 15


class BadDatabaseAddress(ValueError):
    """PUNKTLIG_MONGO_URL cannot be understood."""


def connect(url: str, name: str, part: str) -> Database:
    """The database `name`, every write of which waits for the majority's journal. Connects when first used.

    Raises:
        BadDatabaseAddress: for an address the driver refuses.

    """
    try:
        client: MongoClient[Document] = MongoClient(
            url,
            appname=f"punktlig-{part}",
            tz_aware=True,
            datetime_conversion=DatetimeConversion.DATETIME_AUTO,
            connectTimeoutMS=5_000,
            serverSelectionTimeoutMS=10_000,
            socketTimeoutMS=30_000,
        )
    except (InvalidURI, ConfigurationError, ValueError) as error:
        raise BadDatabaseAddress(f"PUNKTLIG_MONGO_URL: {error}") from None
    # A date outside Python's calendar must not stop the reading of its neighbours: as DatetimeMS it is refused alone.
    options: CodecOptions[Document] = CodecOptions(tz_aware=True, datetime_conversion=DatetimeConversion.DATETIME_AUTO)
    return client.get_database(name, codec_options=options, write_concern=WriteConcern("majority", j=True))


@contextmanager
def translated() -> Iterator[None]:
    """Turn the driver's passing errors into DatabaseUnavailable; programming errors stay what they are.

    Raises:
        DatabaseUnavailable: no primary, no answer, or not in time.

    """
    try:
        yield
    except ServerSelectionTimeoutError as error:
        cause = str(error).partition(",")[0][:120]
        raise DatabaseUnavailable(f"no MongoDB primary answers (PUNKTLIG_MONGO_URL): {cause}") from error
    except _PASSING as error:
        raise DatabaseUnavailable(f"MongoDB: {type(error).__name__}: {error}"[:300]) from error
    except PyMongoError as error:
        passing = error.timeout or error.has_error_label("RetryableWriteError")
        passing = passing or error.has_error_label("TransientTransactionError")
        if passing and not isinstance(error, DuplicateKeyError):
            raise DatabaseUnavailable(f"MongoDB: {type(error).__name__}: {error}"[:300]) from error
        raise


def server_now(database: Database) -> datetime:
    """The server's clock, aware UTC, whole milliseconds."""
    with translated():
        now: datetime = database.command("hello", codec_options=database.codec_options)["localTime"]
    return now


def apply(collection: Any, move: Move, session: Any = None) -> int:
    """Make a guarded move; how many documents matched the guard and changed. Bounded in time.

    Raises:
        DatabaseUnavailable: the move may have happened, wholly or in part.

    """
    with translated(), pymongo.timeout(WRITE_TIMEOUT_SECONDS) if session is None else _unbounded():
        return int(collection.update_many(move.where, move.update, session=session).modified_count)


@contextmanager
def _unbounded() -> Iterator[None]:
    # Inside a transaction the server's transactionLifetimeLimitSeconds is the bound.
    yield


def violated_index(error: OperationFailure | Document) -> str:
    """The first field of the unique index behind an 11000 error, which tells the two indexes apart."""
    details = error.details if isinstance(error, OperationFailure) else error
    pattern = (details or {}).get("keyPattern") or {"?": 1}
    return str(next(iter(pattern)))
