"""The second half of the demo: from a log alone to a verdict, with the commands that do it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from aegis.certificate import Candidate, Certificate, certify
from aegis.cli.certify import show
from aegis.cli.learn import save_learned
from aegis.cli.legacy_log import LOG, PROBLEM, write_legacy_log

LEGACY, EPISODES, CAP = "natural:epsilon=0.3", 400, 2.0
DRAFT, POLICY, LEDGER, CERTIFICATE, REPORT = "draft.yaml", "policy", "ledger", "certificate.json", "report.html"


@dataclass(frozen=True, slots=True)
class Story:
    """What the second half made: the audit's word, the certificate, and where everything is."""

    audit: str
    certificate: Certificate
    folder: Path

    def plain(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "audit": self.audit,
            "verdict": self.certificate.verdict.verdict,
            "sentence": self.certificate.verdict.sentence,
            "certificate": str(self.folder / CERTIFICATE),
            "report": str(self.folder / REPORT),
        }


def certify_from_log(folder: Path, seed: int, screen: Console | None) -> Story:
    """Simulate the log of an exploring legacy and go on from there: init, audit, learn, certify. screen: where to tell of it."""
    from aegis.agents import CandidateSettings, learn
    from aegis.audit import audit_log
    from aegis.logs import Source, Split, draft_problem
    from aegis.policies import with_incumbent
    from aegis.problem import load_problem
    from aegis.report import write_report
    from aegis.worlds import make_world

    world = make_world("plant")
    if folder.exists():
        shutil.rmtree(folder)  # made by an earlier demo, and made again now
    about = {"world": "plant", "legacy": LEGACY}
    legacy = world.legacy(LEGACY)
    stated = with_incumbent(world.problem, legacy)
    write_legacy_log(folder, world, legacy, EPISODES, seed, stated, about, lambda done, note: None)
    log, place = folder / LOG, folder / PROBLEM
    _tell(screen, f"\n[bold]From a log alone[/bold]  {EPISODES} episodes of a legacy that explores ({LEGACY})")
    draft = draft_problem(log)
    (folder / DRAFT).write_text(draft.text, encoding="utf-8")
    _command(screen, f"aegis init {log}", f"drafts a problem file: {folder / DRAFT} ({len(draft.questions)} questions for you)")
    source = Source(log, load_problem(place))
    audited = audit_log(source)
    _command(screen, f"aegis audit {log} --problem {place}", f"{audited.verdict}")
    learned = learn(source, Split(), CandidateSettings("capped", CAP, seed=seed))
    save_learned(learned, folder / POLICY)
    _command(
        screen,
        f"aegis learn {log} --problem {place} --kind capped --out {folder / POLICY}",
        f"a candidate from {learned.record['episodes']} episodes; the others are left to certify on",
    )
    _command(
        screen, f"aegis certify {log} --problem {place} --policy {folder / POLICY} --by quality --report {folder / REPORT}", ""
    )
    candidate = Candidate(learned.policy, POLICY, str(folder / POLICY), record=learned.record, rewards=learned.fitted.rewards)
    certificate = certify(source, candidate, by=("quality",), ledger=folder / LEDGER)
    certificate.save(folder / CERTIFICATE)
    write_report(certificate, folder / REPORT)
    if screen is not None:
        show(certificate)
        screen.print(f"\nThe page to read: {folder / REPORT}", soft_wrap=True)
        screen.print("Next, with a log of your own: aegis init LOG --out problem.yaml; then audit, learn and certify as above.")
    return Story(audited.verdict, certificate, folder)


def _command(screen: Console | None, command: str, outcome: str) -> None:
    _tell(screen, f"[bold]$[/bold] {command}")
    if outcome:
        _tell(screen, f"  {outcome}")


def _tell(screen: Console | None, text: str) -> None:
    if screen is not None:
        screen.print(text, soft_wrap=True)
