"""Plants mutations in a copy of the package, one at a time, and runs the tests that must catch each.

Run as a script: `python mutants.py ROOT WORK`; prints one JSON object, mutation -> exit code of pytest. Heavy libraries
are imported once; each mutant runs in a fork of this process.
"""

import compileall
import contextlib
import io
import json
import os
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

# Imported before the forks, so that each of them need not.
import hypothesis
import numpy
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet
import pydantic
import pytest
import scipy.linalg
import scipy.special
import scipy.stats
import yaml

LIBRARIES = (hypothesis, numpy, pyarrow.compute, pyarrow.csv, pyarrow.parquet, scipy.linalg, scipy.special, scipy.stats, yaml)
pydantic.create_model("Any", number=(int, 0))  # what builds models is imported with the first one
pyarrow.array([0.0])  # imports pandas, where it is installed
os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
# Only whether a test fails matters: the smallest example that makes it fail is not looked for.
hypothesis.settings.register_profile("mutants", phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate], database=None)
hypothesis.settings.load_profile("mutants")
# Only exit codes matter: leaving out reports of failures saves rewriting the tests in every fork.
PYTEST = ["-o", "addopts=", "-x", "-q", "-p", "no:cacheprovider", "--assert=plain", "--tb=no"]


class Mutation(NamedTuple):
    """A wrong text in the place of a right one in a file of the package, and which tests of a family must catch it."""

    file: str
    right: str
    wrong: str
    tests: str


EQUATIONS = {
    "Phi_I keeps the contexts above the scope": Mutation(
        "problem/problem.py", "(level.name) < top", "(level.name) > top", "definition_2"
    ),
    "levels are counted from the outside": Mutation(
        "problem/problem.py",
        "return len(self.levels) - self.names.index(self.level(name).name)",
        "return 1 + self.names.index(self.level(name).name)",
        "definition_2",
    ),
    "the worst action instead of the best": Mutation(
        "planning/recursion.py", "values.max(axis=-1)", "values.min(axis=-1)", "recursion[2"
    ),
    "controlled and legacy levels swapped": Mutation(
        "planning/recursion.py", "if child in self.scope", "if child not in self.scope", "pi_ell_ts_policy_and_ck_ts[2"
    ),
    "outcome noise forgotten": Mutation(
        "planning/recursion.py", "count, {outcome.name: functions[outcome.name].sd})", "count)", "recursion[1-polynomial"
    ),
    "policy takes the smallest value": Mutation(
        "planning/base.py", "np.argmax(values, axis=-1)", "np.argmin(values, axis=-1)", "pi_ell_ts_policy_and_ck_ts[1"
    ),
    "mean context with the wrong sign": Mutation(
        "planning/integration.py", "mean[:, :, None, :] +", "-mean[:, :, None, :] +", "recursion[2"
    ),
    "evidence subtracted": Mutation("mechanisms/regression.py", "self.shift + temper *", "self.shift - temper *", "nig_update"),
    "a whole count per row": Mutation(
        "mechanisms/regression.py", "0.5 * temper * features.shape[0]", "temper * features.shape[0]", "nig_update"
    ),
    "rate with the wrong sign": Mutation(
        "mechanisms/regression.py", "0.5 * (self.square - np", "0.5 * (self.square + np", "right_rows"
    ),
    "KL with shapes swapped": Mutation(
        "mechanisms/regression.py", "(shape - other_shape) * digamma", "(other_shape - shape) * digamma", "causal_kl"
    ),
    "KL over all mechanisms": Mutation(
        "mechanisms/belief.py", "wanted = self.problem.mechanisms(s", "wanted = self.problem.mechanisms(None and s", "causal_kl"
    ),
    "the parent of the row before": Mutation(
        "problem/batch.py", "self.levels[name].parent[rows]", "self.levels[name].parent[rows - 1]", "right_rows"
    ),
    "the path from the outside in": Mutation(
        "problem/batch.py",
        "for name in reversed(names[: position + 1]):",
        "for name in names[: position + 1]:",
        "lies_on_the_path",
    ),
    "paths end one level too early": Mutation(
        "problem/batch.py",
        "for name in reversed(names[: position + 1]):",
        "for name in reversed(names[:position]):",
        "lies_on_the_path",
    ),
    "draws around minus the mean": Mutation(
        "mechanisms/regression.py", "weights = at.mean + sd", "weights = -at.mean + sd", "have_the_law"
    ),
    "draws spread three times as far": Mutation("mechanisms/regression.py", "at.mean + sd[", "at.mean + 3 * sd[", "have_the_law"),
    "draws with too little noise": Mutation(
        "mechanisms/regression.py", "np.sqrt(at.rate / rng", "np.sqrt(0.9 * at.rate / rng", "have_the_law"
    ),
    "one draw for all particles": Mutation(
        "mechanisms/regression.py",
        "normal = rng.standard_normal((size, count * outputs))",
        "normal = rng.standard_normal((size, 1)) * np.ones(count * outputs)",
        "have_the_law",
    ),
    "nothing is learned between episodes": Mutation(
        "agents/online_run.py",
        "            belief = belief.update(batch)",
        "            belief.update(batch)",
        "episode_by_episode",
    ),
    "drawn from a belief that has learned nothing": Mutation(
        "agents/online_run.py", "self.policy(belief, episode)", "self.policy(self.prior(), episode)", "draws_anew"
    ),
    "the same random numbers in every episode": Mutation(
        "agents/online_run.py", '"agent", self.agent.name, episode)', '"agent", self.agent.name)', "draws_anew"
    ),
    "nothing is adjusted for": Mutation(
        "problem/graph.py", "adjust = set(adjustment)", "adjust = set()", "assumption_3_on_the_complete"
    ),
    "parents are not married": Mutation(
        "problem/graph.py",
        "linked[a].update(b for b in family if b != a)",
        "linked[a].update(b for b in family if b != a and node in (a, b))",
        "assumption_3_on_random",
    ),
    "latents are not in the graph": Mutation(
        "problem/graph.py", "full[child].append(latent)", "pass", "assumption_3_on_the_complete"
    ),
}

BOUNDS = {
    "Hoeffding's bound too high": Mutation(
        "evidence/bounds/mean_bounds.py", "/ (2.0 * units.size))", "/ (4.0 * units.size))", "fixed_time_bounds_are"
    ),
    "Bernstein's bound without the range": Mutation(
        "evidence/bounds/mean_bounds.py", "- 7.0 * width * log", "- 0.0 * width * log", "fixed_time_bounds_are"
    ),
    "bets that look at the unit they are placed on": Mutation(
        "evidence/bounds/mean_bounds.py", "np.append(0.25, variance[:-1])", "variance", "anytime_bernstein"
    ),
    "weights of bets that sum to more than one": Mutation(
        "evidence/grid.py", "np.log(weights / weights.sum())", "np.log(weights)", "sum_to_one"
    ),
    "sums rounded up": Mutation(
        "evidence/sketch.py",
        "whole = np.floor(logs * UNIT).astype(np.int64)\n    # Terms",
        "whole = np.ceil(logs * UNIT).astype(np.int64)\n    # Terms",
        "rounded_down",
    ),
    "a bet that lost everything comes back": Mutation(
        "evidence/sketch.py", "None if a is None or b is None else a + b", "(a or 0) + (b or 0)", "dead_bet"
    ),
    "the sum of wealths instead of their mean": Mutation(
        "evidence/sketch.py", " - math.log(len(curves))", "", "average_of_the_wealths"
    ),
    "actions that were never logged cost nothing": Mutation(
        "evidence/water_filled_bets.py",
        "return Stakes(weights, np.maximum(comparator - candidate, 0.0).sum(axis=1))",
        "return Stakes(weights, (logged * np.maximum(comparator - candidate, 0.0)).sum(axis=1))",
        "two_promises",
    ),
    "the worst case is not held back": Mutation(
        "evidence/water_filled_bets.py", " - stakes.worst[part][:, None]", "", "two_promises"
    ),
    "a bet that cannot be afforded is left out": Mutation(
        "evidence/water_filled_bets.py",
        "np.where(target >= 0, FLOOR + bets * stake, np.nan)",
        "np.where(target >= 0, FLOOR + bets * stake, 1.0)",
        "unaffordable",
    ),
    "nothing is left for the worst case of the inner level": Mutation(
        "evidence/water_filled_bets.py",
        "share = min(1.0, (1.0 - 1.0 / self.cap) * HAIR)",
        "share = 0.0",
        "mean_factor_is_at_most",
    ),
}
WEIGHTS = {
    "propensities multiplied instead of divided": Mutation(
        "ope/weights.py",
        "policy.taken(name, batch) / table.mu_taken",
        "policy.taken(name, batch) * table.mu_taken",
        "unbiased_at_every_scope or carry_over_would or product_of_means",
    ),
    "the last level alone": Mutation(
        "ope/weights.py",
        "products = ratio if products is None else products * ratio",
        "products = ratio",
        "unbiased_at_every_scope or carry_over_would or product_of_means",
    ),
    "earlier decisions forgotten": Mutation(
        "ope/weights.py",
        "np.exp(before + logs[level] + below)",
        "np.exp(logs[level] + below)",
        "unbiased_at_every_scope or carry_over_would or product_of_means",
    ),
    "the first particle alone": Mutation(
        "ope/weights.py",
        "if share.size == 1:",
        "if share.size >= 1:",
        "unbiased_at_every_scope or carry_over_would or product_of_means",
    ),
    "missing rewards are good ones": Mutation(
        "ope/measure.py",
        "np.where(weight > 0, self.low, self.high)",
        "np.where(weight > 0, self.high, self.low)",
        "exact_in_expectation or worst_case or small_is_good",
    ),
    "costs are rewards": Mutation(
        "ope/measure.py",
        'if self.goal == "maximise" else 1.0 - ',
        "if True else 1.0 - ",
        "exact_in_expectation or worst_case or small_is_good",
    ),
    "what the comparator earns counts as a gain": Mutation(
        "ope/importance.py", "return w * reward + u * (1.0 - reward)", "return w * reward + u * reward", "gain"
    ),
}
GATE = {
    "freezes spend more than there is": Mutation(
        "handover/risk_budget.py", "(math.pi * t) ** 2", "(math.pi * t)", "risk_is_shared"
    ),
    "every challenger gets all of the share": Mutation(
        "handover/risk_budget.py", "* part / challenges", "* part", "risk_is_shared"
    ),
    "a challenger counts the episode before its freeze": Mutation(
        "handover/gate.py",
        "freeze, since = state.freeze + 1, started + 1",
        "freeze, since = state.freeze + 1, started",
        "in_flight",
    ),
    "guards are not waited for": Mutation(
        "handover/challenge.py",
        "return all(claim.certified for claim in self.claims if claim.what != VALUE)",
        "return any(claim.certified for claim in self.claims if claim.what != VALUE)",
        "guard_that_worsens",
    ),
    "certified at ten times the risk": Mutation(
        "handover/challenge.py", "threshold = math.log(1.0 / self.delta)", "threshold = math.log(0.1 / self.delta)", "crossing_is"
    ),
    "evidence of a paused gate counts": Mutation(
        "handover/gate.py",
        "counted = unit if state.paused is None else replace(unit, evidence={})",
        "counted = unit",
        "pause_counts_nothing",
    ),
    "shadow hands over": Mutation("handover/gate.py", 'if state.settings.mode == "live":', "if True:", "shadow"),
    "challengers of the last phase go on": Mutation(
        "handover/gate_state.py", "if item.since <= episode)", "if True)", "in_flight"
    ),
}
# The tests of a family, and what must make them fail.
FAMILIES = {
    "equations": (("paper/test_equations.py", "paper/test_algorithm_1.py", "paper/test_assumption_3.py"), EQUATIONS),
    "bounds": (
        (
            "evidence/test_mean_bounds.py",
            "evidence/test_grid.py",
            "evidence/test_sketch.py",
            "evidence/test_water_filled_bets.py",
        ),
        BOUNDS,
    ),
    "weights": (("ope/test_weights.py", "ope/test_measure.py", "ope/test_waterfill.py", "ope/test_comparator.py"), WEIGHTS),
    "gate": (
        ("handover/test_gate.py", "handover/test_challenge.py", "handover/test_gate_life.py", "handover/test_gate_patience.py"),
        GATE,
    ),
}


def compiled_copy(root: Path, work: Path) -> Path:
    """Return a copy of the package with its byte code, from which each mutant compiles one file only.

    Byte code that is there already is copied: it knows its source by size and time, which are copied too.
    """
    copy = work / "pristine"
    shutil.copytree(root / "src", copy)
    if not compileall.compile_dir(copy, quiet=1):
        raise SystemExit("the package does not compile")
    return copy


def run_tests(root: Path, source: Path, files: tuple[str, ...], names: str) -> int:
    """Return pytest's exit code with the package from a folder, in a fork; only files that have such tests are collected."""
    words = [name.partition("[")[0] for name in names.split(" or ")]
    wanted = [name for name in files if any(word in (root / "tests" / name).read_text() for word in words)]
    child = os.fork()
    if child == 0:
        sys.path.insert(0, str(source))
        sys.dont_write_bytecode = True
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            code = pytest.main([*PYTEST, "-k", names, *[str(root / "tests" / name) for name in wanted]])
        os._exit(int(code))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def plant(pristine: Path, number: int, name: str, mutation: Mutation) -> Path:
    """Return a copy of the package with a mutation in it."""
    copy = pristine.parent / f"mutant-{number}"
    shutil.copytree(pristine, copy, copy_function=os.link)  # the same files, but for the mutated one
    target = copy / "aegis" / mutation.file
    text = target.read_text()
    if text.count(mutation.right) != 1:
        raise SystemExit(f"{mutation.file} no longer reads as the mutation '{name}' expects; adapt it")
    target.unlink()
    target.write_text(text.replace(mutation.right, mutation.wrong))
    for compiled in (target.parent / "__pycache__").glob(f"{target.stem}.*"):
        compiled.unlink()
    return copy


def run_family(root: Path, work: Path, family: str) -> dict[str, int]:
    """Return the exit codes of a family: 0 for the package as it is, 1 for each mutation."""
    files, mutations = FAMILIES[family]
    pristine = compiled_copy(root, work)
    together = " or ".join(dict.fromkeys(mutation.tests for mutation in mutations.values()))
    codes = {"nothing at all": run_tests(root, pristine, files, together)}
    for number, (name, mutation) in enumerate(mutations.items()):
        codes[name] = run_tests(root, plant(pristine, number, name, mutation), files, mutation.tests)
    return codes


if __name__ == "__main__":
    print(json.dumps(run_family(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])))
