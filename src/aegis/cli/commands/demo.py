"""`aegis demo`: control is handed over on a simulated plant; then a policy is certified from a log alone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from aegis.cli import options
from aegis.cli.output import console, print_json, table

HANDOVER_GATE = {"upgrades": False}  # what comes after all levels have changed hands is not shown
COUNTER_EPISODES = 1300  # episodes of the counter-example
LOG_LEGACY, LOG_EPISODES = "natural:epsilon=0.3", 400


@click.command("demo")
@click.option("--episodes", type=click.IntRange(min=2), default=400, show_default=True, help="Of the handover.")
@options.path_option("--out", "FOLDER", "Keeps it.", default=Path("demo-run"), show_default=True)
@options.seed
@options.as_json
def command(episodes: int, out: Path, seed: int, as_json: bool) -> None:
    """Run the story on simulated plants: control changes hands level by level; then a policy is certified from a log alone.

    First the gate runs live: who controls each level, the certified gain that climbs, what is earned, and the page to read.
    It is kept in FOLDER: an interrupted run goes on where it stopped, a finished one is run again. Then a plant on which the
    published gate hands over to a worse agent, and ours does not. Then the log of an exploring legacy is audited, a candidate
    learned from one half of it and certified on the other.
    """
    screen = console(quiet=as_json)
    folder = out / f"handover-seed-{seed}-episodes-{episodes}"
    handover = run_handover_part(folder, episodes, seed, screen)
    counter = run_counter_example(seed, screen)
    story = run_certificate_part(out / "certify", seed, screen)
    if as_json:
        print_json({"handover": handover, "counter_example": counter, **story})


def run_handover_part(folder: Path, episodes: int, seed: int, screen: Console) -> dict[str, Any]:
    """Run the gate on the additive world, kept in a folder; an interrupted run goes on, a finished one is run again."""
    from aegis.cli.commands.handover import run_handover
    from aegis.cli.config import HandoverRequest

    screen.print("[bold]AEGIS[/bold]  a simulated plant with two timescales: meta (slow) sets the context of inner (fast)")
    screen.print(
        "The legacy (uniform) acts. Beside it a causal agent learns from its log; a level changes hands once a gain "
        "is certified there, and everything handed over wrongly has a probability of at most 0.05 together.\n"
    )
    screen.print(f"[bold]$[/bold] aegis handover --gate-set upgrades=false --episodes {episodes} --seed {seed} --out {folder}")
    discard_run(folder)
    request = HandoverRequest(legacy="uniform", episodes=episodes, seed=seed, gate_settings=HANDOVER_GATE, out=folder)
    return run_handover(request, screen.quiet)


def discard_run(folder: Path) -> None:
    """Remove a finished run from its folder, so that it can be run again; anything else, or an unfinished run, stays.

    The settings go last: killed in between, the folder holds the beginning of the same run.
    """
    from aegis.agents import LOG_FILE, PROBLEM_FILE, SETTINGS_FILE, SUMMARY_FILE
    from aegis.cli.commands.handover import HANDOVER_PAGE
    from aegis.files import folder_lock
    from aegis.handover import EVENTS_FILE, OTHERS_FILE, POLICIES_FOLDER

    if not all((folder / name).exists() for name in (SUMMARY_FILE, SETTINGS_FILE, EVENTS_FILE)):
        return
    with folder_lock(folder):
        shutil.rmtree(folder / POLICIES_FOLDER, ignore_errors=True)
        for name in (SUMMARY_FILE, LOG_FILE, HANDOVER_PAGE, EVENTS_FILE, PROBLEM_FILE, OTHERS_FILE, SETTINGS_FILE):
            (folder / name).unlink(missing_ok=True)


def run_counter_example(seed: int, screen: Console) -> dict[str, Any]:
    """Run the published gate and ours on the plant on which the agent is worse than the legacy; return what each did."""
    from aegis.handover import HOSTS, Flipped, GateSettings, Handover
    from aegis.paper import CounterExample, PublishedGate, PublishedSettings

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
    names = ("legacy_value", "agent_value", "published_hands_over_after", "challenger_hands_over_after")
    return dict(zip(names, (legacy, agent, *flips), strict=True))


def run_certificate_part(folder: Path, seed: int, screen: Console) -> dict[str, Any]:
    """Simulate the log of an exploring legacy and go on from there: init, audit, learn, certify; return the results."""
    from aegis.agents import CandidateSettings, learn
    from aegis.api import load_candidate
    from aegis.audit import audit_log
    from aegis.certificate import certify
    from aegis.cli.commands.certify import print_certificate
    from aegis.cli.commands.learn import save_learned
    from aegis.cli.commands.simulate import write_legacy_log
    from aegis.logs import Source, Split, draft_problem
    from aegis.policies import with_incumbent
    from aegis.problem import load_problem
    from aegis.report import write_report
    from aegis.worlds import make_world

    world = make_world("plant")
    if folder.exists():
        shutil.rmtree(folder)  # made by an earlier demo, and made again now
    legacy, about = world.legacy(LOG_LEGACY), {"world": "plant", "legacy": LOG_LEGACY}
    stated = with_incumbent(world.problem, legacy)
    write_legacy_log(folder, world, legacy, LOG_EPISODES, seed, stated, about, lambda done, total, note: None)
    log, problem, policy = folder / "log.parquet", folder / "problem.yaml", folder / "policy"
    draft_file, saved, page = folder / "draft.yaml", folder / "certificate.json", folder / "report.html"
    screen.print(
        f"\n[bold]From a log alone[/bold]  {LOG_EPISODES} episodes of a legacy that explores ({LOG_LEGACY})", soft_wrap=True
    )

    def show(command: str, *outcome: str) -> None:
        for line in (f"[bold]$[/bold] aegis {command}", *(f"  {text}" for text in outcome)):
            screen.print(line, soft_wrap=True)

    draft = draft_problem(log)
    draft_file.write_text(draft.text, encoding="utf-8")
    show(f"init {log}", f"drafts a problem file: {draft_file} ({len(draft.questions)} questions for you)")
    source = Source(log, load_problem(problem))
    audited = audit_log(source)
    show(f"audit {log} --problem {problem}", audited.verdict)
    learned = learn(source, Split(), CandidateSettings("capped", 2.0, seed=seed))
    save_learned(learned, policy)
    show(
        f"learn {log} --problem {problem} --kind capped --out {policy}",
        f"a candidate from {learned.record['episodes']} episodes; the others are left to certify on",
    )
    show(f"certify {log} --problem {problem} --policy {policy} --by quality --report {page}")
    candidate = load_candidate(str(policy), source.problem)
    certificate = certify(source, candidate, by=("quality",), ledger=folder / "ledger")
    certificate.save(saved)
    write_report(certificate, page)
    if not screen.quiet:
        print_certificate(certificate)
    screen.print(f"\nThe page to read: {page}", soft_wrap=True)
    screen.print("Next, with a log of your own: aegis init LOG --out problem.yaml; then audit, learn and certify as above.")
    verdict = certificate.verdict
    results = {"audit": audited.verdict, "verdict": verdict.verdict, "sentence": verdict.sentence}
    return {**results, "certificate": str(saved), "report": str(page)}
