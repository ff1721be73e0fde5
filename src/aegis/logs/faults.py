"""What goes wrong in reaching an object in a store, in words that say what to do."""

from __future__ import annotations

from aegis.errors import LogError
from aegis.logs.address import Address

_MISSING = (
    *("NO_SUCH_BUCKET", "NO_SUCH_KEY", "RESOURCE_NOT_FOUND", "NOT_FOUND", "HTTP status 404", "Path does not exist"),
    "Not a regular file",  # said of a bucket that is not there
)
_DENIED = (
    *("ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "INVALID_SIGNATURE", "INVALID_CLIENT_TOKEN_ID"),
    *("UNRECOGNIZED_CLIENT", "MISSING_AUTHENTICATION_TOKEN", "EXPIRED_TOKEN", "ExpiredToken", "HTTP status 401"),
    *("HTTP status 403", "PERMISSION_DENIED", "UNAUTHENTICATED", "OAuth2", "AuthenticationFailed"),
)
_ELSEWHERE = ("HTTP status 301", "PermanentRedirect", "located in", "AuthorizationHeaderMalformed")
_UNREACHED = ("NETWORK_CONNECTION", "curlCode", "CURL error", "UNAVAILABLE", "REQUEST_TIMEOUT", "SLOW_DOWN", "INTERNAL_FAILURE")
_STORES = ("AWS Error", "google::cloud::Status", "Azure", "HDFS")


def fault(address: Address, error: Exception) -> LogError | None:
    """Return the error that names the object and what to do; None if the store was reached and did what it was asked."""
    said = " ".join(str(error).split())
    if isinstance(error, FileNotFoundError) or _has(said, _MISSING):
        return LogError(f"{address} does not exist; check bucket and key, and that these keys may list the bucket")
    if not _has(said, _STORES):
        return None
    if _has(said, _ELSEWHERE):
        return LogError(f"{address}: the bucket is in another region; set AWS_REGION, or add ?region=... to the address")
    if _has(said, _UNREACHED):
        return LogError(
            f"{address}: the store cannot be reached, or broke off ({_short(said)}), though it was tried several times; check "
            "the network and the endpoint (AWS_ENDPOINT_URL, or ?endpoint_override=HOST:PORT), and try again"
        )
    if _has(said, _DENIED):
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
