"""Files in object stores: addresses such as `s3://bucket/key`, Arrow's file systems with time limits, and plain error messages.

An address is taken apart so that user, password and options never appear in a message.
"""

from __future__ import annotations

import contextlib
import functools
import glob
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
from aegis.logs.columns import shorten
from aegis.logs.formats.base import LocalFile, RelativePath, StoredFile, first_line, is_requested, matches_pattern

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
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise LogError("found a text that is no address; one starts with a store, such as s3://bucket/key")
    scheme, rest = match[1].lower(), match[2]
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
    return Address(
        scheme=scheme,
        bucket=bucket,
        path=unquote(path) if scheme == "file" else unquote(path).strip("/"),
        user=user,
        options=tuple((name, unquote(value)) for name, _, value in options),
    )


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
    root = replace(address, path="")
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
        files, base = pa.fs.FileSystem.from_uri(f"{root.scheme}://{user}{root.bucket}/{'?' if query else ''}{query}")
    except (pa.ArrowException, OSError, ImportError) as error:
        # Not chained, and quoted only where it cannot hold the address: Arrow may repeat it with its secrets.
        scheme, reason = root.scheme, first_line(error)
        if "Unrecognized filesystem type" in reason:
            text = f"logs are read from local files, s3://, gs:// and file://, not from {scheme}://; copy the log to one of these"
        elif "query parameter" in reason or "URI" in reason:
            text = (
                f"user or options of this {scheme}:// address are not as Arrow takes them; special characters are written as %2F"
            )
        else:
            text = f"Arrow cannot reach stores of the kind {scheme}:// from here ({reason}); copy the log to where it can be read"
        raise LogError(f"{root}: {text}") from None
    return files, base


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
    text = first_line(error)
    for secret in {root.user, *root.user.split(":"), unquote(root.user), *(value for _, value in root.options)} - {""}:
        text = text.replace(secret, "***")
    return text


# Marks in the messages of stores, and what each kind means; the first that fits counts.
_STORE_MARKS = ("AWS Error", "google::cloud::Status", "Azure", "HDFS")
_MISSING_MARKS = (
    *("NO_SUCH_BUCKET", "NO_SUCH_KEY", "RESOURCE_NOT_FOUND", "NOT_FOUND", "HTTP status 404", "Path does not exist"),
    "Not a regular file",  # a bucket that is not there
)
_FAULTS = (
    (
        ("HTTP status 301", "PermanentRedirect", "located in", "AuthorizationHeaderMalformed"),
        "the bucket is in another region; set AWS_REGION, or add ?region=... to the address",
    ),
    (
        ("NETWORK_CONNECTION", "curlCode", "CURL error", "UNAVAILABLE", "REQUEST_TIMEOUT", "SLOW_DOWN", "INTERNAL_FAILURE"),
        "the store cannot be reached, or broke off ({reason}), though it was tried several times; check the network and the "
        "endpoint (AWS_ENDPOINT_URL, or ?endpoint_override=HOST:PORT), and try again",
    ),
    (
        (
            *("ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "INVALID_SIGNATURE", "UNAUTHENTICATED"),
            *("INVALID_CLIENT_TOKEN_ID", "UNRECOGNIZED_CLIENT", "MISSING_AUTHENTICATION_TOKEN", "EXPIRED_TOKEN", "ExpiredToken"),
            *("HTTP status 401", "HTTP status 403", "PERMISSION_DENIED", "OAuth2", "AuthenticationFailed"),
        ),
        "the store refuses access ({reason}); check the credentials (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or "
        "for gs:// GOOGLE_APPLICATION_CREDENTIALS) and that they may list and read it",
    ),
    (("",), "the store could not do what it was asked ({reason}); try again, or copy the log here"),
)


def store_error(address: Address, error: Exception) -> LogError | None:
    """Return the error that names the object and what to do; None if the store was reached and answered."""
    text = " ".join(str(error).split())
    if isinstance(error, FileNotFoundError) or any(mark in text for mark in _MISSING_MARKS):
        return LogError(f"{address} does not exist; check bucket and key, and that these keys may list the bucket")
    if not any(mark in text for mark in _STORE_MARKS):
        return None
    # The names of the request stand before the reason, its details behind it.
    reason = re.split(r"AWS Error |google::cloud::Status\(", text, maxsplit=1)[-1]
    reason = reason.partition(" (Request ID")[0].partition("error_info=")[0].strip()
    advice = next(advice for marks, advice in _FAULTS if any(mark in text for mark in marks))
    return LogError(f"{address}: {advice.format(reason=shorten(reason, 200))}")


_BUFFER = 8 << 20  # bytes asked for at a time where a file is read from its first byte to its last
# What a store says of the version of an object, under the names that stores have for it.
_VERSIONS = ("etag", "generation", "last-modified")
_REQUEST_ERRORS = (pa.ArrowException, OSError)


@dataclass(frozen=True, slots=True)
class RemoteFile(StoredFile):
    """An object of a store, or a folder or pattern of objects."""

    address: Address

    def __str__(self) -> str:
        return str(self.address)

    @property
    def name(self) -> str:
        """Return the name without its folders."""
        return self.address.path.rpartition("/")[2] or self.address.bucket

    def is_folder(self) -> bool:
        """Say whether objects are below it."""
        return self._kind() == pa.fs.FileType.Directory

    def is_pattern(self) -> bool:
        """Say whether it has wildcards and is no object."""
        return glob.has_magic(self.address.path) and self._kind() == pa.fs.FileType.NotFound

    def below(self) -> list[tuple[RelativePath, StoredFile]]:
        """Return all objects below a folder."""
        listed = self._listed(self.address.path, recursive=True)
        hidden = (".", "_")
        return [(names, item) for names, item, folder in listed if not folder and not any(n.startswith(hidden) for n in names)]

    def matches(self) -> list[StoredFile]:
        """Return the matches of a pattern."""
        path = tuple(self.address.path.split("/"))
        first = next(place for place, name in enumerate(path) if glob.has_magic(name))
        before, pattern = path[:first], path[first:]
        # One listing of everything below takes fewer requests than one for each folder.
        listed = self._listed("/".join(before), recursive=len(pattern) > 1 or pattern == ("**",))
        return [item for names, item, _ in listed if matches_pattern(names, pattern) and is_requested((*before, *names), path)]

    def identity(self) -> Hashable:
        """Return the address without user and options."""
        return str(self.address)

    def stamp(self) -> Hashable:
        """Return size and version as the store reports them."""
        with self._reached() as (files, path), files.open_input_file(path) as handle:
            metadata = {name.lower(): value for name, value in (handle.metadata() or {}).items()}
            versions = tuple(metadata[name] for name in _VERSIONS if name in metadata)
            return str(self.address), handle.size(), versions or (files.get_file_info(path).mtime_ns,)

    def open(self) -> BufferedIOBase:
        """Return the bytes."""
        with self._reached() as (files, path):
            return cast(BufferedIOBase, files.open_input_stream(path, compression=None, buffer_size=_BUFFER))

    def seekable(self) -> Any:
        """Return a handle."""
        with self._reached() as (files, path):
            return files.open_input_file(path)

    def unpacked(self) -> pa.NativeFile:
        """Return a stream."""
        with self._reached() as (files, path):
            return files.open_input_stream(path, compression="gzip" if self.packed else None, buffer_size=_BUFFER)

    @contextlib.contextmanager
    def watched(self, stamp: Hashable = None) -> Iterator[None]:
        """Watch the version of the object: each request gets the one of its moment."""
        changed = LogError(f"{self} was written again while it was read; start again once it is complete")
        before = self.stamp()
        if stamp is not None and before != stamp:
            raise changed
        try:
            yield
        except Exception as error:
            # Bytes of two versions look like a damaged file, to each reader in another way.
            after = before
            with contextlib.suppress(LogError):  # if the store cannot be reached, the first error is the one to report
                after = self.stamp()
            if after != before:
                raise changed from error
            raise
        if self.stamp() != before:
            raise changed

    def fault(self, error: Exception) -> LogError | None:
        """Return what went wrong in reaching the object."""
        return store_error(self.address, error)

    def _kind(self) -> Any:
        with self._reached() as (files, path):
            return files.get_file_info(path).type

    def _listed(self, folder: str, recursive: bool) -> list[tuple[RelativePath, RemoteFile, bool]]:
        """Return what is in a folder, by the names that lead there, sorted by them, and whether it is a folder itself."""
        with RemoteFile(replace(self.address, path=folder))._reached() as (files, base):
            infos = files.get_file_info(pa.fs.FileSelector(base, allow_not_found=True, recursive=recursive))
        entries = []
        for info in infos:
            names = tuple(info.path[len(base) :].strip("/").split("/"))
            place = RemoteFile(replace(self.address, path="/".join(filter(None, (folder, *names)))))
            entries.append((names, place, info.type == pa.fs.FileType.Directory))
        return sorted(entries, key=lambda entry: entry[0])

    @contextlib.contextmanager
    def _reached(self) -> Iterator[tuple[Any, str]]:
        """Yield the file system and what it calls this place; what goes wrong becomes a LogError."""
        files, base = filesystem_of(self.address)
        path = f"{base.rstrip('/')}/{self.address.path}" if base else self.address.path
        try:
            yield files, path.rstrip("/") or "/"
        except _REQUEST_ERRORS as error:
            raise self.fault(error) or LogError(f"{self} cannot be read: {first_line(error)}") from error


def locate_address(text: str) -> StoredFile:
    """Return where an address leads; LogError, with nothing secret in it, if it is none."""
    if not is_address(text):
        return LocalFile(Path(text), text)
    address = parse_address(text)
    if address.scheme != "file":
        return RemoteFile(address)
    if address.bucket not in ("", "localhost"):
        raise LogError(f"{address}: an address of a local file has three slashes, as in file:///data/log.parquet")
    return LocalFile(Path(f"/{address.path}"))
