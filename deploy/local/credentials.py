"""Log-ins of a stack: made once per folder, readable by its owner alone."""

import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

CREDENTIALS_FILE = "credentials.json"


@dataclass(frozen=True, repr=False)
class Credentials:
    """The broker's users: the services' and the operators'."""

    login: str
    passcode: str
    ops_login: str
    ops_passcode: str

    @classmethod
    def of(cls, folder: Path) -> Self:
        """The log-ins of this folder, made up and written there (mode 0600) if it has none."""
        path = folder / CREDENTIALS_FILE
        try:
            return cls(**json.loads(path.read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            mine = cls("punktlig", secrets.token_urlsafe(24), "ops", secrets.token_urlsafe(24))
        fresh = folder / f"{CREDENTIALS_FILE}.new"
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(asdict(mine), file)
        fresh.replace(path)
        return mine
