"""What `aegis serve` writes down: one JSON object per line on stderr, whoever has something to say."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from aegis.errors import SettingError

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}
SPEAKERS = ("aegis", "uvicorn", "asyncio")  # who would otherwise write lines of their own kind


class Lines(logging.Formatter):
    """One line of JSON for each thing that happened. `extra={"fields": {...}}` puts fields of its own beside the usual ones."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a traceback is its field 'why'."""
        found: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "from": record.name,
            "what": record.getMessage().strip(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            found["why"] = self.formatException(record.exc_info)
        if record.stack_info:
            found["where"] = self.formatStack(record.stack_info)
        return json.dumps(found, default=str)


def write_lines(level: str) -> None:
    """Let everybody write lines of JSON from a level on; SettingError if there is no such level."""
    if level not in LEVELS:
        raise SettingError(f"--log-level is one of {', '.join(LEVELS)}, found '{level}'")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    for name in SPEAKERS:
        speaker = logging.getLogger(name)
        speaker.handlers, speaker.propagate = [handler], False
        speaker.setLevel(LEVELS[level])
