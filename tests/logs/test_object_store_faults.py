"""Stores that cannot be reached, refuse, are silent, or break off: a LogError that names the object, soon, without secrets."""

from __future__ import annotations

import re
from http.server import BaseHTTPRequestHandler

import pyarrow.fs
import pytest
from log_samples import PROBLEMS
from stores import KEY, SECRET, answering, nobody, silent

from aegis.errors import LogError
from aegis.logs import Source, log_digest, object_store
from aegis.logs.object_store import parse_address, store_error

pytestmark = pytest.mark.ci

FLAT = PROBLEMS["flat"]
DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


def address(endpoint: str, name: str = "log.csv") -> str:
    return f"s3://{KEY}:{SECRET}@bucket/{name}?endpoint_override={endpoint}&scheme=http&region=us-east-1"


def refused(given: str, said: str) -> None:
    """Check that a log cannot be read, nor its digest taken, and that the reason is said and nothing secret."""
    for act in (lambda: Source(given, FLAT).read(), lambda: log_digest(given)):
        with pytest.raises(LogError) as caught:
            act()
        message = str(caught.value)
        assert re.search(said, message), message
        assert message.startswith("s3://bucket/log.") and KEY not in message and SECRET not in message


@pytest.mark.ci
def test_a_store_where_nobody_listens(environment: pytest.MonkeyPatch) -> None:
    with nobody() as endpoint:
        refused(address(endpoint), "the store cannot be reached, .*check the network and the endpoint .*and try again")


def test_a_store_that_never_answers_is_given_up(environment: pytest.MonkeyPatch) -> None:
    environment.setattr(object_store, "REQUEST", 1.0)
    environment.setattr(object_store, "ATTEMPTS", 1)
    with silent() as endpoint:
        refused(address(endpoint), "the store cannot be reached, .*[Tt]imeout")


def deny(request: BaseHTTPRequestHandler) -> None:
    request.send_response(403)
    request.send_header("Content-Type", "application/xml")
    request.send_header("Content-Length", str(len(DENIED)))
    request.end_headers()
    if request.command == "GET":
        request.wfile.write(DENIED)


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
def test_a_store_that_refuses(name: str, environment: pytest.MonkeyPatch) -> None:
    with answering(deny) as endpoint:
        refused(address(endpoint, name), "the store refuses access .*check the credentials")
        with pytest.raises(LogError, match="the store refuses access"):
            Source(address(endpoint, "log*"), FLAT).read()


def break_off(request: BaseHTTPRequestHandler) -> None:
    """Promise a thousand bytes, send ten, and hang up."""
    request.send_response(200)
    request.send_header("Content-Length", "1000")
    request.send_header("ETag", '"x"')
    request.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
    request.end_headers()
    if request.command == "GET":
        request.wfile.write(b"visit,age,")
    request.close_connection = True


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
def test_a_store_that_breaks_off(name: str, environment: pytest.MonkeyPatch) -> None:
    environment.setattr(object_store, "ATTEMPTS", 1)
    with answering(break_off) as endpoint:
        refused(address(endpoint, name), "broke off|cannot be read")


def test_limits_are_short_and_kept(environment: pytest.MonkeyPatch) -> None:
    made = {}
    environment.setattr(pyarrow.fs, "S3FileSystem", lambda **options: made.update(options))
    object_store.filesystem_of(parse_address(address("127.0.0.1:1", "limits.csv").replace("us-east-1", "limits-1")))
    assert (made["connect_timeout"], made["request_timeout"]) == (object_store.CONNECT, object_store.REQUEST)
    assert made["retry_strategy"].max_attempts == object_store.ATTEMPTS
    assert object_store.ATTEMPTS * max(object_store.CONNECT, object_store.REQUEST) <= 60 and object_store.GOOGLE <= 60


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("AWS Error NO_SUCH_BUCKET during ListObjectsV2 operation: x", "does not exist"),
        ("AWS Error UNKNOWN (HTTP status 301) during HeadObject operation: No response body.", "in another region"),
        ("AWS Error EXPIRED_TOKEN during GetObject operation: x (Request ID: 7)", r"refuses access \(EXPIRED_TOKEN during"),
        ("AWS Error SLOW_DOWN during GetObject operation: x", "cannot be reached, or broke off"),
        ("AWS Error UNKNOWN (HTTP status 418) during GetObject operation: x", r"could not do what it was asked \(UNKNOWN"),
        ("google::cloud::Status(UNAVAILABLE: Retry policy exhausted: CURL error [6] error_info={x})", "cannot be reached"),
        ("google::cloud::Status(UNAUTHENTICATED: x error_info={x})", "GOOGLE_APPLICATION_CREDENTIALS"),
    ],
)
def test_what_stores_say_is_put_into_words(said: str, words: str) -> None:
    found = store_error(parse_address("gs://me:secret@bucket/k"), OSError(said))
    assert found is not None and re.search(words, str(found)) and str(found).startswith("gs://bucket/k")
    assert "Request ID" not in str(found) and "error_info" not in str(found)


def test_what_is_wrong_with_the_content_is_no_fault_of_the_store() -> None:
    assert store_error(parse_address("s3://b/k"), OSError("Corrupt snappy compressed data.")) is None
