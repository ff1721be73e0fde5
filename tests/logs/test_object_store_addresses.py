"""Addresses: what they are taken apart into, what is never shown of them, and wildcards that mean what they mean in files."""

from __future__ import annotations

import pickle
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_samples import PROBLEMS

from aegis.errors import LogError
from aegis.logs import Source
from aegis.logs.formats.base import LocalFile, locate
from aegis.logs.object_store import Address, filesystem_of, is_address, parse_address

FLAT = PROBLEMS["flat"]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("s3://b/k", Address("s3", "b", "k")),
        ("S3://b", Address("s3", "b", "")),
        ("s3://b/logs/", Address("s3", "b", "logs")),
        ("s3://b/a b/ä%20%25.csv", Address("s3", "b", "a b/ä %.csv")),
        ("s3://b/user@host.csv", Address("s3", "b", "user@host.csv")),
        ("s3://b/day-?.csv", Address("s3", "b", "day-?.csv")),
        ("s3://b/day-?.csv?region=x&scheme=http", Address("s3", "b", "day-?.csv", "", (("region", "x"), ("scheme", "http")))),
        ("s3://k:s@b/a@b", Address("s3", "b", "a@b", "k:s")),
        ("s3://k:s/e/c@b/a", Address("s3", "b", "a", "k:s/e/c")),
        ("gs://anonymous@b/k?retry_limit_seconds=3", Address("gs", "b", "k", "anonymous", (("retry_limit_seconds", "3"),))),
        ("hdfs://host:9000/a", Address("hdfs", "host:9000", "a")),
    ],
)
def test_addresses_are_taken_apart(text: str, address: Address) -> None:
    assert is_address(text)
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["log.csv", "/data/s3/log.csv", "C://data/log.csv", "a:b", "logs/*.csv", "columns:a,b"])
def test_paths_are_no_addresses(text: str) -> None:
    assert not is_address(text)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).map(lambda text: text.strip("/")))
@settings(max_examples=50, deadline=None)
def test_what_is_shown_leads_to_the_same_object(path: str) -> None:
    address = Address("s3", "bucket", path)
    assert parse_address(str(address)) == address


@given(st.text("abcXYZ019/+=", min_size=8), st.booleans())
@settings(max_examples=50, deadline=None)
def test_secrets_are_in_nothing_that_is_shown(secret: str, quoted: bool) -> None:
    secret = f"q{secret}"  # no part of the rest of the address
    place = locate(f"s3://me:{quote(secret, safe='') if quoted else secret}@bucket/k?region=zz9")
    for shown in (str(place), repr(place), f"{place}", repr(Source(place, FLAT)), str(place.identity()), place.name):
        assert secret not in shown and quote(secret, safe="") not in shown and "zz9" not in shown and "me:" not in shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("s3:/me:hidden@b/k", "starts with 's3://'"),
        ("s3://me:hidden/k", "the bucket is missing"),
        ("s3://me:hidden@/k", "the bucket is missing"),
        ("s3://me:hidden@b*/k", "not named in full"),
        ("s3://hidden@b/k", "key:secret; found one of them"),
        ("s3://me:hidden@b/k?regon=hidden", r"unknown option 'regon' \(did you mean 'region'\?\)"),
        ("s3://me:hidden@b/k?scheme=hidden", "user or options of the address do not fit"),
        ("https://me:hidden@host/log.csv?sig=hidden", "not from https://; copy the log"),
        ("gs://me:hidden@b/k?nonsense=hidden", "user or options of this gs:// address"),
        ("file://hidden@host/k", "has three slashes"),
    ],
)
def test_what_is_wrong_with_an_address_is_said_without_its_secrets(text: str, said: str, environment: pytest.MonkeyPatch) -> None:
    environment.setenv("AWS_REGION", "eu-west-1")  # so that nobody is asked for it
    with pytest.raises(LogError, match=said) as caught:
        Source(text, FLAT).read()
    assert "hidden" not in str(caught.value)
    # What Arrow said, with the address in it, is not printed above the error either.
    assert caught.value.__cause__ is None and (caught.value.__suppress_context__ or caught.value.__context__ is None)


def test_a_path_that_swallowed_a_slash_is_recognised() -> None:
    with pytest.raises(LogError, match="give it as text, because a Path makes one slash of two"):
        Source(Path("s3://bucket/log.csv"), FLAT)


def test_file_addresses_are_paths(tmp_path: Path) -> None:
    assert locate(f"file://{tmp_path}/a%20b.csv") == LocalFile(tmp_path / "a b.csv")
    assert locate(f"file://localhost{tmp_path}/x") == LocalFile(tmp_path / "x")
    (tmp_path / "a b.csv").write_text("visit,age,dose,p,score\n1,2,3,0.5,1\n")
    assert len(Source(f"file://{tmp_path}/a%20b.csv", FLAT).read()) == 1
    assert [part.name for part in Source(f"file://{tmp_path}/*.csv", FLAT).files] == ["a b.csv"]


def test_google_addresses_lead_to_googles_file_system() -> None:
    files, base = filesystem_of(parse_address("gs://anonymous@bucket/logs/x.csv"))
    assert files.type_name == "gcs" and base.rstrip("/") == "bucket"
    assert str(locate("gs://anonymous@bucket/logs/x.csv")) == "gs://bucket/logs/x.csv"


def test_places_can_be_sent_to_other_processes() -> None:
    place = locate("s3://me:secret@bucket/k?region=x")
    assert pickle.loads(pickle.dumps(place)) == place
