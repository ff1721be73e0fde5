"""`aegis handover --gate published --log LOG`: a recorded log judged by Algorithm 2 of the paper, which is not a certificate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from aegis.cli.config import HandoverRequest
from aegis.cli.handover_run import check_setting_names, load_host, problem_with_margins
from aegis.cli.output import console, print_line, table
from aegis.errors import SettingError

if TYPE_CHECKING:
    from aegis.paper import LogLooks
    from aegis.problem import Policy, Problem


def judge_request(request: HandoverRequest) -> tuple[LogLooks, dict[str, Any]]:
    """Return what Algorithm 2 would have done on the log of a request, and the same as plain data with the request."""
    from aegis.logs import Source
    from aegis.paper import PublishedSettings, judge_log, register_gates
    from aegis.problem import load_problem

    register_gates()
    check_setting_names(request)
    problem = problem_with_margins(load_problem(request.problem or ""), request.margins, request.places)
    settings = PublishedSettings.of(request.gate_settings)
    legacy = None if request.legacy is None else load_log_legacy(request.legacy, problem)
    host = load_host(request.host, problem)
    outcome = judge_log(problem, Source(request.log or [], problem).read(), host, settings, legacy, request.seed)
    about = {"log": request.log, "problem": str(request.problem), "host": request.host, "gate": request.gate}
    return outcome, {**about, "seed": request.seed, "gate_settings": settings.plain(), **outcome.plain()}


def load_log_legacy(reference: str, problem: Problem) -> Policy:
    """Return the policy that wrote a log; SettingError for the name of a world's legacy, which a log does not have."""
    from aegis.api import load_candidate
    from aegis.worlds import parse_legacy

    try:
        named = not Path(reference).is_dir() and bool(parse_legacy(reference))
    except SettingError:  # not NAME or NAME:KEY=NUMBER
        named = False
    if named:
        raise SettingError(
            f"--legacy {reference}: with --log it names the policy that wrote the log, as a policy folder or module:object; "
            "legacies by name are those of simulated worlds"
        )
    return load_candidate(reference, problem).policy


def print_log_looks(outcome: LogLooks) -> None:
    """Print the outcome, the last look at each scope, and what the log was taken for."""
    print_line(outcome.sentence, "bold red")
    last = {look.level: look for look in outcome.looks}
    rows = [
        [
            scope,
            str(sum(item.level == scope for item in outcome.looks)),
            str(look.units),
            *("-" if number is None else f"{number:.4g}" for number in (look.gain, look.margin, look.bound)),
        ]
        for scope, look in last.items()
    ]
    head = ["scope", "looks", "episodes", "estimate minus legacy", "to reach", "with KL and log(2/delta)"]
    console().print(table("The last look at each scope, in units of the reward (not a certificate)", head, rows))
    for scope, look in last.items():
        if look.gain is None:
            print_line(f"No number at '{scope}' in its last look: {look.words}.")
    if outcome.assumed:
        print_line(f"No propensities at {' and '.join(outcome.assumed)}: read as a legacy that always does the same (mu = 1).")
    if outcome.aside:
        print_line(f"The first {outcome.aside} episodes were set aside to standardise by.")
    for scope, why in outcome.left_out.items():
        print_line(f"Not judged: '{scope}': {why}")
