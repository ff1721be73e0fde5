"""The certificate as a document: plain JSON, sealed, valid against its schema whatever the verdict, read back as it was."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pyarrow as pa
import pytest
from small_logs import better_policy, make_table, problem_of, replaced, source_of, worse_policy

from aegis.certificate import Candidate, Certificate, certificate_schema, certify, load_certificate
from aegis.errors import InputError
from aegis.files import json_digest
from aegis.policies import Capped, Logged, TargetColumns
from aegis.problem import Batch

GUARD = "guards: [{column: scrap, range: [0, 1], max_worsening: 0.05}]"


class Constant:
    """A model by which all actions are equal."""

    def predict(self, level: str, batch: Batch) -> np.ndarray:
        return np.zeros((len(batch.levels[level]), 3 if level == "dose" else 2))


def made(case: str) -> Certificate:
    table, problem = make_table(100), problem_of(head=GUARD)
    if case == "certified":
        return certify(source_of(table, problem), better_policy(problem), by=("task",))
    if case == "not yet":
        return certify(source_of(table, problem), worse_policy(problem), method="robust")
    if case == "two candidates":
        pair = [Candidate(better_policy(problem), "one"), Candidate(worse_policy(problem), "two")]
        return certify(source_of(table, problem), pair)
    if case == "columns":
        taken = problem_of(full=False)
        return certify(source_of(table, taken), TargetColumns(taken, {"dose": "new_dose"}), scopes=[["dose"]])
    if case == "refused by the range":
        return certify(source_of(replaced(table, "margin", np.full(table.num_rows, 2.0)), problem), better_policy(problem))
    if case == "refused by the audit":
        shifted = replaced(table, "p_dose", np.minimum(table["p_dose"].to_numpy() * 0.6, 1.0))
        taken = problem_of(full=False)
        return certify(source_of(shifted, taken), better_policy(taken), scopes=[["dose"]])
    if case == "no range":
        loose = replace(problem_of(), reward=replace(problem_of().reward, range=None))
        return certify(source_of(table, loose), better_policy(loose))
    if case == "nothing to test":
        same = Capped(problem, Constant(), Logged(problem), 2.0, ["recipe"])
        return certify(source_of(table, problem), same, scopes=[["dose"]])
    if case == "clusters, missing, minimise":
        clustered = problem_of(head="cluster: line", reward=", goal: minimise")
        rewards = table["margin"].to_numpy().copy()
        rewards[::9] = np.nan
        return certify(
            source_of(replaced(table, "margin", pa.array(rewards, from_pandas=True)), clustered), worse_policy(clustered)
        )
    raise KeyError(case)


VERDICTS = {
    "certified": "certified",
    "not yet": "not yet",
    "two candidates": "certified",
    "columns": "certified",
    "refused by the range": "refused",
    "refused by the audit": "refused",
    "no range": "refused",
    "nothing to test": "refused",
    "clusters, missing, minimise": None,
}


@pytest.fixture(scope="module", params=list(VERDICTS))
def document(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Certificate, dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:  # the cases share a log, and are no requests of one family
        patch.setenv("AEGIS_LEDGER", str(tmp_path_factory.mktemp("ledger")))
        certificate = made(request.param)
    return request.param, certificate, certificate.to_json()


def test_every_verdict_validates(document: tuple[str, Certificate, dict[str, Any]]) -> None:
    case, certificate, content = document
    if VERDICTS[case] is not None:
        assert certificate.verdict.verdict == VERDICTS[case], certificate.verdict.sentence
    jsonschema.Draft202012Validator(certificate_schema()).validate(json.loads(json.dumps(content, allow_nan=False)))


def test_the_schema_is_not_empty() -> None:
    content, schema = made("columns").to_json(), certificate_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid(content)
    for change in (
        {"verdict": "maybe"},
        {"format": 2},
        {"kind": "receipt"},
        {"levels": [{}]},
        {"more": 1},
        {"summary": {**content["summary"], "units": "many"}},
        {"levels": [{**level, "gain_lower": "much"} for level in content["levels"]]},
    ):
        assert not validator.is_valid({**content, **change}), change
    for name in content:
        assert not validator.is_valid({key: value for key, value in content.items() if key != name}), name


def test_it_reads_back_as_it_was_written(document: tuple[str, Certificate, dict[str, Any]], tmp_path: Path) -> None:
    _, certificate, content = document
    certificate.save(tmp_path / "certificate.json")
    assert load_certificate(tmp_path / "certificate.json") == content
    assert all(math.isfinite(number) for number in numbers(content))


def test_fields_that_other_tools_rely_on(document: tuple[str, Certificate, dict[str, Any]]) -> None:
    _, certificate, content = document
    assert content["verdict"] in ("certified", "not yet", "refused")
    assert content["summary"]["sentence"] == certificate.verdict.sentence
    for level in content["levels"]:
        expected = {"scope", "gain_lower", "value_lower", "legacy_value", "estimate", "units", "delta", "verdict"}
        assert expected <= set(level)
        assert isinstance(level["scope"], list) and all(isinstance(name, str) for name in level["scope"])
        if level["verdict"] == "refused":
            assert level["gain_lower"] is None and level["value_lower"] is None and level["estimate"] is None
            assert level["reason"]
    assert {"certified": 0, "not yet": 3, "refused": 4}[content["verdict"]] == certificate.exit_code


def test_the_verdict_is_that_of_a_result(document: tuple[str, Certificate, dict[str, Any]]) -> None:
    """The summary never says more than the results: its numbers are those of the scope it names."""
    _, _, content = document
    summary = content["summary"]
    named = [
        level for level in content["levels"] if level["candidate"] == summary["candidate"] and level["scope"] == summary["scope"]
    ]
    assert len(named) == 1
    assert named[0]["verdict"] == content["verdict"]
    assert (named[0]["gain_lower"], named[0]["units"]) == (summary["gain_lower"], summary["units"])
    if content["verdict"] == "certified":
        assert summary["gain_lower"] >= named[0]["margin"]
        assert all(guard["verdict"] == "certified" for guard in named[0]["guards"])
        assert all(test["certified"] for test in named[0]["tests"] if test["what"] in ("gain", "guard"))
    else:
        assert not any(level["verdict"] == "certified" for level in content["levels"])


def test_bounds_and_tests_never_disagree(document: tuple[str, Certificate, dict[str, Any]]) -> None:
    _, _, content = document
    for level in content["levels"]:
        for test in level["tests"]:
            if test["what"] == "value" or test["lower_scaled"] is None:
                continue
            assert test["certified"] == (test["lower_scaled"] >= test["margin_scaled"]), (level["scope"], test["what"])
            if test["certified"]:
                assert test["units_needed"] is None


def numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [number for item in value.values() for number in numbers(item)]
    if isinstance(value, list):
        return [number for item in value for number in numbers(item)]
    return [value] if isinstance(value, float) else []


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stored") / "certificate.json"
    made("certified").save(path)
    return path


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c["levels"][0].__setitem__("gain_lower", 99.0),
        lambda c: c["summary"].__setitem__("sentence", "Certified: everything."),
        lambda c: c.__setitem__("verdict", "refused"),
        lambda c: c["settings"].__setitem__("delta", 1e-9),
        lambda c: c["levels"][0]["tests"][0]["sums"][0].__setitem__(0, "1"),
        lambda c: c["problem"]["reward"].__setitem__("range", [0, 100]),
        lambda c: c["findings"].append({}),
        lambda c: c["looks"].clear(),
        lambda c: c.__setitem__("seal", "0" * 64),
        lambda c: c.pop("seal"),
    ],
)
def test_a_changed_document_is_noticed(stored: Path, tmp_path: Path, change: Any) -> None:
    content = json.loads(stored.read_text())
    change(content)
    (tmp_path / "changed.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="changed after it was written"):
        load_certificate(tmp_path / "changed.json")


def test_layout_does_not_matter_to_the_seal(stored: Path, tmp_path: Path) -> None:
    content = json.loads(stored.read_text())
    (tmp_path / "compact.json").write_text(json.dumps(dict(reversed(content.items())), separators=(",", ":")))
    assert load_certificate(tmp_path / "compact.json") == content
    assert content["seal"] == json_digest({key: value for key, value in content.items() if key != "seal"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a certificate"),
        ("{", "is not a certificate"),
        ("[1]", "is not a certificate of AEGIS"),
        ('{"kind": "other"}', "is not a certificate of AEGIS"),
        ('{"kind": "aegis-certificate", "format": 99}', "has the format 99"),
    ],
)
def test_what_is_no_certificate(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "file.json").write_text(text)
    with pytest.raises(InputError, match=message):
        load_certificate(tmp_path / "file.json")


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        load_certificate(tmp_path / "nothing.json")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is not a certificate"):
        load_certificate(tmp_path / "bytes.json")


def test_results_by_scope(stored: Path) -> None:
    certificate = made("columns")
    assert certificate.level("dose").scope == ("dose",)
    with pytest.raises(InputError, match="does not cover the scope recipe; it covers: dose"):
        certificate.level("recipe")
