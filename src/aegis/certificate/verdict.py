"""The verdict: one sentence a plant manager can act on, and what to do next."""

from __future__ import annotations

import decimal
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aegis.audit import CAPPED_NEEDS, knows_all_propensities
from aegis.certificate.certificate import CERTIFIED, NOT_YET, REFUSED, LevelResult, Verdict
from aegis.certificate.results import FORESEEABLE, THIN_UNITS
from aegis.certificate.risk import RiskShare
from aegis.errors import pluralise
from aegis.ope import AGAINST_AVERAGE, AGAINST_LOG, unit_word
from aegis.problem import Problem

SMALL_WEIGHT = 3.0  # a largest weight that capping would not lower by much
EQUAL_WEIGHTS = 1e-9  # by which weights may differ from one
NEGLIGIBLE_SHARE = 1e-9  # share of a gain that is negligible
STEPPED_WORDS = "a stepped candidate (aegis learn --kind stepped), close to a stated incumbent,"
INTERFERENCE = ("carry-over", "siblings-interfere", "episodes-interfere", "neighbours-interfere", "cluster-interferes")
NOT_TESTED = ("rewards-not-compared", "episodes-not-compared")
MANY_UNITS = 10_000_000  # units beyond which a forecast says no more than that


@dataclass(frozen=True, slots=True)
class WeightDoubt:
    """Weights that average more than one, with too little evidence to refuse them: their mean, and the chance of it in words."""

    mean: float
    chance: str


@dataclass(frozen=True, slots=True)
class Caveats:
    """What a verdict says beside its numbers.

    doubts: about weights, by candidate and scope. assumed: candidates without a training record, which are assumed to have been
    fixed before the log was seen. moving: levels that several policies logged, where no candidate can be capped. warned: codes
    of the audit's warnings.
    """

    doubts: Mapping[tuple[str, tuple[str, ...]], WeightDoubt] = field(default_factory=dict)
    assumed: Collection[str] = ()
    moving: Collection[str] = ()
    warned: Collection[str] = ()


NO_CAVEATS = Caveats()


def judge_results(
    problem: Problem,
    levels: Sequence[LevelResult],
    delta: float,
    fixes: Sequence[str],
    share: RiskShare | None = None,
    caveats: Caveats = NO_CAVEATS,
) -> Verdict:
    """Return the verdict over all results: that of the scope with the largest certified gain, or of the one nearest to it.

    delta: the risk of these results. share: how the risk is shared with other requests on these data.
    """
    best, shared, word = recommended_result(levels), share or RiskShare.alone(delta), unit_word(problem)
    declared = shared.fixed_before and (
        f' Declared in writing, and not checked: the request was fixed before any result on these data ("{shared.fixed_before}").'
    )
    if best is None or best.verdict == REFUSED:
        reason = best.reason if best is not None else "there is nothing to certify"
        fix = fixes[0] if fixes else "see the findings"
        sentence = f"Refused: {reason}"
        step = f"Do not hand over. {fix[:1].upper()}{fix[1:]}{'' if fix.endswith('.') else '.'}"
    elif best.verdict == CERTIFIED:
        sentence, step = _certified(problem, best, word, shared)
        sentence, step = _with_warnings(sentence, step, caveats.doubts.get((best.candidate, best.scope)), caveats.warned)
    else:
        sentence, step = _not_yet(problem, best, word, shared, _closer(problem, best, caveats.moving))
    if best is not None and best.verdict != REFUSED:
        sentence += _remarks(problem, best, levels, caveats.assumed)
    numbers: dict[str, Any] = {"candidate": None, "scope": (), "units": 0}
    if best is not None:
        numbers = {name: getattr(best, name) for name in (*numbers, "gain_lower", "estimate", "further_units")}
    return Verdict(
        verdict=REFUSED if best is None else best.verdict,
        sentence=sentence + declared,
        unit=problem.reward.unit,
        unit_word=word,
        delta=delta,
        next_step=step,
        **numbers,
    )


def _with_warnings(sentence: str, step: str, doubt: WeightDoubt | None, warned: Collection[str]) -> tuple[str, str]:
    """Return sentence and next step of a certified verdict with what speaks against it."""
    if doubt is not None:
        sentence += (
            f" But its weights average {doubt.mean:.4g} and not one, to which a log in order comes with a chance of "
            f"{doubt.chance}: if something is wrong with the log, this gain need not be there."
        )
        step = (
            f"First find out why the weights average {doubt.mean:.4g} (doubtful-weights): is a context known only after the "
            f"decision, or are logged probabilities too low? If nothing is found: {_lower(step)}"
        )
    signs, untested = (join_words([code for code in codes if code in warned]) for codes in (INTERFERENCE, NOT_TESTED))
    if signs:
        sentence += f" But the audit warns that decisions or episodes act on each other ({signs}): if they do, "
        sentence += "this gain need not be there."
        step = f"First rule out that decisions or episodes act on each other ({signs}). If they do not: {_lower(step)}"
    elif untested:
        sentence += (
            " Whether decisions or episodes act on each other's later rewards was not tested, because the controller reacts to "
            f"them ({untested})."
        )
        step = f"First make sure that decisions and episodes do not act on each other ({untested}). Then {_lower(step)}"
    return sentence, step


def _lower(step: str) -> str:
    return f"{step[:1].lower()}{step[1:]}"


def _remarks(problem: Problem, best: LevelResult, levels: Sequence[LevelResult], assumed: Collection[str]) -> str:
    """Return what is said beside the numbers of a result that is not refused."""
    text = ""
    if best.candidate in assumed:
        text += " The candidate is assumed fixed before this log was seen: no training record shows it."
    factors = problem.wrong_by(best.scope)
    if factors:
        words = join_words([f"{factor:g} at '{name}'" for name, factor in factors.items()])
        text += f" Propensities may be wrong by a factor of up to {words}, as declared."
    text += _without_exploring(problem, best)
    refused = sum(level.verdict == REFUSED for level in levels)
    if refused:  # a verdict on one scope is none on these
        text += f" {refused} of {len(levels)} scopes {'is' if refused == 1 else 'are'} refused: see the findings."
    return text


def _without_exploring(problem: Problem, best: LevelResult) -> str:
    """Return the gain over the log as it was written, and the part of it that the incumbent has as well; estimates."""
    if best.exploration is None or best.estimate is None:
        return ""
    unit, whole, part = problem.reward.unit, best.estimate + best.exploration, best.exploration
    included = ", exploration included" if best.explored else ""
    over = f" Estimated over the log as it was written{included}: {format_amount(whole, unit)}"
    most = "; the incumbent counts as earning the most where the log never acts" if best.unreached > 0 else ""
    if format_amount(abs(part), "") == "0" or abs(part) < NEGLIGIBLE_SHARE * max(abs(whole), abs(best.estimate)):
        return f"{over}; the incumbent earns as much as the log did{most}."
    if not 0 < part <= whole:
        more = "more" if part > 0 else "less"
        return f"{over}; the incumbent earns {format_amount(abs(part), unit)} {more} than the log did{most}."
    why = "comes from no longer exploring" if best.explored else "is the difference between the incumbent and the log"
    return f"{over}, of which {format_amount(part, unit)} {why}{most}."


def recommended_result(levels: Sequence[LevelResult]) -> LevelResult | None:
    """Return the certified result with the largest bound; else the one nearest to being certified; else a refused one."""
    if not levels:
        return None
    certified = [level for level in levels if level.verdict == CERTIFIED]
    if certified:
        return max(certified, key=lambda level: -1e300 if level.gain_lower is None else level.gain_lower)
    waiting = [level for level in levels if level.verdict == NOT_YET]
    if waiting:
        return min(waiting, key=lambda level: (level.further_units is None, level.further_units or 0, -(level.estimate or 0.0)))
    return levels[0]


def blocking_level(
    problem: Problem, weights: Sequence[Mapping[str, Any]], levels: Sequence[LevelResult], moving: Collection[str] = ()
) -> str:
    """Return a sentence on which level's weights stand in the way of the scopes that are not certified.

    moving: levels that several policies logged, where a cap would follow each in turn.
    """
    waiting = [level for level in levels if level.verdict == NOT_YET]
    single = [item for item in weights if item.get("level") and item.get("ess_share") is not None]
    involved = [item for item in single if any(item["level"] in level.scope for level in waiting)]
    if not involved:
        return "No level's weights stand in the way."
    worst = min(involved, key=lambda item: item["ess_share"])
    if worst["ess_share"] >= 1.0 - EQUAL_WEIGHTS:
        return "No level's weights stand in the way: all are 1."
    others = [item for item in single if item["level"] != worst["level"]]
    text = (
        f"The weights at '{worst['level']}' slow things down most: the effective sample is {100 * worst['ess_share']:.3g} % of "
        f"its decisions, the largest weight {worst['largest']:.3g}"
    )
    if others:
        best = max(others, key=lambda item: item["ess_share"])
        text += f" (at '{best['level']}': {100 * best['ess_share']:.3g} %, {best['largest']:.3g})"
    if worst["largest"] <= SMALL_WEIGHT:
        return f"{text}."
    if problem.level(worst["level"]).actions.continuous:  # where no candidate can be capped
        return f"{text}. A wider 'bandwidth' makes them smaller."
    if worst["level"] in moving:
        return f"{text}. {STEPPED_WORDS[:1].upper()}{STEPPED_WORDS[1:]} keeps them small."
    needs = "" if knows_all_propensities(problem, worst["level"]) else f"; {CAPPED_NEEDS}"
    return f"{text}. A capped candidate (aegis learn --kind capped) keeps them small{needs}."


def join_words(words: Sequence[str]) -> str:
    """Return words as one says them: a, b and c; nothing without any."""
    return "".join(words) if len(words) < 2 else f"{', '.join(words[:-1])} and {words[-1]}"


def format_amount(value: float | None, unit: str) -> str:
    """Return a number with its unit."""
    if value is None:
        return "unknown"
    return f"{value:.4g} {unit}".rstrip()


def format_forecast(number: int, things: str, before: str = "") -> str:
    """Return a forecast of how many things it takes: about 20 new episodes; a number beyond all use is not written out."""
    if number > MANY_UNITS:
        return f"more than {MANY_UNITS // 10**6} million {before}{things}"
    return f"about {pluralise(number, things, before)}"


def format_at_least(value: float | None, unit: str = "", upper: bool = False) -> str:
    """Return a lower bound with its unit, rounded down (an upper one: up), so that no text promises more than was certified."""
    if value is None or value == 0:
        return format_amount(value, unit)
    exact = decimal.Decimal(repr(float(value)))
    step = decimal.Decimal(1).scaleb(exact.adjusted() - 3)  # four digits
    side = decimal.ROUND_CEILING if upper else decimal.ROUND_FLOOR
    return format_amount(float(exact.quantize(step, rounding=side)), unit)


def _certified(problem: Problem, best: LevelResult, word: str, share: RiskShare) -> tuple[str, str]:
    earns, more = ("earns", "more") if problem.reward.goal == "maximise" else ("costs", "less")
    all_hold = f"{share.words} hold; " if share.requests > 1 else ""
    sentence = (
        f"Certified: with probability at least {_percent(1 - share.total)}, {all_hold}{best.candidate} at {_scope(best)} "
        f"{earns} at least {format_at_least(best.gain_lower, problem.reward.unit)} {more} per {_per(problem)} than "
        f"{_compared(best)} ({_estimate(best, problem.reward.unit)}), on {pluralise(best.units, word)}."
    )
    return sentence, _deploy(best)


def _deploy(best: LevelResult) -> str:
    """Return what to do with a certified candidate: who it is better than decides whether it may be handed over."""
    deploy = f"eploy {best.candidate} at {_scope(best)} unchanged. Keep logging propensities, so that the gain can be monitored."
    state = (
        "state the incumbent ('incumbent' in the problem file, or --incumbent) and certify against it on a log that came later"
    )
    if best.against == AGAINST_AVERAGE:
        return (
            f"Before you hand over, {state}. {best.candidate} is better than the average of the log. Whether it is better than "
            "the policy that acts if nothing is handed over is not certified."
        )
    if best.against == AGAINST_LOG:
        return (
            f"If the policy that wrote the log, exploration included, is what acts if nothing is handed over, d{deploy} If your "
            f"controller does not explore then, do not hand over yet: {state}."
        )
    return f"D{deploy}"


def _estimate(best: LevelResult, unit: str) -> str:
    """Return the estimate; a bound above it needs a word."""
    text = f"estimate {format_amount(best.estimate, unit)}"
    if best.estimate is None or best.gain_lower is None or best.gain_lower <= best.estimate:
        return text
    return f"{text}, a mean in which all units count alike; the bound bets on them and may lie above it"


def _not_yet(problem: Problem, best: LevelResult, word: str, share: RiskShare, closer: str) -> tuple[str, str]:
    unit, units = problem.reward.unit, pluralise(best.units, word)
    of = f" (its share of {_percent(share.total)} for {share.words})" if share.requests > 1 else ""
    goal = f"more than {format_amount(best.margin, unit)} better" if best.margin else "better"
    sentence = (
        f"Not yet: on {units} it is not certified at risk {_percent(share.risk)}{of} that {best.candidate} at {_scope(best)} is "
        f"{goal} than {_compared(best)}; its gain per {_per(problem)} is at least {format_at_least(best.gain_lower, unit)} "
        f"({_estimate(best, unit)})."
    )
    effective = best.weights.get("effective_units")
    if effective is not None and effective < THIN_UNITS and best.units >= FORESEEABLE:
        step = (
            f"The log hardly contains decisions like those of {best.candidate}: {units} tell as much of it as about "
            f"{effective:.2g} of its own would, too few to foresee how many more it would take. Take a candidate closer to the "
            f"legacy ({closer}), or let the legacy explore more."
        )
    elif best.further_units is not None:
        step = (
            f"Log {format_forecast(best.units + best.further_units, word, 'new ')} as before, if evidence goes on growing as it "
            "did, and certify the same candidate on them alone, in a file of their own: that costs no further risk. The whole "
            f"log again takes {format_forecast(best.further_units, word, 'further ')}, but it is a second look at these data: "
            f"ask for the sum of both risks (--delta {share.total + share.risk:.4g})."
        )
    elif best.units < FORESEEABLE:
        step = (
            f"{units} {'is' if best.units == 1 else 'are'} too few to foresee anything: log at least {FORESEEABLE} new ones, and "
            "certify on them alone, in a file of their own."
        )
    else:
        step = (
            f"More of the same data would not do: take another candidate, closer to the legacy ({closer}), explore more, or "
            "declare a narrower reward range if it is true."
        )
    return sentence, f"Keep the incumbent. {step}"


def _compared(best: LevelResult) -> str:
    """Return who a candidate is compared with, and how the other levels act meanwhile."""
    return f"{best.comparator}, {best.others}" if best.others else best.comparator


def _closer(problem: Problem, best: LevelResult, moving: Collection[str]) -> str:
    """Return how to come closer to the legacy."""
    if set(best.scope) & set(moving):
        return "aegis learn --kind stepped, around a stated incumbent; several policies wrote the log, so that a cap is none"
    if any(problem.level(name).actions.continuous for name in best.scope):
        return "one that chooses nearer to what the legacy chooses, or a wider 'bandwidth'"
    how = "aegis learn --kind capped, with a smaller --cap if it is capped already"
    return how if all(knows_all_propensities(problem, name) for name in best.scope) else f"{how}; {CAPPED_NEEDS}"


def _per(problem: Problem) -> str:
    if problem.cluster_most is not None:
        return "possible episode"
    per = problem.reward.per
    return per if per in ("decision", "episode") else f"'{per}' decision"


def _scope(best: LevelResult) -> str:
    return join_words([f"'{name}'" for name in best.scope])


def _percent(share: float) -> str:
    return f"{100 * share:.6g} %"
