"""Registration of phones: one active token per device, under concurrent log-ins."""

import random
import time
from typing import Any

from pymongo.errors import DuplicateKeyError, OperationFailure
from pymongo.write_concern import WriteConcern

from shared.adapters.errors import DatabaseUnavailable
from shared.adapters.mongo.client import Database, apply, server_now, translated
from shared.domain import token_moves
from shared.domain.token_moves import Registration

# It is called inside an app's log-in: a user waits.
_PATIENCE_SECONDS = 10.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.5


class TokenStore:
    """Writes on `notification_tokens`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._tokens = database["notification_tokens"]

    def register(self, registration: Registration) -> Any:
        """Make this the device's one active token and retire its rivals; the token's id.

        Of several log-ins at once each succeeds in turn, and the last one's token stays active.

        Raises:
            DatabaseUnavailable: nothing is known to have changed; register again.

        """
        pause = _FIRST_PAUSE
        last: Exception | None = None
        give_up_at = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < give_up_at:
            try:
                return self._try_register(registration)
            except (DuplicateKeyError, DatabaseUnavailable) as error:
                last = error
            except OperationFailure as error:
                if not error.has_error_label("TransientTransactionError"):
                    raise
                last = error
            time.sleep(random.uniform(0, pause))  # noqa: S311 - jitter, not a secret
            pause = min(2 * pause, _LONGEST_PAUSE)
        raise DatabaseUnavailable(f"not registered within {_PATIENCE_SECONDS:g} s: {last}") from last

    def _try_register(self, registration: Registration) -> Any:
        seen = token_moves.see_again(registration)
        with translated():
            known = self._tokens.find_one_and_update(seen.where, seen.update, {"_id": 1})
        if known is not None:
            return known["_id"]
        document = token_moves.new_token(registration, server_now(self._database))
        rivals = token_moves.retire_rivals(registration)
        durable = WriteConcern("majority", j=True)
        with translated(), self._database.client.start_session() as session, session.start_transaction(None, durable):
            self._tokens.update_many(rivals.where, rivals.update, session=session)
            return self._tokens.insert_one(document, session=session).inserted_id

    def log_out(self, device_id: Any) -> bool:
        """Retire the device's active token; whether there was one."""
        return apply(self._tokens, token_moves.log_out(device_id)) > 0
