"""Arrow's file system for an address, with time limits and few retries, so that nothing hangs for long."""

from __future__ import annotations

import functools
import os
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.fs

from aegis.errors import LogError, nearest
from aegis.logs.address import Address

CONNECT, REQUEST, ATTEMPTS = 3.0, 15.0, 3  # seconds, seconds without a byte, and how often a request is tried
GOOGLE = 20  # seconds in which a request to Google's store may be tried again

_TEXTS = ("region", "scheme", "endpoint_override", "tls_ca_file_path")
_FLAGS = ("anonymous", "force_virtual_addressing")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE")  # read by Arrow


def filesystem(address: Address) -> tuple[Any, str]:
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
            raise LogError(f"{root}: unknown option '{name}'{nearest(name, known)}; allowed: {', '.join(known)}")
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
