"""`aegis learn`: a candidate policy from the training split of a log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from aegis.cli import options
from aegis.cli.output import console, episode_progress, print_json, print_line, table

if TYPE_CHECKING:
    from aegis.agents import Learned


@click.command("learn")
@click.argument("log", nargs=-1, required=True, type=options.LogPath())
@options.problem
@options.path_option("--out", "FOLDER", "Gets the policy and its record.", required=True, file_okay=False)
@options.word_option("--kind", "kind", "{words}.", default="greedy", show_default=True)
@click.option("--cap", type=float, default=2.0, show_default=True, help="W: a capped policy raises no probability more than so.")
@click.option("--step", type=float, default=0.3, show_default=True, help="Share of decisions a stepped policy takes over.")
@options.repeated_option("--scope", "LEVEL", "Levels the policy acts at; repeatable. Default: all.")
@click.option(
    "--fraction", type=float, default=0.5, show_default=True, help="Share of the episodes to learn from; 0 learns nothing."
)
@options.word_option(
    "--split split_kind", "split", "{words}. Default: hash, or time if propensities move and the problem names a time.", "KIND"
)
@click.option("--particles", type=click.IntRange(min=1), default=16, show_default=True, help="Frozen draws of a planned policy.")
@options.seed
@options.as_json
def command(
    log: tuple[Path | str, ...],
    problem: Path,
    out: Path,
    scope: tuple[str, ...],
    fraction: float,
    split_kind: str | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Fit models to one side of the split of LOG, write a candidate policy into FOLDER, leave the other side for certification.

    greedy plans with the posterior mean of a causal model; planned is a mixture of posterior draws; capped stays within W times
    the legacy's probabilities, which certifies sooner for a smaller gain and is the choice where the legacy explores little;
    stepped leaves a share of the decisions to the incumbent and is greedy in the others, for a cautious deployment.

    \b
    Examples:
      aegis learn log.parquet --problem problem.yaml --out policy/
      aegis learn log.parquet --problem problem.yaml --kind capped --cap 2 --scope dose --out policy/
    """
    from aegis.agents import CandidateSettings, learn
    from aegis.logs import Source, Split
    from aegis.problem import load_problem

    chosen = CandidateSettings(**settings)
    split = fraction if split_kind is None else Split(split_kind, fraction=fraction)
    source = Source(log, load_problem(problem))
    with episode_progress(as_json) as report:
        learned = learn(source, split, chosen, scope or None, report=report)
    record = save_learned(learned, out)
    if as_json:
        print_json({**{key: value for key, value in record.items() if key != "fingerprints"}, "out": str(out)})
        return
    _show(record, source.problem, out)


def save_learned(learned: Learned, out: Path) -> dict[str, Any]:
    """Write the reward models, then the policy, whose record names them, so that an interruption cannot mix two of them up.

    Returns the record as it is stored.
    """
    from aegis.api import REWARDS_SUBFOLDER
    from aegis.policies import policy_digest, save_policy

    rewards = learned.fitted.rewards
    record = {**learned.record, "rewards": policy_digest(rewards)}
    save_policy(rewards, out / REWARDS_SUBFOLDER, {"split": learned.split.describe()})
    save_policy(learned.policy, out, record)
    return record


def _show(record: dict[str, Any], problem: Any, out: Path) -> None:
    screen = console()
    unit = f" {problem.reward.unit}" if problem.reward.unit else ""
    split = record["split"]
    how = "by a hash of their ids" if split["kind"] == "hash" else f"in time, before {split['cut']}"
    rows = [[name, f"mechanism, {model}"] for name, model in record["models"].items()]
    rows += [[name, f"reward below level, {model}"] for name, model in record["reward_models"].items()]
    learned = bool(split["fraction"])
    title, column = ("Fitted on the prior side", "likeliest model") if learned else ("Before any data", "model")
    screen.print(table(title, ["what", column], rows))
    if not learned:
        screen.print(
            f"The {record['kind']} policy at {', '.join(record['scope'])} is that of the hyper-prior: nothing was learned from "
            "the log, and all its units are left for certification."
        )
        print_line(f"policy: {out}")
        return
    screen.print(
        f"{record['episodes']} episodes ({record['decisions']} innermost decisions, {record['rewards_missing']} without reward) "
        f"on the prior side: a share of {split['fraction']:g}, taken {how}. Nothing was learned from the other side."
    )
    screen.print(
        f"The log earned {record['legacy_value']:.4g}{unit} per decision on this side; the model expects "
        f"{_expected_words(record, unit)}. This is a {record['plug_in_note']}."
    )
    for warning in record["warnings"]:
        screen.print(f"[yellow]warning:[/yellow] {escape(warning)}")
    print_line(f"policy: {out}")


def _expected_words(record: dict[str, Any], unit: str) -> str:
    """Return what the model expects of the policy and of the incumbent.

    Both are judged at the outermost level of the scope, with the same decisions at the levels below.
    """
    outer, *below = record["scope"]
    value, incumbent = f"{record['plug_in_value']:.4g}{unit}", record.get("incumbent_plug_in_value")
    beside = "" if incumbent is None else f", and {incumbent:.4g}{unit} of the incumbent there"
    rest = ", with the same decisions at the levels below" if below and beside else ""
    return f"{value} of the {record['kind']} policy at {outer}{beside}{rest}"
