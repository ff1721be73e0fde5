"""Files in object stores: addresses such as `s3://bucket/key`, Arrow's file systems with time limits, and plain error messages.

An address is taken apart so that user, password and options never appear in a message. `locate` tells a path on this
machine from an address.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from io import BufferedIOBase
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, unquote

import pyarrow as pa

from aegis.errors import LogError, did_you_mean
from aegis.logs.storage import LocalFile, RelativePath, StoredFile, has_wildcards, is_requested, matches_pattern, split_pattern

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


CONNECT, REQUEST, ATTEMPTS = 3.0, 15.0, 3  # seconds, seconds without a byte, and how often a request is tried

GOOGLE = 20  # seconds in which a request to Google's store may be tried again


_TEXTS = ("region", "scheme", "endpoint_override", "tls_ca_file_path")

_FLAGS = ("anonymous", "force_virtual_addressing")

_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")

_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")

_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE")  # read by Arrow


def filesystem_of(address: Address) -> tuple[Any, str]:
    """Return the file system of an address and, as it is called there, the place where paths begin.

    Raises LogError if there is no such store, or if user and options do not fit it; nothing secret is shown.
    """
    root = address.at("")
    settings = tuple(os.environ.get(name, "") for name in (*_ENDPOINTS, *_REGIONS, *_KEYS)) if address.scheme == "s3" else ()
    return _made(root, settings)


@functools.lru_cache(maxsize=64)
def _made(root: Address, settings: tuple[str, ...]) -> tuple[Any, str]:
    # `settings` are what is read from the environment: other keys, or another endpoint, are another file system.
    if root.scheme == "s3":
        return _s3(root), root.bucket
    options = dict(root.options)
    if root.scheme in ("gs", "gcs"):
        options.setdefault("retry_limit_seconds", str(GOOGLE))
    user = f"{root.user}@" if root.user else ""
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in options.items())
    try:
        found, base = pa.fs.FileSystem.from_uri(f"{root.scheme}://{user}{root.bucket}/{'?' if query else ''}{query}")
    except (pa.ArrowException, OSError, ImportError) as error:
        # Not chained, and quoted only where it cannot hold the address: Arrow may repeat it with all that is secret.
        raise LogError(f"{root}: {_why(root.scheme, error)}") from None
    return found, base


def _why(scheme: str, error: Exception) -> str:
    said = str(error).splitlines()[0] if str(error) else type(error).__name__
    if "Unrecognized filesystem type" in said:
        return f"logs are read from local files, s3://, gs:// and file://, not from {scheme}://; copy the log to one of these"
    if "query parameter" in said or "parse URI" in said or "URI" in said:
        return f"user or options of this {scheme}:// address are not as Arrow takes them; special characters are written as %2F"
    return f"Arrow cannot reach stores of the kind {scheme}:// from here ({said}); copy the log to where it can be read"


def _s3(root: Address) -> Any:
    try:
        from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem
    except ImportError:
        raise LogError(f"{root}: this build of pyarrow cannot read s3://; install one that can, or copy the log") from None
    options = _s3_options(root)
    try:
        options.setdefault("region", _region(root, options))
        return S3FileSystem(
            **options,
            connect_timeout=CONNECT,
            request_timeout=REQUEST,
            retry_strategy=AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
        )
    except (pa.ArrowException, ValueError) as error:
        raise LogError(f"{root}: user or options of the address do not fit: {_scrubbed(error, root)}") from None


def _s3_options(root: Address) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for name, value in root.options:
        if name in _TEXTS:
            options[name] = value
        elif name in _FLAGS:
            options[name] = value.lower() in ("true", "1")
        else:
            known = (*_TEXTS, *_FLAGS)
            raise LogError(f"{root}: unknown option '{name}'{did_you_mean(name, known)}; allowed: {', '.join(known)}")
    if root.user:
        key, _, secret = root.user.partition(":")
        if not key or not secret:
            raise LogError(f"{root}: before the '@' of an address come key and secret, as key:secret; found one of them only")
        options |= {"access_key": unquote(key), "secret_key": unquote(secret)}
    endpoint = options.get("endpoint_override") or next(filter(None, map(os.environ.get, _ENDPOINTS)), "")
    scheme, mark, host = endpoint.rpartition("://")
    if endpoint:
        options["endpoint_override"] = host.rstrip("/")
    if mark:
        options["scheme"] = scheme
    return options


def _region(root: Address, options: dict[str, Any]) -> str | None:
    named = next(filter(None, map(os.environ.get, _REGIONS)), None)
    if named or options.get("endpoint_override"):
        return named or "us-east-1"  # what servers that know no regions expect
    try:
        return pa.fs.resolve_s3_region(root.bucket)
    except OSError:
        return None  # the first request says what is wrong, and with which object


def _scrubbed(error: Exception, root: Address) -> str:
    """Return what an error says without the values of the address."""
    said = str(error).splitlines()[0] if str(error) else type(error).__name__
    for secret in {root.user, *root.user.split(":"), unquote(root.user), *(value for _, value in root.options)} - {""}:
        said = said.replace(secret, "***")
    return said


_MISSING_MARKS = (
    *("NO_SUCH_BUCKET", "NO_SUCH_KEY", "RESOURCE_NOT_FOUND", "NOT_FOUND", "HTTP status 404", "Path does not exist"),
    "Not a regular file",  # said of a bucket that is not there
)

_DENIED_MARKS = (
    *("ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "INVALID_SIGNATURE", "INVALID_CLIENT_TOKEN_ID"),
    *("UNRECOGNIZED_CLIENT", "MISSING_AUTHENTICATION_TOKEN", "EXPIRED_TOKEN", "ExpiredToken", "HTTP status 401"),
    *("HTTP status 403", "PERMISSION_DENIED", "UNAUTHENTICATED", "OAuth2", "AuthenticationFailed"),
)

_REGION_MARKS = ("HTTP status 301", "PermanentRedirect", "located in", "AuthorizationHeaderMalformed")

_UNREACHED_MARKS = (
    "NETWORK_CONNECTION",
    "curlCode",
    "CURL error",
    "UNAVAILABLE",
    "REQUEST_TIMEOUT",
    "SLOW_DOWN",
    "INTERNAL_FAILURE",
)

_STORE_MARKS = ("AWS Error", "google::cloud::Status", "Azure", "HDFS")


def store_error(address: Address, error: Exception) -> LogError | None:
    """Return the error that names the object and what to do; None if the store was reached and did what it was asked."""
    said = " ".join(str(error).split())
    if isinstance(error, FileNotFoundError) or _has(said, _MISSING_MARKS):
        return LogError(f"{address} does not exist; check bucket and key, and that these keys may list the bucket")
    if not _has(said, _STORE_MARKS):
        return None
    if _has(said, _REGION_MARKS):
        return LogError(f"{address}: the bucket is in another region; set AWS_REGION, or add ?region=... to the address")
    if _has(said, _UNREACHED_MARKS):
        return LogError(
            f"{address}: the store cannot be reached, or broke off ({_short(said)}), though it was tried several times; check "
            "the network and the endpoint (AWS_ENDPOINT_URL, or ?endpoint_override=HOST:PORT), and try again"
        )
    if _has(said, _DENIED_MARKS):
        return LogError(
            f"{address}: the store refuses access ({_short(said)}); check the credentials (AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, a profile, or for gs:// GOOGLE_APPLICATION_CREDENTIALS) and that they may list and read it"
        )
    return LogError(f"{address}: the store could not do what it was asked ({_short(said)}); try again, or copy the log here")


def _has(said: str, marks: tuple[str, ...]) -> bool:
    return any(mark in said for mark in marks)


def _short(said: str) -> str:
    """Return the part of a message that says what happened: after the names of the request, before its details."""
    for mark in ("AWS Error ", "google::cloud::Status("):
        if mark in said:
            said = said.partition(mark)[2]
            break
    said = said.partition(" (Request ID")[0].partition("error_info=")[0].strip()
    return said if len(said) <= 200 else f"{said[:200]}..."


_BUFFER = 8 << 20  # bytes asked for at a time where a file is read from its first byte to its last

# What a store says of the version of an object, under the names that stores have for it.
_VERSIONS = ("etag", "generation", "last-modified")

_REQUEST_ERRORS = (pa.ArrowException, OSError)


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """What an address leads to; see Stored."""

    address: Address

    def __str__(self) -> str:
        return str(self.address)

    @property
    def name(self) -> str:
        """Return the name without its folders; see Stored."""
        return self.address.path.rpartition("/")[2] or self.address.bucket

    @property
    def local(self) -> Path | None:
        """Return None: it is not on this machine; see Stored."""
        return None

    def is_folder(self) -> bool:
        """Say whether objects are below it; see Stored."""
        return self._kind() == pa.fs.FileType.Directory

    def is_pattern(self) -> bool:
        """Say whether it has wildcards and is no object; see Stored."""
        return has_wildcards(self.address.path) and self._kind() == pa.fs.FileType.NotFound

    def require(self) -> None:
        """Ask nothing: opening the object tells; see Stored."""

    def below(self) -> list[tuple[RelativePath, StoredFile]]:
        """Return all objects below a folder; see Stored."""
        found = [(names, item) for names, item, folder in self._listed(self.address.path, recursive=True) if not folder]
        return [(names, item) for names, item in found if not any(name.startswith((".", "_")) for name in names)]

    def matches(self) -> list[StoredFile]:
        """Return what fits a pattern; see Stored."""
        before, pattern = split_pattern(self.address.path)
        # One listing of all that is below takes fewer requests than one for each folder.
        found = self._listed("/".join(before), recursive=len(pattern) > 1 or pattern == ("**",))
        asked = tuple(self.address.path.split("/"))
        return [item for names, item, _ in found if matches_pattern(names, pattern) and is_requested((*before, *names), asked)]

    def identity(self) -> Hashable:
        """Return the address without user and options; see Stored."""
        return str(self.address)

    def stamp(self) -> Hashable:
        """Return size and version as the store tells them; see Stored."""
        with self._reached() as (files, path), files.open_input_file(path) as handle:
            said = {name.lower(): value for name, value in (handle.metadata() or {}).items()}
            versions = tuple(said[name] for name in _VERSIONS if name in said)
            return str(self.address), handle.size(), versions or (files.get_file_info(path).mtime_ns,)

    def open(self) -> BufferedIOBase:
        """Return the bytes; see Stored."""
        with self._reached() as (files, path):
            return cast(BufferedIOBase, files.open_input_stream(path, compression=None, buffer_size=_BUFFER))

    def seekable(self) -> Any:
        """Return a handle; see Stored."""
        with self._reached() as (files, path):
            return files.open_input_file(path)

    def unpacked(self) -> Any:
        """Return a stream; see Stored."""
        packed = "gzip" if self.name.lower().endswith(".gz") else None
        with self._reached() as (files, path):
            return files.open_input_stream(path, compression=packed, buffer_size=_BUFFER)

    @contextlib.contextmanager
    def watched(self, stamp: Hashable = None) -> Iterator[None]:
        """Watch over the version of the object: each request gets the one of its moment; see Stored."""
        before = self.stamp()
        if stamp is not None and before != stamp:
            raise self._changed()
        try:
            yield
        except Exception as error:
            # Pieces of two versions look like a damaged file, to each reader in another way.
            if self._is_other_than(before):
                raise self._changed() from error
            raise
        if self.stamp() != before:
            raise self._changed()

    def fault(self, error: Exception) -> LogError | None:
        """Return what went wrong in reaching the object; see Stored."""
        return store_error(self.address, error)

    def _kind(self) -> Any:
        with self._reached() as (files, path):
            return files.get_file_info(path).type

    def _listed(self, folder: str, recursive: bool) -> list[tuple[RelativePath, RemoteFile, bool]]:
        """Return what is in a folder, by the names that lead there, sorted by them, and whether it is a folder itself."""
        with RemoteFile(self.address.at(folder))._reached() as (files, base):
            infos = files.get_file_info(pa.fs.FileSelector(base, allow_not_found=True, recursive=recursive))
        found = []
        for info in infos:
            names = tuple(info.path[len(base) :].strip("/").split("/"))
            place = RemoteFile(self.address.at("/".join(filter(None, (folder, *names)))))
            found.append((names, place, info.type == pa.fs.FileType.Directory))
        return sorted(found, key=lambda entry: entry[0])

    @contextlib.contextmanager
    def _reached(self) -> Iterator[tuple[Any, str]]:
        """Yield the file system and what it calls this place; what goes wrong becomes a LogError."""
        files, base = filesystem_of(self.address)
        path = f"{base.rstrip('/')}/{self.address.path}" if base else self.address.path
        try:
            yield files, path.rstrip("/") or "/"
        except _REQUEST_ERRORS as error:
            said = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise self.fault(error) or LogError(f"{self} cannot be read: {said}") from error

    def _is_other_than(self, stamp: Hashable) -> bool:
        try:
            return self.stamp() != stamp
        except LogError:
            return False  # what went wrong first is what is to be said

    def _changed(self) -> LogError:
        return LogError(f"{self} was written again while it was read; start again once nobody writes to it")


def locate(given: str | Path | StoredFile) -> StoredFile:
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
