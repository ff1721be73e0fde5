"""Commands on logs in an object store: what they print and write is what they print and write of local files, without secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
import pytest
from stores import KEY, SECRET, Store

from aegis.cli import main
from aegis.cli.options import LogPath

pytestmark = pytest.mark.ci

SMALL = ("--episodes", 120, "--set", "inner_steps=4", "--seed", 3)
FREE = ("created", "looks", "seal")  # what differs from one look to the next, and the digest of it all


def run(*arguments: object, capfd: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    said = capfd.readouterr()
    return int(stop.value.code or 0), said.out, said.err


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated log with its problem, and a policy learned from it."""
    folder = tmp_path_factory.mktemp("commands")
    learn = [
        "learn",
        folder / "log.parquet",
        "--problem",
        folder / "problem.yaml",
        "--kind",
        "capped",
        "--out",
        folder / "policy",
    ]
    for call in (["simulate", *SMALL, "--out", folder], learn):
        with pytest.raises(SystemExit) as stop:
            main([str(word) for word in call])
        assert not stop.value.code
    return folder


@pytest.fixture
def log(store: Store, place: Path) -> str:
    return store.put("plant/logs/log.parquet", (place / "log.parquet").read_bytes())


def certificate(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.mark.ci
def test_a_certificate_from_the_store_is_that_of_the_file(
    log: str, place: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rest = ["--problem", place / "problem.yaml", "--policy", place / "policy"]
    out = {}
    for name, where in (("here", place / "log.parquet"), ("there", log)):
        made = tmp_path / f"{name}.json"
        code, _, err = run("certify", where, *rest, "--out", made, "--ledger", tmp_path / name, capfd=capfd)
        assert code in (0, 3), err
        out[name] = certificate(made)
    here, there = out["here"], out["there"]
    assert here["levels"] == there["levels"] and here["summary"] == there["summary"]
    assert {key: value for key, value in here.items() if key not in FREE} == {
        key: value for key, value in there.items() if key not in FREE
    }
    # Either is verified by the other.
    for name, where in (("here", log), ("there", place / "log.parquet"), ("there", log)):
        code, said, err = run("verify", tmp_path / f"{name}.json", where, capfd=capfd)
        assert code == 0 and "bit for bit" in said, err + said


def test_verify_notices_an_object_that_is_another(log: str, store: Store, place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rest = ["--problem", place / "problem.yaml", "--policy", place / "policy"]
    run("certify", log, *rest, "--out", place / "kept.json", capfd=capfd)
    run("simulate", *SMALL[:-1], 4, "--out", place / "another", capfd=capfd)
    store.put("plant/logs/log.parquet", (place / "another" / "log.parquet").read_bytes())
    code, said, _ = run("verify", place / "kept.json", log, capfd=capfd)
    assert code == 4 and "the log: log.parquet" in said


def test_a_policy_learned_from_the_store_is_that_of_the_file(
    log: str, place: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(
        "learn", log, "--problem", place / "problem.yaml", "--kind", "capped", "--out", tmp_path / "policy", capfd=capfd
    )
    assert code == 0, err
    names = sorted(path.relative_to(place / "policy") for path in (place / "policy").rglob("*") if path.is_file())
    assert names and names == sorted(path.relative_to(tmp_path / "policy") for path in (tmp_path / "policy").rglob("*.*"))
    for name in names:
        assert (place / "policy" / name).read_bytes() == (tmp_path / "policy" / name).read_bytes(), name


@pytest.mark.parametrize(
    ("words", "codes"),
    [
        (["audit", "LOG", "--problem", "PROBLEM", "--policy", "POLICY"], (0, 4)),
        (["explain", "POLICY", "LOG", "--problem", "PROBLEM"], (0,)),
        (["init", "LOG"], (0,)),
    ],
    ids=lambda value: value[0] if isinstance(value[0], str) else "",
)
def test_commands_say_of_the_store_what_they_say_of_the_file(
    words: list[str], codes: tuple[int, ...], log: str, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said = []
    others = (log.replace("log.parquet", "*.parquet"), "s3://plant/logs/") if words[0] == "audit" else ()
    for where in (str(place / "log.parquet"), log, *others):
        given = {"LOG": where, "PROBLEM": place / "problem.yaml", "POLICY": place / "policy"}
        code, out, err = run(*[given.get(word, word) for word in words], *(["--json"] if words[0] != "init" else []), capfd=capfd)
        assert code in codes, err
        said.append((code, out))
    assert said[0][1] and all(one == said[0] for one in said)


@pytest.mark.ci
def test_secrets_are_in_nothing_that_is_printed_or_written(
    log: str, store: Store, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.chdir(tmp_path)

    def there(name: str) -> str:
        return f"s3://{KEY}:{SECRET}@plant/logs/{name}?endpoint_override={store.endpoint}&scheme=http"

    problem, whole = ["--problem", place / "problem.yaml"], there("log.parquet")
    certify = ["--policy", "policy", "--out", "c.json", "--report", "c.html", "--ledger", "ledger"]
    calls: list[tuple[tuple[int, ...], list[object]]] = [
        ((0,), ["init", whole, "--out", "draft.yaml"]),
        ((0,), ["learn", whole, *problem, "--kind", "capped", "--out", "policy"]),
        ((0, 3), ["certify", whole, *problem, *certify]),
        ((0, 3), ["certify", whole, *problem, "--policy", "policy", "--ledger", "ledger", "--json"]),
        ((0,), ["verify", "c.json", whole]),
        ((0, 4), ["audit", whole, *problem]),
        ((0,), ["explain", "policy", whole, *problem, "--lookup", "table.csv"]),
        ((2,), ["audit", there("none.parquet"), *problem]),
        ((2,), ["audit", there("none-*.parquet"), *problem]),
        ((2,), ["audit", there("log.parquet") + "&nonsense=1", *problem]),
        ((2,), ["audit", there("log.parquet").replace("scheme=http", "scheme=hxxp"), *problem]),
        ((2,), ["audit", there("log.parquet").replace("s3://", "s3:/"), *problem]),
        ((2,), ["audit", whole, whole, *problem]),
        ((2,), ["audit", f"gs://{KEY}:{quote(SECRET, safe='')}@plant/x.csv?nonsense=1", *problem]),
        ((2,), ["learn", whole, "--problem", "none.yaml", "--out", "policy"]),
    ]
    printed = ""
    for codes, call in calls:
        code, out, err = run(*call, capfd=capfd)
        assert code in codes, (call[0], code, err)
        printed += out + err
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for secret in (KEY, SECRET, quote(SECRET, safe=""), store.endpoint):
        assert secret not in printed
        assert secret.encode() not in written
    assert b"log.parquet" in written and "s3://plant/logs/none.parquet does not exist" in printed


@pytest.mark.parametrize("given", ["s3://b/k", "gs://b//k?x=1", "file:///a"])
def test_the_command_line_leaves_addresses_as_they_are(given: str) -> None:
    assert LogPath().convert(given, None, None) == given
    assert LogPath().convert("logs//a.csv", None, None) == Path("logs/a.csv")


def test_shells_complete_paths_of_logs() -> None:
    argument = click.Argument(["log"], type=LogPath())
    found = LogPath().shell_complete(click.Context(click.Command("audit")), argument, "lo")
    assert [(item.value, item.type) for item in found] == [("lo", "file")]
