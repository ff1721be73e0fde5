"""The protocol of hosts: proposals for each level, checked on logged contexts before anything is frozen."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from aegis.certificate import is_code
from aegis.errors import AegisError, PolicyError, RefusedError
from aegis.handover.run_history import History
from aegis.policies import Capped, open_actions, path_full, policy_digest
from aegis.problem import SUM_TOLERANCE, AnyArray, Array, Batch, Policy, Problem, RewardModel
from aegis.rng import stream

LOOKED_AT = 32  # episodes, the latest, on which a proposal is tried out


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a host thinks of a level: scores that a capped challenger fills from the best action down, and a prediction.

    scores: in the units of the reward as logged, small ones being good if the goal is to minimise; only their order counts.
    prediction: of the reward below each action, in logged units: what bets are placed by. It may be wrong: that only takes
    longer; None bets on a constant. policy: to be challenged with as it is, beside the capped ones; None if there is none.
    """

    scores: RewardModel
    prediction: RewardModel | None
    policy: Policy | None = None


def capped_steps(problem: Problem, legacy: Policy, level: str, proposal: Proposal, caps: Sequence[float]) -> dict[float, Policy]:
    """Return the policies to challenge with at a level, by cap: capped steps over the legacy, and the policy as it is.

    The latter, which has no cap, takes the place of the step without one.
    """
    steps: dict[float, Policy] = {limit: Capped(problem, proposal.scores, legacy, limit, [level]) for limit in caps}
    return steps if proposal.policy is None else {**steps, math.inf: proposal.policy}


class Host(Protocol):
    """Proposes challengers. `propose` depends on what it is given and on nothing else, so that a run can be resumed.

    It must not know what the plant will do next: what is certified rests on episodes that were unknown at the freeze.
    """

    @property
    def name(self) -> str:
        """Return its name."""
        ...

    def propose(self, history: History, levels: Sequence[str], seed: int) -> Mapping[str, Proposal]:
        """Return a proposal for each level it has one for; everything else is supposed to go on as it is."""
        ...


@runtime_checkable
class Explorer(Protocol):
    """A host that can also explore while data are collected."""

    def explore(self, history: History, levels: Sequence[str], seed: int) -> Policy:
        """Return a frozen policy that acts at these levels, for a share of the decisions of the controller in charge."""
        ...


def host_seed(source: object, seed: int) -> int:
    """Return the seed that a host or a learner is given: for code of a user's, another one than that of the run.

    The plant draws what comes next from that of the run, and a host must not know the future. Hosts of this package
    draw from streams that have a name of their own.
    """
    if type(source).__module__.startswith("aegis."):
        return seed
    return int(stream(seed, "seed of a host").integers(2**63))


def check_proposals(host: str, proposals: Mapping[str, Proposal], history: History, levels: Sequence[str]) -> None:
    """Raise PolicyError, naming host and level, unless every proposal is for a level asked about and can be acted on.

    Tried out on the latest episodes: a policy's probabilities must be distributions, scores and predictions finite numbers of
    the right shape, and everything must be storable, since what is certified is known by its digest.
    """
    whole = history.everything()
    latest = whole.take_episodes(np.arange(max(0, len(whole) - LOOKED_AT), len(whole)))
    for level, proposal in proposals.items():
        where = f"host '{host}', level '{level}'"
        if level not in levels:
            raise PolicyError(f"{where}: nothing was asked about this level; levels asked about: {', '.join(levels)}")
        try:
            _check(proposal, level, latest, where)
        except AegisError as error:
            raise PolicyError(str(error) if str(error).startswith(where) else f"{where}: {error}") from error
        except Exception as error:  # any that a user's own model or policy raises
            raise PolicyError(f"{where}: raised {type(error).__name__}: {error}") from error


def _check(proposal: Proposal, level: str, batch: Batch, where: str) -> None:
    full = batch.levels[level].mu_full
    count = None if full is None else full.shape[1]
    if proposal.policy is not None:
        _check_policy(proposal.policy, level, batch, where, count)
    _check_model(proposal.scores, "score", level, batch, where, count)
    if proposal.prediction is not None and proposal.prediction is not proposal.scores:
        _check_model(proposal.prediction, "prediction", level, batch, where, count)


def _check_policy(policy: Policy, level: str, batch: Batch, where: str, actions: int | None) -> None:
    answer = np.asarray(policy.full(level, batch))
    expected = (policy.weights.size, len(batch.levels[level]))
    if answer.ndim != 3 or answer.shape[:2] != expected or (actions is not None and answer.shape[2] != actions):
        raise PolicyError(
            f"{where}: 'full' answers probabilities of the shape {list(answer.shape)}, expected [particles, decisions, actions] "
            f"= {[*expected, 'A' if actions is None else actions]}"
        )
    check_distributions(path_full(policy, level, batch), where)
    check_timeless(policy, lambda asked: path_full(policy, level, asked), level, batch, where)
    policy_digest(policy)


def _check_model(model: RewardModel, what: str, level: str, batch: Batch, where: str, actions: int | None) -> None:
    scores = np.asarray(model.predict(level, batch))
    table = batch.levels[level]
    if scores.ndim != 2 or len(scores) != len(table) or (actions is not None and scores.shape[1] != actions):
        expected = [len(table), "A" if actions is None else actions]
        raise PolicyError(f"{where}: {what}s have the shape {list(scores.shape)}, expected [decisions, actions] = {expected}")
    wrong = ~np.isfinite(scores) & open_actions(table.available, len(scores), scores.shape[1], where)
    if wrong.any():
        row, action = (int(place) for place in np.argwhere(wrong)[0])
        raise PolicyError(f"{where}, row {row}: the {what} of action {action} is {scores[row, action]}, expected a finite number")
    check_timeless(model, lambda asked: np.asarray(model.predict(level, asked)), level, batch, where)


def check_distributions(chances: Array, where: str, episodes: AnyArray | None = None) -> None:
    """Raise PolicyError unless probabilities `[n, A]` are finite, not negative, and sum to one.

    episodes: the id `[n]` of the episode of each row, to be named.
    """
    wrong = ~(np.isfinite(chances).all(axis=1) & (chances >= 0).all(axis=1))
    wrong |= ~(np.abs(chances.sum(axis=1) - 1.0) <= SUM_TOLERANCE)
    if wrong.any():
        row = int(np.argmax(wrong))
        named = "" if episodes is None else f" (episode {episodes[row]})"
        raise PolicyError(
            f"{where}, row {row}{named}: the probabilities {np.round(chances[row], 6).tolist()} are not a distribution; they "
            "must be finite, not negative and sum to one"
        )


SLACK = 1e-9  # probabilities that were added up may exceed one by a hair


def logged_propensities(level: str, batch: Batch) -> Array:
    """Return the logged probability of every action taken `[n]`; RefusedError if one cannot be."""
    propensities = batch.levels[level].mu_taken
    wrong = ~((propensities > 0) & (propensities <= 1.0 + SLACK))
    if wrong.any():
        row = int(np.argmax(wrong))
        episode = batch.episode[batch.episode_of(level)[row]]
        raise RefusedError(
            f"level '{level}', row {row} (episode {episode}): the logged propensity of the action is {propensities[row]}; "
            "expected a number above 0 and at most 1, the probability with which the acting policy chose it"
        )
    return propensities


CLOSE = 1e-5  # of the largest answer: sums in 32 bits depend on the order of the rows


def check_timeless(source: object, answer: Callable[[Batch], Array], level: str, batch: Batch, where: str) -> None:
    """Raise PolicyError if code answers by the number of an episode, or by the place of a row, instead of the contexts.

    answer: of what is asked, a policy or a model, `[n, A]` for the decisions of a level.
    """
    if not is_code(source):
        return
    known = batch.before(level)
    backwards = np.arange(len(batch))[::-1]
    other = known.take_episodes(backwards)
    other = Batch(_other_ids(other.episode), other.levels, cluster=other.cluster, time=other.time, extra=other.extra)
    rows = np.argsort(-batch.episode_of(level), kind="stable")
    before = answer(known)
    try:
        after = answer(other)
    except AegisError:
        raise
    except Exception as error:  # any that a user's own policy raises
        raise PolicyError(
            f"{where}: asked about the same contexts in episodes of other numbers, it raised {type(error).__name__}: {error}"
        ) from error
    close = CLOSE * max(1.0, float(np.abs(before).max(initial=0.0)))
    off = ~(np.abs(after - before[rows]).max(axis=1, initial=0.0) <= close)
    if off.any():
        row = int(np.argmax(off))
        raise PolicyError(
            f"{where}: asked about the same contexts in another order, in episodes of other numbers, it answers "
            f"{np.round(after[row], 6).tolist()} instead of {np.round(before[rows][row], 6).tolist()}. What is certified is what "
            "a policy does in a context: if it is to depend on a time or a number, declare that as a context"
        )


def _other_ids(ids: AnyArray) -> AnyArray:
    """Return ids that no episode has had, of the same kind."""
    if np.issubdtype(ids.dtype, np.integer):
        return ids + (2**31 if ids.dtype.itemsize >= 8 else 2**15)
    if ids.dtype.kind in "US":
        return np.array([f"another {place}" for place in range(ids.size)])
    return ids
