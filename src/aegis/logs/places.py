"""From a path or an address, as a user gives it, to where it leads."""

from __future__ import annotations

from pathlib import Path

from aegis.errors import LogError
from aegis.logs.address import is_address, parse_address
from aegis.logs.local import LocalFile
from aegis.logs.remote import RemoteFile
from aegis.logs.stored import Stored


def stored(given: str | Path | Stored) -> Stored:
    """Return where a path or an address such as `s3://bucket/key` leads; LogError, with nothing secret in it, if it is none."""
    if not isinstance(given, str | Path):
        return given
    text = str(given)
    if not is_address(text):
        return LocalFile(Path(given), text)
    address = parse_address(text)
    if address.scheme != "file":
        return RemoteFile(address)
    if address.bucket not in ("", "localhost"):
        raise LogError(f"{address}: an address of a local file has three slashes, as in file:///data/log.parquet")
    return LocalFile(Path(f"/{address.path}"))
