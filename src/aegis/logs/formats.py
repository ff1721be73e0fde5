"""The formats that a log may come in, by the ending of the file's name."""

from __future__ import annotations

from pathlib import Path

from aegis.errors import LogError
from aegis.logs.blocks import LogFile
from aegis.logs.parquet_log import ParquetLog
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


def is_log(path: Path) -> bool:
    """Say whether the name of a file ends like that of a log."""
    return _ending(path) is not None


def open_log(path: Path) -> LogFile:
    """Return the file as a log of the format its name ends in; raises LogError if it cannot be one."""
    if path.is_dir():
        raise LogError(f"{path} is a folder; give the files in it")
    if not path.exists():
        raise LogError(f"{path} does not exist")
    ending = _ending(path)
    if ending is None:
        raise LogError(f"{path}: a log ends in {', '.join(FORMATS)}; found '{path.suffix}'. Save it as one of these")
    return FORMATS[ending].open(path)


def _ending(path: Path) -> str | None:
    name = path.name.lower()
    return next((ending for ending in FORMATS if name.endswith(ending) and name != ending), None)
