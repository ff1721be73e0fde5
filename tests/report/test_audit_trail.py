"""The audit trail: assumptions, findings, looks, and everything an auditor needs."""

from __future__ import annotations

import dataclasses
import json

from page_reader import section
from report_cases import certified
from section_parts import page_of

from aegis.report import render_certificate


def test_assumptions_findings_and_looks_are_shown() -> None:
    page = page_of(certified())
    rests = section(page, "What the certificate rests on")
    for item in certified().assumptions:
        assert item.statement in rests.text and item.checked in rests.text
    found = section(page, "What was found in the log").all("article")
    assert [item.one("h3").text for item in found] == [
        "Warning poor-overlap at level \u2018recipe\u2019",
        "Note range-too-wide at column \u2018margin\u2019",
    ]
    assert "What to do: learn a candidate closer" in found[0].text and "share: 0.41; where: task 3" in found[0].text
    assert "1 other question was put to the same data before" in page.text
    assert "of all statements of the 2 requests registered on these data is at most" in page.text
    risk = {"asked": 0.1, "requests": 2, "sum": 0.1, "looks": True, "fixed_before": "minutes of 3 May <b>"}
    declared = dataclasses.replace(certified(), settings={**certified().settings, "risk": risk})
    caution = page_of(declared).all(".caution")
    assert [item.text for item in caution if item.text.startswith("Take care: 1 other question was put to the same data")]
    assert sum("minutes of 3 May <b>" in item.text for item in caution) == 2
    same = dataclasses.replace(certified(), looks={"number": 1, "earlier": [{"when": "today", "same": True}], "ledger": "x"})
    assert "Take care" not in render_certificate(same.to_json())


def test_the_auditor_finds_everything() -> None:
    certificate = certified()
    content = certificate.to_json()
    part = section(page_of(certificate), "For the auditor")
    text = part.text
    assert "aegis verify CERT LOG" in text
    for word in (
        content["seal"],
        "c0ffee" * 8,
        "files.log.parquet",
        "2.4.6",
        "first try",
        "looks/ab12.json",
        "water-filled",
        "0.00625",
    ):
        assert word in text
    assert json.loads(part.one("pre").text) == content["problem"]
    assert len(part.all("table")[1].one("tbody").all("tr")) == sum(len(item.tests) for item in certificate.levels)
    assert str(1.23456 / 40) in text
