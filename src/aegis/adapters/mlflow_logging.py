"""A certificate in an MLflow run: verdict as tags, request as parameters, bounds as metrics, files as artifacts."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aegis.errors import InputError, LogError
from aegis.files import json_digest, write_text

FILE = "certificate.json"
BOUNDS = ("gain_lower", "value_lower")
ESTIMATES = ("estimate", "value_estimate", "legacy_value", "incumbent_value", "exploration")
MOST = 500  # characters of a parameter


def log_certificate(certificate: Any, report: str | Path | None = None, tracking: Any = None, folder: str = "aegis") -> None:
    """Log a certificate, or one that was loaded, into the active MLflow run, which is started if there is none.

    Tags: verdict, sentence, seal. Parameters: candidate, scope, delta, method, digest of the data. Metrics by scope: certified
    lower bounds (`gain_lower`), units, and under `not_certified` the estimates beside them; of what was refused there is no
    number. Artifacts in `folder`: certificate.json and, if its path is given, the report. tracking: a module with mlflow's
    functions.
    """
    content = dict(certificate) if isinstance(certificate, Mapping) else certificate.to_json()
    if content.get("kind") != "aegis-certificate":
        raise InputError("only certificates are logged: give what certify returned, or load_certificate read")
    if json_digest({key: value for key, value in content.items() if key != "seal"}) != content.get("seal"):
        raise InputError("the certificate was changed after it was issued; log it as it was")
    if report is not None and not Path(report).is_file():
        raise LogError(f"{report}: there is no such report; write it with write_report, or leave it out")
    target = tracking if tracking is not None else _mlflow()
    target.set_tags(_tags(content))
    target.log_params(_params(content))
    target.log_metrics(_metrics(content))
    with tempfile.TemporaryDirectory(prefix="aegis-mlflow-") as place:
        path = Path(place) / FILE
        write_text(path, json.dumps(content, indent=1) + "\n")
        target.log_artifact(str(path), folder)
    if report is not None:
        target.log_artifact(str(report), folder)


def _mlflow() -> Any:
    try:
        import mlflow
    except ImportError as error:
        raise InputError("logging into MLflow needs mlflow: pip install 'aegis-handover[mlflow]'") from error
    return mlflow


def _tags(content: Mapping[str, Any]) -> dict[str, str]:
    summary = content["summary"]
    return {
        "aegis.verdict": str(content["verdict"]),
        "aegis.sentence": str(summary["sentence"]),
        "aegis.next_step": str(summary["next_step"]),
        "aegis.seal": str(content["seal"]),
        "aegis.version": str(content["versions"].get("aegis", "")),
    }


def _params(content: Mapping[str, Any]) -> dict[str, str]:
    settings = content["settings"]
    params = {
        "aegis.candidates": ", ".join(str(candidate["name"]) for candidate in content["candidates"]),
        "aegis.scopes": "; ".join(" + ".join(scope) for scope in settings["scopes"]),
        "aegis.delta": str(settings["delta"]),
        "aegis.method": str(settings["method"]),
        "aegis.data": str(content["digests"].get("data", "")),
        "aegis.problem": str(content["digests"].get("problem", "")),
    }
    return {key: value if len(value) <= MOST else value[: MOST - 3] + "..." for key, value in params.items()}


def _metrics(content: Mapping[str, Any]) -> dict[str, float]:
    """Return numbers by name; bounds and estimates have different names, and null is left out."""
    several = len({level["candidate"] for level in content["levels"]}) > 1
    metrics: dict[str, float] = {"aegis.certified": float(content["verdict"] == "certified")}
    for level in content["levels"]:
        words = [*([level["candidate"]] if several else []), "+".join(level["scope"])]
        place = "/".join(re.sub(r"[^\w\-. ]", "_", str(word)) for word in words)
        refused = level["verdict"] == "refused"
        for name in () if refused else BOUNDS:
            if level[name] is not None:
                metrics[f"aegis/{place}/{name}"] = float(level[name])
        for name in () if refused else ESTIMATES:
            if level[name] is not None:
                metrics[f"aegis/{place}/not_certified/{name}"] = float(level[name])
        metrics[f"aegis/{place}/units"] = float(level["units"])
        metrics[f"aegis/{place}/certified"] = float(level["verdict"] == "certified")
    return metrics
