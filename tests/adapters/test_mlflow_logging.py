"""Certificates in MLflow: names, numbers and files, with a tracker that only writes down; and what a missing package says."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import one_level
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aegis.adapters import log_certificate
from aegis.certificate import Certificate, certify, load_certificate
from aegis.cli import main, options
from aegis.errors import InputError, LogError
from aegis.policies import Constant, Legacy
from aegis.problem import save_problem
from aegis.report import write_report


@dataclass
class Tracker:
    """Tracking functions as mlflow has them."""

    tags: dict[str, str] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    artifacts: dict[str, str] = field(default_factory=dict)

    def set_tags(self, tags: dict[str, str]) -> None:
        self.tags |= tags

    def log_params(self, params: dict[str, str]) -> None:
        self.params |= params

    def log_metrics(self, metrics: dict[str, float]) -> None:
        self.metrics |= metrics

    def log_artifact(self, local_path: str, artifact_path: str | None = None) -> None:
        self.artifacts[f"{artifact_path}/{Path(local_path).name}"] = Path(local_path).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    source = one_level.source_of(300)
    policy = Legacy(source.problem, {"drug": Constant("none")})
    return certify(source, policy, ledger=False)


def test_verdict_bounds_and_files(certificate: Certificate, tmp_path: Path) -> None:
    tracker = Tracker()
    write_report(certificate, tmp_path / "report.html")
    log_certificate(certificate, tmp_path / "report.html", tracker)
    level = certificate.level("drug")
    assert tracker.tags["aegis.verdict"] == "not yet" == level.verdict
    assert tracker.tags["aegis.sentence"] == certificate.verdict.sentence
    assert tracker.params["aegis.delta"] == "0.05" and tracker.params["aegis.scopes"] == "drug"
    assert tracker.metrics["aegis/drug/gain_lower"] == level.gain_lower
    assert tracker.metrics["aegis/drug/not_certified/estimate"] == level.estimate
    assert tracker.metrics["aegis/drug/units"] == level.units
    assert tracker.metrics["aegis.certified"] == 0.0
    assert set(tracker.artifacts) == {"aegis/certificate.json", "aegis/report.html"}
    (tmp_path / "again.json").write_text(tracker.artifacts["aegis/certificate.json"])
    assert load_certificate(tmp_path / "again.json") == certificate.to_json()


def test_of_what_was_refused_there_is_no_number(certificate: Certificate) -> None:
    refused = replace(certificate, levels=(replace(certificate.levels[0], verdict="refused"),))
    tracker = Tracker()
    log_certificate(refused, tracking=tracker)
    assert set(tracker.metrics) == {"aegis.certified", "aegis/drug/units", "aegis/drug/certified"}


def test_several_candidates_have_names_of_their_own(certificate: Certificate) -> None:
    one = certificate.levels[0]
    both = replace(certificate, levels=(replace(one, candidate="a:b,c"), replace(one, candidate="d")))
    tracker = Tracker()
    log_certificate(both.to_json(), tracking=tracker)
    assert {"aegis/a_b_c/drug/gain_lower", "aegis/d/drug/gain_lower"} <= set(tracker.metrics)


def test_what_is_no_certificate_is_not_logged(certificate: Certificate, tmp_path: Path) -> None:
    tracker = Tracker()
    changed = json.loads(json.dumps(certificate.to_json()))
    changed["levels"][0]["gain_lower"] = 0.9
    with pytest.raises(InputError, match="changed after it was issued"):
        log_certificate(changed, tracking=tracker)
    with pytest.raises(InputError, match="only certificates"):
        log_certificate({"verdict": "certified"}, tracking=tracker)
    with pytest.raises(LogError, match="no such report"):
        log_certificate(certificate, tmp_path / "absent.html", tracker)
    assert tracker == Tracker()


def test_without_mlflow_it_is_said_what_to_install(certificate: Certificate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(InputError, match=r"pip install 'aegis-handover\[mlflow\]'"):
        log_certificate(certificate)


def test_the_option_of_certify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    table = one_level.table_of(200)
    for name, chance in (("always", 1.0), ("never", 0.0), ("nor_this", 0.0)):
        table = table.append_column(name, pa.array(np.full(len(table), chance)))
    pq.write_table(table, tmp_path / "log.parquet")
    save_problem(one_level.problem_of(), tmp_path / "problem.yaml")
    log = [str(tmp_path / "log.parquet"), "--problem", str(tmp_path / "problem.yaml")]
    arguments = ["certify", *log, "--policy", "full-columns:always,never,nor_this", "--json", "--mlflow"]
    monkeypatch.setitem(options.EXTRAS, "mlflow", ("a_package_that_does_not_exist",))
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2 and "pip install 'aegis-handover[mlflow]'" in capsys.readouterr().err
    monkeypatch.setitem(options.EXTRAS, "mlflow", ())
    tracker: Any = Tracker()
    monkeypatch.setitem(sys.modules, "mlflow", tracker)
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 3 and tracker.tags["aegis.verdict"] == json.loads(capsys.readouterr().out)["verdict"]
