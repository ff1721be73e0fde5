"""`aegis convert`: logs of other libraries as a log and a problem file, and an AEGIS log as theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from aegis.cli import options
from aegis.cli.options import CompletedWord
from aegis.cli.output import console, print_json
from aegis.errors import SettingError

FORMS = ("dsjson", "obp")
DSJSON_ONLY = ("thinned", "unobserved", "skipped", "action_key", "context", "cluster")


@click.command("convert")
@click.argument("file", nargs=-1, required=True, type=options.LogPath())
@click.option("--from", "form", type=click.Choice(FORMS), help="What FILE is: dsjson (also .gz), or obp (.npz without pickle).")
@click.option("--to", "target", type=click.Choice(["obp"]), help="FILE is a log of ours; write obp's feedback dictionary (.npz).")
@click.option(
    "--out", required=True, type=options.NamedPath(path_type=Path), metavar="PLACE", help="--from: a folder. --to: an .npz file."
)
@click.option("--force", is_flag=True, help="Overwrite what is there.")
@click.option(
    "--reward-range", type=float, nargs=2, metavar="LOW HIGH", help="Declared limits of a reward (of dsjson: of a cost times -1)."
)
@click.option(
    "--thinned", is_flag=True, help="dsjson: events that are missing were left out by a coin toss that looked at nothing."
)
@click.option(
    "--unobserved",
    type=CompletedWord("unobserved"),
    metavar="WHAT",
    help="dsjson: events without an outcome earned their 'cost', or are 'missing' it.",
)
@click.option(
    "--skipped",
    type=CompletedWord("skipped"),
    metavar="WHAT",
    help="dsjson: _skipLearn or never activated events are 'missing' their reward, or 'left out'.",
)
@click.option("--action-key", metavar="FEATURE", help="dsjson: the feature that names an action, such as item.id or _tag.")
@click.option("--context", multiple=True, metavar="FEATURE", help="dsjson: a shared feature to keep; repeatable. Default: all.")
@click.option("--cluster", metavar="FEATURE", help="dsjson: the shared feature that dependent events have in common.")
@click.option("--problem", type=click.Path(path_type=Path), metavar="FILE", help="--to: the problem file of the log.")
@click.option("--policy", metavar="POLICY", help="--to: also write a candidate's action_dist; see 'aegis certify'.")
@options.as_json
def command(
    file: tuple[Path | str, ...],
    form: str | None,
    target: str | None,
    out: Path,
    force: bool,
    reward_range: tuple[float, float] | None,
    problem: Path | None,
    policy: str | None,
    as_json: bool,
    **declared: Any,
) -> None:
    """Take over a log of another library, as log.parquet and problem.yaml in a folder; or hand a log of ours over to it.

    What a file cannot say, and certificates depend on, is refused until you declare it; nothing is guessed or left out in
    silence. Read problem.yaml before you certify: it says what is a context, and which range rewards have.

    \b
    Examples:
      aegis convert events.dsjson --from dsjson --reward-range 0 1 --out log/
      aegis convert day1.json.gz day2.json.gz --from dsjson --action-key item.id --unobserved cost --out log/
      aegis convert feedback.npz --from obp --reward-range 0 1 --out log/
      aegis convert log/log.parquet --problem log/problem.yaml --to obp --policy full-columns:q_1,q_2 --out feedback.npz
    """
    if (form is None) == (target is None):
        raise SettingError("say what FILE is (--from dsjson or --from obp), or what to make of a log of ours (--to obp)")
    given = [f"--{name.replace('_', '-')}" for name in DSJSON_ONLY if declared[name]]
    if given and form != "dsjson":
        raise SettingError(f"{', '.join(given)}: about dsjson files; leave it out")
    if target is not None and reward_range is not None:
        raise SettingError("--reward-range belongs to --from: a log of ours has its range in the problem file")
    if target is None and (problem is not None or policy is not None):
        raise SettingError("--problem and --policy belong to --to")
    found = (
        _export_log(file, problem, policy, out, force)
        if form is None
        else _import_log(file, form, out, force, reward_range, declared)
    )
    if as_json:
        print_json(found)
        return
    screen = console()
    for note in found["notes"]:
        screen.print(f"note: {note}", soft_wrap=True, markup=False)
    for name in ("log", "problem", "feedback"):
        if name in found:
            screen.print(f"{name}: {found[name]}", soft_wrap=True, markup=False)


def _import_log(
    file: tuple[Path | str, ...],
    form: str,
    out: Path,
    force: bool,
    reward_range: tuple[float, float] | None,
    declared: dict[str, Any],
) -> dict[str, Any]:
    """Convert a file of another library into a folder; return what was found as plain data."""
    from aegis.adapters import LOG_NAME, PROBLEM_NAME, write_converted

    _refuse_overwriting([out / LOG_NAME, out / PROBLEM_NAME], file, force)
    if form == "dsjson":
        from aegis.adapters import DsjsonDeclaration, convert_dsjson

        said = DsjsonDeclaration(
            reward_range,
            declared["thinned"],
            declared["unobserved"],
            declared["skipped"],
            declared["action_key"],
            declared["context"] or None,
            declared["cluster"],
        )
        rows, problem, notes = convert_dsjson(list(file), out, said)
    else:
        from aegis.adapters import from_feedback, load_feedback

        if len(file) > 1:
            raise SettingError(f"--from obp takes one file, found {len(file)}")
        made = from_feedback(load_feedback(file[0]), reward_range)
        rows, problem, notes = write_converted([made.table], made.problem, out), made.problem, made.notes
    level = problem.innermost
    return {
        "from": form,
        "rows": rows,
        "actions": level.actions.count,
        "contexts": [variable.name for variable in level.context],
        "full_propensities": level.propensity is not None and level.propensity.full,
        "notes": list(notes),
        "log": str(out / LOG_NAME),
        "problem": str(out / PROBLEM_NAME),
    }


def _export_log(file: tuple[Path | str, ...], problem: Path | None, policy: str | None, out: Path, force: bool) -> dict[str, Any]:
    """Write a log of ours as a feedback dictionary; return what was found as plain data."""
    from aegis.adapters import action_dist, save_feedback, to_feedback
    from aegis.api import load_candidate
    from aegis.logs import Source
    from aegis.problem import load_problem

    if problem is None:
        raise SettingError("--to obp reads a log of ours: name its problem file with --problem")
    _refuse_overwriting([out], [*file, problem], force)
    source = Source(file, load_problem(problem))
    candidate = None if policy is None else load_candidate(policy, source.problem)
    batch = source.read(() if candidate is None else candidate.columns)
    feedback = to_feedback(batch, source.problem)
    notes = ["rewards are as logged; obp's estimators are means over rounds, and none of them is a certificate"]
    if candidate is not None:
        feedback["action_dist"] = action_dist(candidate.policy, batch, source.problem)
        if candidate.record:
            notes.append("the policy was learned from one side of a log: estimates on that side are optimistic")
    save_feedback(feedback, out)
    sizes = {"rows": feedback["n_rounds"], "actions": feedback["n_actions"]}
    return {
        "to": "obp",
        **sizes,
        "keys": [key for key, value in feedback.items() if value is not None],
        "notes": notes,
        "feedback": str(out),
    }


def _refuse_overwriting(places: list[Path], inputs: Any, force: bool) -> None:
    """Raise OutputError if something would be overwritten: an input never is, other files only if that was said."""
    from aegis.errors import OutputError

    options.spare_inputs({f"--out ({place.name})": place for place in places}, inputs)
    there = [place for place in places if place.exists()]
    if there and not force:
        raise OutputError(f"{there[0]} exists; add --force to overwrite it, or name another place")
