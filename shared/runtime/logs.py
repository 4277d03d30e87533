"""Structured logs on stderr: JSON for machines, a readable form on a terminal, never a secret."""

import logging
import re
import sys
from typing import Any, TextIO

import structlog

_TOKEN = re.compile(r"(Expo(?:nent)?PushToken\[)[^\]]*\]")
_CREDENTIALS = re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^/\s:@]*:[^@\s]+@", re.IGNORECASE)
_SECRET_KEYS = ("token", "passcode", "password", "secret", "authorization")
_ID_SUFFIX = ("id", "_ids")


def configure_logs(form: str = "auto", stream: TextIO | None = None) -> None:
    """Send all log lines to `stream` (stderr). `form` is `json`, `text`, or `auto`: text on a terminal only."""
    out = sys.stderr if stream is None else stream
    readable = form == "text" or (form == "auto" and out.isatty())
    renderer: Any = (
        structlog.dev.ConsoleRenderer(colors=out.isatty())
        if readable
        else structlog.processors.JSONRenderer(default=str)
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            redact,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(out),
        cache_logger_on_first_use=True,
    )
    # Libraries speak through the standard logger; what they say is shown only when it is a warning, and redacted.
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,  # before the redaction: a traceback is text like any other
                redact,
                renderer,
            ],
            foreign_pre_chain=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
            ],
        )
    )
    logging.basicConfig(level=logging.ERROR, handlers=[handler], force=True)


def redact(_logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Hide secrets by the key's name and by the value's form, wherever in the event they stand."""
    return {key: _hidden(key, value) for key, value in event.items()}


def _hidden(key: str, value: Any) -> Any:
    name = key.lower()
    if any(secret in name for secret in _SECRET_KEYS) and not name.endswith(_ID_SUFFIX) and isinstance(value, str):
        return "***"
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, dict):
        return {str(inner): _hidden(str(inner), item) for inner, item in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(key, item) for item in value]
    return value


def scrub(text: str) -> str:
    """`text` without push tokens and without credentials in addresses."""
    return _CREDENTIALS.sub(r"\1***@", _TOKEN.sub(r"\1***]", text))


def get_logger(name: str) -> structlog.typing.FilteringBoundLogger:
    """The logger of a part; every line bears its name."""
    return structlog.get_logger(part=name)  # type: ignore[no-any-return]
