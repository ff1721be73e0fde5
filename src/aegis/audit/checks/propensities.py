"""Propensities: do they exist, do they leave a choice, and are they right, decision by decision or over episodes?

A mixture that draws one policy for each episode may log its probabilities given the actions above only. Its decisions then
depend on each other beyond their propensities, and bets that multiply over them prove nothing. The sums over episodes are
then compared with their own spread between episodes, which holds for both kinds in large samples.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import numpy as np

from aegis.audit.batch_view import ActionHalves, BatchView
from aegis.audit.betting import ActionRepeats, Choices, set_count
from aegis.audit.check import (
    AuditSetting,
    Check,
    Finding,
    Known,
    Severity,
    Sums,
    Thinning,
    first_column,
    make_finding,
    soften,
    upper_quantile,
)
from aegis.audit.checks.calibration import (
    MOST_CALIBRATED,
    ClusterDraws,
    ContextLeans,
    LevelCalibration,
    SliceEvidence,
    SliceShares,
)
from aegis.audit.codes import NO_DENSITY
from aegis.audit.slices import Cut, Mask
from aegis.errors import pluralise
from aegis.problem import AnyArray, Array, Level, LevelTable, Rows, has_next_sibling

DOUBT = math.log(20.0)  # evidence from which a log that is not refused is one with a warning
NOT_SEQUENTIAL = math.log(100.0)  # evidence from which propensities count as not sequential
NAMED = 3  # slices that a message names
BELOW_ON_INTERVAL = (
    "see that densities are per unit of the action as it is logged and not too high, and that the controller can reach every "
    "part of the interval in every context; where it cannot, candidates that act there will look worse than they are"
)

MOST_NAMED_SHARES = 12  # shares that a message names


class Backdoors(Check):
    """Whether the graph says that something unobserved acts on an action and on the reward."""

    def add(self, view: BatchView) -> None:
        """Add nothing: the graph alone decides."""

    def findings(self, known: Known) -> list[Finding]:
        """Return the levels with an open back door."""
        doors = [self.setting.problem.backdoor(name) for name in self.problem.names]
        return [
            make_finding("backdoor", self.severities(door.level)[0], door.reason, door.level)
            for door in doors
            if not door.admissible
        ]


CERTAIN = 1.0 - 1e-9
MANY = {100: 8, 1000: 30}  # distinct values, all of them multiples of 1/100 or 1/1000, that no exact policy is likely to have


class LevelRandomisation(Sums):
    """Counts about the propensities of one level. atoms: see `LevelPropensities`; a density is never certain, an atom may be."""

    adds = ("decisions", "free", "certain", "below", "choices")
    lowest = ("smallest",)

    def __init__(self, level: Level, atoms: int | None = None) -> None:
        self.level, self.atoms = level, atoms
        self.decisions = 0
        self.free = 0  # with more than one action available
        self.certain = 0  # of these, with a propensity of one
        self.below = 0
        self.smallest = np.inf
        self.choices: set[int] = set()  # numbers of actions that were available
        # Which multiples of 1/100 and 1/1000 were logged; None once another number was.
        self.multiples: dict[int, set[int] | None] = {steps: set() for steps in MANY}

    @property
    def deterministic(self) -> bool:
        """Whether no decision was left to chance."""
        return self.free > 0 and self.certain == self.free

    def add(self, table: LevelTable) -> None:
        """Add the decisions of a batch."""
        self.decisions += len(table)
        mu = table.mu_taken[np.isfinite(table.mu_taken)]
        if self.level.propensity is None or not mu.size:
            return
        number = np.full(len(table), self.level.actions.count) if table.available is None else table.available.sum(axis=1)
        free = number > 1 if table.available is not None else np.ones(len(table), dtype=np.bool_)
        self.choices |= set(np.unique(number).tolist())
        self.free += int(free.sum())
        chances = free if self.atoms is None else table.action >= self.level.actions.count - self.atoms
        self.certain += int((free & chances & (table.mu_taken >= CERTAIN)).sum())
        self.smallest = min(self.smallest, float(mu.min()))
        if self.level.propensity.least is not None:
            self.below += int((mu < self.level.propensity.least * (1 - 1e-9)).sum())
        for steps, seen in self.multiples.items():
            if seen is not None and self.atoms is None:
                scaled = np.minimum(mu, 1.0) * steps
                exact = bool((np.abs(scaled - np.rint(scaled)) <= 1e-7).all())
                self.multiples[steps] = seen | set(np.unique(np.rint(scaled)).astype(int).tolist()) if exact else None

    def merge(self, other: LevelRandomisation) -> None:
        """Add the counts of other decisions."""
        super().merge(other)
        for steps, more in other.multiples.items():
            own = self.multiples[steps]
            self.multiples[steps] = None if own is None or more is None else own | more

    def findings(self, grave: Severity, mild: Severity) -> list[Finding]:
        """Return the findings, with how grave those are that refuse and those that warn."""
        spec, findings = self.level.propensity, list[Finding]()
        column = first_column(self.level)

        def find(code: str, severity: Severity, message: str, fix: str | None = None, **figures: float | str) -> None:
            message = f"level '{self.level.name}'{message}"
            findings.append(make_finding(code, severity, message, self.level.name, column, fix, figures))

        if spec is None:
            message = " has no propensity; nothing can be certified there"
            find("no-propensity", grave, message, None if self.atoms is None else NO_DENSITY)
            return findings
        if spec.wrong_by is not None:
            message = (
                f": the propensities are declared as estimated and wrong by a factor of up to {spec.wrong_by:g}; a certificate "
                "rests on that factor, which is not checked"
            )
            fix = "see that the factor holds in every context; where the controller can log its probabilities, log them"
            find("estimated-propensities", mild, message, fix)
        elif spec.estimated:
            message = ": the propensities are declared as estimated; they allow an estimate, not a certificate"
            find("estimated-propensities", grave, message)
        if self.below:
            message = f": {self.below} of {self.decisions} propensities are below the declared least {spec.least:g}"
            find("propensity-below-least", grave, f"{message}, down to {self.smallest:g}", smallest=self.smallest)
        if self.deterministic:
            every = "the one action was" if self.free == 1 else f"all {self.free} actions were"
            message = f": {every} taken with probability one; nothing else was ever tried"
            find("deterministic-level", grave, message, decisions=self.free)
            return findings
        if self.certain:
            share = self.certain / self.free
            message = f": {share:.1%} of {pluralise(self.free, 'decisions')} with a choice had a propensity of one"
            find("partly-deterministic", mild, message, share=share)
        computed = self.atoms is not None or column is None or spec.base is not None
        steps = None if computed else next((steps for steps, seen in self.multiples.items() if self._rounded(steps, seen)), None)
        if steps is not None:
            error, distinct = 0.5 / steps / max(self.smallest, 1.0 / steps), len(self.multiples[steps] or ())
            message = (
                f": all propensities are multiples of {1 / steps:g} ({distinct} different ones), as if rounded; a weight may be "
                f"off by {error:.1%}"
            )
            find("rounded-propensities", mild, message, distinct=distinct, error=error)
        return findings

    def _rounded(self, steps: int, seen: set[int] | None) -> bool:
        """Say whether there are many multiples, or one that is a uniform choice from some number of actions, rounded."""
        numbers = [number for number in self.choices if number > 1 and steps % number]
        return seen is not None and (len(seen) >= MANY[steps] or any(round(steps / number) in seen for number in numbers))


class LevelPropensities(Sums):
    """Evidence about the propensities of one level.

    atoms: of a level with densities, whose propensities are those of cells and atoms, how many of the last actions are atoms.
    Calibration and history begin with the first batch, which has the cuts.
    """

    adds = ("randomisation", "draws", "tests", "history")

    def __init__(self, level: Level, atoms: int | None) -> None:
        self.level = level
        self.halves = ActionHalves.of(level, atoms) if level.propensity is not None else None
        self.randomisation = LevelRandomisation(level, atoms)
        self.draws = ClusterDraws()
        self.tests: dict[str, LevelCalibration | ContextLeans] = {}
        self.history: LevelHistory | None = None
        self.thinning, self.fewer = Thinning(MOST_CALIBRATED), Thinning(MOST_DECISIONS)

    def add(self, view: BatchView) -> None:
        """Add the decisions of a batch."""
        name, halves = self.level.name, self.halves
        self.randomisation.add(view.batch.levels[name])
        if self.level.propensity is None:
            return
        if self.history is None:
            cuts = view.cuts.context[name]
            self.tests, self.history = {"actions": LevelCalibration(self.level, cuts)}, LevelHistory(self.level, cuts)
            if halves is not None and halves.several:
                self.tests["halves"] = LevelCalibration(halves.level, cuts)
            if halves is not None:
                self.tests["leans"] = ContextLeans(halves, cuts)
        part = self.thinning.part(view, name)
        if part is not None:
            table, looks, fresh, share = (
                part.batch.levels[name],
                part.looks(name),
                part.fresh_at(name),
                self.draws.add(part, name),
            )
            for kind, test in self.tests.items():
                test.add(halves.table(table) if halves is not None and kind == "halves" else table, looks, fresh, share)
        part = self.fewer.part(view, name)
        if part is not None:
            self.history.add(part.batch.levels[name], part.looks(name), part.fresh_at(name), part.episodes[name], len(part.batch))

    def slices(self) -> list[SliceEvidence]:
        """Return the evidence of every action, and of every half of them, in every slice, and of leans to contexts."""
        slices = [part for test in self.tests.values() for part in test.slices()]
        batches = self.draws.batches(max((part.log_evidence for part in slices), default=-math.inf))
        return slices if batches is None else [part for test in self.tests.values() for part in test.slices(batches)]


class Propensities(Check):
    """Evidence about the propensities of all levels. The two forms of the calibration test share alpha."""

    adds = ("levels",)

    def __init__(self, setting: AuditSetting) -> None:
        super().__init__(setting)
        self.levels = {level.name: LevelPropensities(level, setting.atoms.get(level.name)) for level in self.problem.levels}

    def add(self, view: BatchView) -> None:
        """Add the decisions of a batch."""
        for level in self.levels.values():
            level.add(view)

    @property
    def histories(self) -> dict[str, LevelHistory]:
        """The histories of levels with propensities."""
        return {name: level.history for name, level in self.levels.items() if level.history is not None}

    def slices(self) -> dict[str, list[SliceEvidence]]:
        """Return the evidence in every slice of each level."""
        return {name: self.levels[name].slices() for name in self.histories}

    def findings(self, known: Known) -> list[Finding]:
        """Return the findings, and hand the strongest evidence of each level to later checks."""
        findings: list[Finding] = []
        for name, level in self.levels.items():
            findings += level.randomisation.findings(*self.severities(name))
        slices = self.slices()
        known.strongest = {name: max((part.log_evidence for part in own), default=-math.inf) for name, own in slices.items()}
        dependent = [name for name, history in self.histories.items() if history.depends() >= NOT_SEQUENTIAL]
        doubted = [*dependent, *self.problem.wrong_by()]
        own = {name: parts for name, parts in slices.items() if name in self.problem.wrong_by()}
        wrong = [*self._per_decision(slices, doubted), *self._per_episode(slices, dependent)]
        wrong += self._per_decision(own, dependent) if own else []
        refuted = [item.level for item in wrong if item.level is not None]
        findings += [soften(self.problem, item) for item in wrong]
        findings += [self._dependent(name) for name in dependent if name not in refuted]
        findings += self._doubtful(slices, [*refuted, *doubted])
        for name, parts in slices.items():
            findings += [] if name in refuted else self._below_one(name, parts)
        return findings

    def figures(self) -> dict[str, float | str]:
        """Return the mean evidence over all slices of all levels, the whole log having half the weight."""
        slices = [part for parts in self.slices().values() for part in parts]
        return {"log10_calibration_evidence": max(SliceShares(slices).mean_log(slices) / math.log(10), -300.0)}

    def _per_decision(self, slices: dict[str, list[SliceEvidence]], dependent: list[str]) -> list[Finding]:
        """Refuse if the mean evidence over all slices reaches 2/alpha; levels whose decisions depend on each other count as 0."""
        every = [part for parts in slices.values() for part in parts]
        shares = SliceShares(every)
        tested = {name: parts for name, parts in slices.items() if name not in dependent and parts}
        limit = math.log(2.0 / self.alpha)
        if not tested or shares.mean_log(part for parts in tested.values() for part in parts) < limit:
            return []
        strongest = max(shares.log(part) for parts in tested.values() for part in parts)
        findings: list[Finding] = []
        for name, parts in tested.items():
            ordered = sorted(parts, key=lambda part: -shares.log(part))
            strong = sum(shares.log(part) >= limit for part in parts)
            if not strong and strongest > shares.log(ordered[0]):
                continue  # another level has the strongest slice
            findings.append(self._miscalibrated(name, ordered[: min(NAMED, strong or NAMED)], strong, len(every)))
        return findings

    def _doubtful(self, slices: dict[str, list[SliceEvidence]], left_out: Collection[str]) -> list[Finding]:
        """Warn of the level with the strongest evidence if some of it is there, over all slices or over the whole log only."""
        shares = SliceShares([part for parts in slices.values() for part in parts])
        tested = [part for name, parts in slices.items() if name not in left_out for part in parts]
        whole = [part for part in tested if not part.where]
        if not whole:
            return []
        evidence = max(shares.mean_log(tested), SliceShares(whole).mean_log(whole))
        if evidence < DOUBT:
            return []
        strongest = max(tested, key=shares.log)
        level, odds = strongest.level, math.exp(min(evidence, 700.0))  # the largest that is a number
        message = (
            f"there is some evidence, {odds:.3g} to 1, that actions were not taken as often as their propensities say: "
            f"{_described(strongest)}"
        )
        figures = {"log10_evidence": evidence / math.log(10), **_slice_figures(strongest)}
        return [self._finding("doubtful-propensities", self.severities(level)[1], level, message, figures)]

    def _miscalibrated(self, level: str, parts: list[SliceEvidence], strong: int, number: int) -> Finding:
        described = "; ".join(_described(part) for part in parts)
        more = f" and {strong - len(parts)} further slices" if strong > len(parts) else ""
        message = f"actions were not taken as often as their propensities say: {described}{more}"
        figures: dict[str, float | str] = {"slices": float(number), "slices_refuted": float(strong)}
        figures |= {"log10_evidence": parts[0].log_evidence / math.log(10), **_slice_figures(parts[0])}
        fix = self._fix_of_shares(level)
        return self._finding(
            "miscalibrated-propensities", "refused" if level in self.scope else "warning", level, message, figures, fix
        )

    def _per_episode(self, slices: dict[str, list[SliceEvidence]], dependent: list[str]) -> list[Finding]:
        """Refuse levels whose decisions depend on each other if their episode sums are off; the levels share half of alpha."""
        findings: list[Finding] = []
        for name in dependent:
            history = self.histories[name]
            scores = history.scores()
            score = float(scores.ravel()[np.abs(scores).argmax()])
            if abs(score) < history.limit(self.alpha / 2.0 / len(self.histories)):
                continue
            strongest = max(slices[name], key=lambda part: part.log_evidence)
            message = (
                f"summed over episodes, actions were not taken as often as their propensities say (standard score {score:.1f}); "
                f"{_described(strongest)}"
            )
            figures, fix = {"score": score, **_slice_figures(strongest)}, self._fix_of_shares(name)
            findings.append(
                self._finding(
                    "miscalibrated-propensities", "refused" if name in self.scope else "warning", name, message, figures, fix
                )
            )
        return findings

    def _dependent(self, level: str) -> Finding:
        history = self.histories[level]
        message = (
            "decisions repeat the action before them more or less often than their propensities say. Either one of several "
            "policies acts in an episode and probabilities are logged given the actions above only, or the controller looks at "
            "earlier decisions and its propensities do not"
        )
        figures = {"log10_evidence": history.depends() / math.log(10), "pairs": float(history.again.pairs)}
        return self._finding("propensities-not-sequential", "warning", level, message, figures)

    def _below_one(self, level: str, parts: list[SliceEvidence]) -> list[Finding]:
        """Warn of mean weights below one where no bound makes this a test; missing overlap looks the same."""
        spec = self.problem.level(level).propensity
        if self.levels[level].randomisation.deterministic or (spec is not None and spec.least is not None):
            return []
        limit = upper_quantile(self.alpha / max(len(parts), 1))
        whole = [part for part in parts if not part.where and np.isnan(part.expected)]
        low = [part for part in whole if part.mean_weight < 1 - limit * part.spread]
        if not low:
            return []
        worst = min(low, key=lambda part: part.mean_weight)
        message = (
            f"the weights of {pluralise(len(low), 'actions')} average below one, down to {worst.mean_weight:.3g} for "
            f"{worst.action}, taken {_often(worst)}"
        )
        figures: dict[str, float | str] = {"actions": float(len(low)), "mean_weight": worst.mean_weight, "action": worst.action}
        fix = BELOW_ON_INTERVAL if level in self.setting.atoms else None
        return [self._finding("weights-below-one", self.severities(level)[1], level, message, figures, fix)]

    def _finding(
        self, code: str, severity: Severity, level: str, message: str, figures: Mapping[str, float | str], fix: str | None = None
    ) -> Finding:
        column = first_column(self.problem.level(level))
        return make_finding(code, severity, f"level '{level}': {message}", level, column, fix, figures)

    def _fix_of_shares(self, level: str) -> str | None:
        """Return what to do where wrong propensities are declared shares; None where they are anything else."""
        spec, actions = self.problem.level(level).propensity, self.problem.level(level).actions
        if spec is None or not spec.shares:
            return None
        pairs = [f"{value} {share:g}" for value, share in zip(actions.values, spec.shares, strict=True)]
        declared = ", ".join(pairs[:MOST_NAMED_SHARES]) + (", ..." if len(pairs) > MOST_NAMED_SHARES else "")
        return (
            f"see that 'shares' are in the order of the action's values (declared: {declared}), and that a coin or random number "
            "with these chances decided in each case: a calendar, turns or quotas are no shares"
        )


def _slice_figures(part: SliceEvidence) -> dict[str, float | str]:
    return {"slice": part.words, "mean_weight": part.mean_weight}


def _described(part: SliceEvidence) -> str:
    if math.isnan(part.expected):
        return f"{part.words}: mean weight {part.mean_weight:.3g} instead of 1 over {pluralise(part.decisions, 'decisions')}"
    return f"{part.words}: {_often(part, f' instead of {part.expected:.1f}')}"


def _often(part: SliceEvidence, expected: str = "") -> str:
    """Return how often an action was taken, and in how many decisions."""
    return f"{pluralise(part.taken, 'times')}{expected} in {pluralise(part.decisions, 'decisions')}"


MOST_DECISIONS = 2**16  # of a level that are all read; then some batches only
FEWEST_EPISODES = 50  # episodes, below which a standard score means little


class LevelHistory(Sums):
    """Evidence about one level: that an action depends on the sibling's before it, and standard scores over episodes."""

    adds = ("again", "sums", "one_sided")

    def __init__(self, level: Level, cuts: tuple[Cut, ...]) -> None:
        self.level, self.cuts = level, cuts
        self.labels = ["", *[label for cut in cuts for label in cut.labels]]
        self.again = ActionRepeats()
        self.sums = np.zeros((3, len(self.labels), set_count(level)))  # episodes, sums, squares
        self.one_sided = False

    def add(self, table: LevelTable, rows: Rows, fresh: Mask, owner: AnyArray, count: int) -> None:
        """Add the decisions of `count` episodes; owner `[m]` is the episode of each, rows what they looked at."""
        before = np.flatnonzero(has_next_sibling(table.parent))
        if before.size and (table.mu_taken > 0).all():  # a batch with holes says little about what follows what
            self.again.add(table, before, before + 1)
            self._add_episodes(table, rows, fresh, owner, count)

    def depends(self) -> float:
        """Return log evidence that actions repeat that of the sibling before them more or less often than propensities say."""
        return self.again.evidence()

    def scores(self) -> Array:
        """Return standard scores `[slices, sets]` of episode sums; 0 where there are too few.

        With the probability of the action taken only, weights below one may be missing overlap: only excess counts.
        """
        number, total, square = self.sums
        enough = number >= FEWEST_EPISODES
        spread = np.sqrt(np.maximum(square - total**2 / np.maximum(number, 1.0), 0.0))
        score = np.where(enough & (spread > 0), total / np.where(spread > 0, spread, 1.0), 0.0)
        return np.maximum(score, 0.0) if self.one_sided else score

    def limit(self, alpha: float) -> float:
        """Return the standard score that one of all slices and sets exceeds with probability alpha at most."""
        return upper_quantile(alpha / 2.0 / self.sums[0].size)

    def _add_episodes(self, table: LevelTable, rows: Rows, fresh: Mask, owner: AnyArray, count: int) -> None:
        choices = Choices.of(self.level, table)
        self.one_sided |= choices.chance is None
        masks = [np.ones(len(table), dtype=np.bool_)]
        for cut in self.cuts:
            codes = np.where(fresh, cut.codes(rows), -1)
            masks += [codes == place for place in range(cut.bins)]
        for place, mask in enumerate(masks):
            chosen = np.flatnonzero(mask)
            totals = choices.take(chosen).surprises(owner[chosen], count)
            self.sums[0, place] += np.count_nonzero(np.bincount(owner[chosen], minlength=count))
            self.sums[1, place] += totals.sum(axis=0)
            self.sums[2, place] += (totals * totals).sum(axis=0)
