"""The formats that a log may come in, by the ending of the file's name."""

from __future__ import annotations

from pathlib import PurePath

from aegis.errors import LogError
from aegis.logs.blocks import LogFile
from aegis.logs.parquet_log import ParquetLog
from aegis.logs.stored import Stored
from aegis.logs.text_log import TextLog

__all__ = ["FORMATS", "LogFile", "is_log", "open_log"]

FORMATS: dict[str, type[ParquetLog] | type[TextLog]] = {
    ".parquet": ParquetLog,
    ".pq": ParquetLog,
    ".csv": TextLog,
    ".tsv": TextLog,
    ".txt": TextLog,
    ".csv.gz": TextLog,
    ".tsv.gz": TextLog,
    ".txt.gz": TextLog,
}


def is_log(name: str) -> bool:
    """Say whether the name of a file ends like that of a log."""
    return _ending(name) is not None


def open_log(place: Stored) -> LogFile:
    """Return the file as a log of the format its name ends in; raises LogError if it cannot be one."""
    place.require()
    ending = _ending(place.name)
    if ending is None:
        place.stamp()  # an address of nothing is told as that
        found = PurePath(place.name).suffix
        raise LogError(f"{place}: a log ends in {', '.join(FORMATS)}; found '{found}'. Save it as one of these")
    return FORMATS[ending].open(place)


def _ending(name: str) -> str | None:
    name = name.lower()
    return next((ending for ending in FORMATS if name.endswith(ending) and name != ending), None)
