"""Addresses of objects in stores, such as `s3://bucket/key`: taken apart, so that what is secret in them is never shown."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

from aegis.errors import LogError

SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs", "file")  # those that a slip in writing is recognised for

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)  # two letters at least: C:// is a drive
_SLIP = re.compile(rf"({'|'.join(SCHEMES)}):/(?!/)")
# A question mark is a wildcard unless options follow it.
_OPTIONS = re.compile(r"\?(?=[A-Za-z_]+=)")
_BUCKET = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Address:
    """Where an object is: store, bucket (or host), and path in it, with percent signs resolved and no slash at its ends.

    user: what came before an `@`, options: what came after a `?`; both may be secret, and only the file system sees them.
    """

    scheme: str
    bucket: str
    path: str
    user: str = field(default="", repr=False)
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        """Return the address without user and options; given again, it means the same object."""
        path = self.path.replace("%", "%25").replace("?", "%3F")
        return f"{self.scheme}://{self.bucket}" + (f"/{path}" if path else "")

    def at(self, path: str) -> Address:
        """Return the address of another path in the same bucket."""
        return replace(self, path=path)


def is_address(text: str) -> bool:
    """Say whether a text is an address rather than a path; raises LogError if it looks like one that lost a slash."""
    slip = _SLIP.match(text)
    if slip is not None:
        # The rest is not shown: it may hold a secret.
        raise LogError(
            f"found an address that starts with '{slip[1]}:/'; it starts with '{slip[1]}://': give it as text, because a Path "
            "makes one slash of two"
        )
    return _ADDRESS.fullmatch(text) is not None


def parse_address(text: str) -> Address:
    """Return an address taken apart; raises LogError, which shows nothing that may be secret, if it cannot be one."""
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise LogError("found a text that is no address; one starts with a store, such as s3://bucket/key")
    scheme, rest = found[1].lower(), found[2]
    mark = _OPTIONS.search(rest)
    rest, query = (rest[: mark.start()], rest[mark.end() :]) if mark else (rest, "")
    user, rest = _user(scheme, rest)
    bucket, _, path = rest.partition("/")
    if scheme != "file" and not _BUCKET.fullmatch(bucket.partition(":")[0] if scheme != "s3" else bucket):
        raise LogError(
            f"{scheme}://: the bucket is missing or not named in full; write {scheme}://bucket/key, with user and password, if "
            "any, before an '@'"
        )
    options = [pair.partition("=") for pair in query.split("&") if pair]
    return Address(scheme, bucket, _plain(path, scheme), user, tuple((name, unquote(value)) for name, _, value in options))


def _user(scheme: str, rest: str) -> tuple[str, str]:
    """Return what comes before the bucket and an `@`, and the rest."""
    head = rest.partition("/")[0]
    if "@" in head:
        user = head.rpartition("@")[0]
    elif scheme == "s3" and ":" in head and "@" in rest:
        user = rest.partition("@")[0]  # secret keys may hold slashes, and people paste them as they are
    else:
        return "", rest
    return user, rest[len(user) + 1 :]


def _plain(path: str, scheme: str) -> str:
    plain = unquote(path)
    return plain if scheme == "file" else plain.strip("/")
