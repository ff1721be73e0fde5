"""The story of `aegis demo`: a gate hands control over on a simulated plant, the published gate fails on another one, and a
policy is certified from a log alone.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from rich.console import Console

from aegis.agents import LOG_FILE, PROBLEM_FILE, SETTINGS_FILE, SUMMARY_FILE
from aegis.certificate import Candidate, certify
from aegis.cli.commands.certify import print_certificate
from aegis.cli.commands.handover import HANDOVER_PAGE, run_handover
from aegis.cli.commands.learn import save_learned
from aegis.cli.config import HandoverRequest
from aegis.cli.legacy_log import SIMULATED_LOG, SIMULATED_PROBLEM, write_legacy_log
from aegis.cli.output import table
from aegis.files import folder_lock
from aegis.handover import EVENTS_FILE, HOSTS, OTHERS_FILE, POLICIES_FOLDER, Flipped, GateSettings, Handover
from aegis.paper import CounterExample, PublishedGate, PublishedSettings

HANDOVER_LEGACY = "uniform"
HANDOVER_GATE = {"upgrades": False}  # what comes after all levels have changed hands is not shown
COUNTER_EPISODES = 1300  # episodes of the counter-example
LOG_LEGACY, LOG_EPISODES, CANDIDATE_CAP = "natural:epsilon=0.3", 400, 2.0
DRAFT_FILE, POLICY_FOLDER, LEDGER_FOLDER = "draft.yaml", "policy", "ledger"
CERTIFICATE_FILE, CERTIFICATE_PAGE = "certificate.json", "report.html"


def run_handover_part(folder: Path, episodes: int, seed: int, screen: Console) -> dict[str, Any]:
    """Run the gate on the additive world, kept in a folder; an interrupted run goes on, a finished one is run again."""
    screen.print("[bold]AEGIS[/bold]  a simulated plant with two timescales: meta (slow) sets the context of inner (fast)")
    screen.print(
        f"The legacy ({HANDOVER_LEGACY}) acts. Beside it a causal agent learns from its log; a level changes hands once a gain "
        "is certified there, and everything handed over wrongly has a probability of at most 0.05 together.\n"
    )
    screen.print(f"[bold]$[/bold] aegis handover --gate-set upgrades=false --episodes {episodes} --seed {seed} --out {folder}")
    discard_run(folder)
    request = HandoverRequest(legacy=HANDOVER_LEGACY, episodes=episodes, seed=seed, gate_settings=HANDOVER_GATE, out=folder)
    return run_handover(request, screen.quiet)


def discard_run(folder: Path) -> None:
    """Remove a finished run from its folder, so that it can be run again; anything else, or an unfinished run, stays.

    The settings go last: killed in between, the folder holds the beginning of the same run.
    """
    if not all((folder / name).exists() for name in (SUMMARY_FILE, SETTINGS_FILE, EVENTS_FILE)):
        return
    with folder_lock(folder):
        shutil.rmtree(folder / POLICIES_FOLDER, ignore_errors=True)
        for name in (SUMMARY_FILE, LOG_FILE, HANDOVER_PAGE, EVENTS_FILE, PROBLEM_FILE, OTHERS_FILE, SETTINGS_FILE):
            (folder / name).unlink(missing_ok=True)


def run_counter_example(seed: int, screen: Console) -> dict[str, Any]:
    """Run the published gate and ours on the plant on which the agent is worse than the legacy; return what each did."""
    plant = CounterExample()
    published = PublishedGate(plant, plant.legacy, HOSTS["greedy"](), PublishedSettings(refresh=50), seed)
    ours = Handover(plant, plant.legacy, HOSTS["greedy"](), GateSettings(), seed)
    for gate in (published, ours):
        gate.advance(COUNTER_EPISODES)
    legacy, agent = plant.true_value(plant.legacy), plant.true_value(published.acting)
    flips = [next((event.episode for event in gate.events if isinstance(event, Flipped)), None) for gate in (published, ours)]
    words = ["keeps the legacy" if flip is None else f"hands over after {flip}" for flip in flips]
    screen.print(
        "\n[bold]Why a certificate[/bold]  a plant on which the agent is worse than the legacy, and looks better in the log"
    )
    rows = [
        ["published (Algorithm 2)", "not a certificate", words[0], f"{agent:.3f}"],
        ["challenger", "at most 0.05 wrong", words[1], f"{legacy:.3f}"],
    ]
    heads = ["gate", "promise", f"in {COUNTER_EPISODES} episodes", "earns now"]
    screen.print(table(f"The legacy earns {legacy:.3f}", heads, rows))
    if agent < legacy:
        screen.print("The published gate has handed over to the worse agent; ours has not: nothing was certified.")
    return {
        "legacy_value": legacy,
        "agent_value": agent,
        "published_hands_over_after": flips[0],
        "challenger_hands_over_after": flips[1],
    }


def run_certificate_part(folder: Path, seed: int, screen: Console) -> dict[str, Any]:
    """Simulate the log of an exploring legacy and go on from there: init, audit, learn, certify; return the results."""
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
    about = {"world": "plant", "legacy": LOG_LEGACY}
    legacy = world.legacy(LOG_LEGACY)
    stated = with_incumbent(world.problem, legacy)
    write_legacy_log(folder, world, legacy, LOG_EPISODES, seed, stated, about, lambda done, note: None)
    log, place, policy, page = (folder / name for name in (SIMULATED_LOG, SIMULATED_PROBLEM, POLICY_FOLDER, CERTIFICATE_PAGE))
    title = f"\n[bold]From a log alone[/bold]  {LOG_EPISODES} episodes of a legacy that explores ({LOG_LEGACY})"
    screen.print(title, soft_wrap=True)
    draft = draft_problem(log)
    (folder / DRAFT_FILE).write_text(draft.text, encoding="utf-8")
    _print_command(
        screen, f"aegis init {log}", f"drafts a problem file: {folder / DRAFT_FILE} ({len(draft.questions)} questions for you)"
    )
    source = Source(log, load_problem(place))
    audited = audit_log(source)
    _print_command(screen, f"aegis audit {log} --problem {place}", f"{audited.verdict}")
    learned = learn(source, Split(), CandidateSettings("capped", CANDIDATE_CAP, seed=seed))
    save_learned(learned, policy)
    _print_command(
        screen,
        f"aegis learn {log} --problem {place} --kind capped --out {policy}",
        f"a candidate from {learned.record['episodes']} episodes; the others are left to certify on",
    )
    request = f"--policy {policy} --by quality --report {page}"
    _print_command(screen, f"aegis certify {log} --problem {place} {request}")
    candidate = Candidate(
        policy=learned.policy,
        name=POLICY_FOLDER,
        reference=str(policy),
        record=learned.record,
        rewards=learned.fitted.rewards,
    )
    certificate = certify(source, candidate, by=("quality",), ledger=folder / LEDGER_FOLDER)
    certificate.save(folder / CERTIFICATE_FILE)
    write_report(certificate, page)
    if not screen.quiet:
        print_certificate(certificate)
    screen.print(f"\nThe page to read: {page}", soft_wrap=True)
    screen.print("Next, with a log of your own: aegis init LOG --out problem.yaml; then audit, learn and certify as above.")
    return {
        "audit": audited.verdict,
        "verdict": certificate.verdict.verdict,
        "sentence": certificate.verdict.sentence,
        "certificate": str(folder / CERTIFICATE_FILE),
        "report": str(page),
    }


def _print_command(screen: Console, command: str, outcome: str = "") -> None:
    screen.print(f"[bold]$[/bold] {command}", soft_wrap=True)
    if outcome:
        screen.print(f"  {outcome}", soft_wrap=True)
