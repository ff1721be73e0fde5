"""One level of decisions: its context, its actions, and how its propensities are logged."""

from __future__ import annotations

import math
from dataclasses import dataclass

from aegis.errors import ProblemError, finite_number
from aegis.problem.incumbent import Incumbent, check_per_action
from aegis.problem.reward import check_ordered_limits
from aegis.problem.variables import SUM_TOLERANCE, Actions, Variable, check_unique

_ROUND_OFF = 1e-9  # ten times 0.1 is not quite 1
_ROUNDED = 5.001e-3  # how far a share with two digits is off at most


@dataclass(frozen=True, slots=True)
class Propensity:
    """Where the probability of the logged action is found; exactly one of the five forms is set.

    column: the probability of the action taken. columns: the probabilities of all actions, in the order of the
    action's values. policy: a known policy, by name. base: a column with the action the controller meant to take,
    mixed with a uniform choice at rate `epsilon`. shares: the probabilities of all actions, the same in every context.

    least: a promise that every available action had at least this probability in every context, so that weights are at
    most 1 / least. estimated: the probabilities were fitted, not logged by the controller. wrong_by: the factor from 1 by which
    each estimated probability may be wrong, in either direction; without one they give an estimate, never a certificate.
    density: the column holds the density of the action taken, per unit of the action, as an interval needs it.
    """

    column: str | None = None
    columns: tuple[str, ...] = ()
    policy: str | None = None
    base: str | None = None
    epsilon: float | None = None
    least: float | None = None
    estimated: bool = False
    wrong_by: float | None = None
    density: bool = False
    shares: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        forms = [self.column is not None, bool(self.columns), self.policy is not None, self.base is not None, bool(self.shares)]
        if sum(forms) != 1:
            raise ProblemError(
                "propensity: give exactly one of 'column' (probability of the taken action), 'columns' (one per action), "
                "'policy' (a known policy), 'base' with 'epsilon' (intended action plus exploration rate) or 'shares' (a fixed "
                "probability of each action)"
            )
        self._check_shares()
        if (self.base is None) != (self.epsilon is None):
            raise ProblemError("propensity: 'base' and 'epsilon' belong together")
        for what, value in (("'epsilon', an exploration rate,", self.epsilon), ("'least', a probability,", self.least)):
            if value is not None:
                finite_number(f"propensity: {what}", value, above=0.0, high=1.0, error=ProblemError)
        if self.density and self.column is None:
            raise ProblemError("propensity: 'density' is for a 'column' that holds the density of the action taken")
        if self.density and self.least is not None:
            raise ProblemError("propensity: 'least' promises a probability, and this is a density; leave it out")
        self._check_wrong_by()
        check_unique(self.columns, "propensity 'columns'")

    def _check_shares(self) -> None:
        for share in self.shares:
            if not 0 < share < 1:
                raise ProblemError(
                    f"propensity: each of 'shares' is a probability above 0 and below 1, found {share}"
                    f"{'; write 60 % as 0.6' if 1 < share <= 100 else ''}"
                )
        total = math.fsum(self.shares)
        if self.shares and abs(total - 1) > SUM_TOLERANCE:
            raise ProblemError(
                f"propensity: 'shares' sum to {total:.7g}, expected 1 (within {SUM_TOLERANCE:g}){_rounded(self.shares, total)}"
            )

    def _check_wrong_by(self) -> None:
        if self.wrong_by is None:
            return
        what = "propensity: 'wrong_by', the factor by which an estimated probability may be too large or too small,"
        finite_number(what, self.wrong_by, 1.0, error=ProblemError)
        if not self.estimated:
            raise ProblemError(
                "propensity: 'wrong_by' is for estimated probabilities: add 'estimated: true'; or leave it out if the controller "
                "logged them"
            )

    @property
    def full(self) -> bool:
        """Whether the whole distribution over actions is known, not only the taken action's probability."""
        return self.column is None

    @property
    def log_columns(self) -> tuple[str, ...]:
        """The columns of the log that this propensity needs."""
        single = tuple(name for name in (self.column, self.base) if name is not None)
        return single + self.columns


def _rounded(shares: tuple[float, ...], total: float) -> str:
    """Return what to write where shares that were rounded miss one by no more than that; nothing if they miss it by more."""
    if abs(total - 1) > _ROUNDED * len(shares):
        return ""
    scaled = ", ".join(f"{share / total:.7g}" for share in shares)
    return f"; if they were rounded, write them with seven digits (a sixth as 0.1666667), such as [{scaled}]"


@dataclass(frozen=True, slots=True)
class Level:
    """A level of decisions.

    Parameters
    ----------
    name
        The name of the level.
    actions
        What can be chosen here.
    context
        What is observed before each decision.
    propensity
        How the log tells the probability of the action taken.
    decision
        The column of the decision id, where a parent has several decisions.
    available
        One column per action: whether it could be taken. All actions, always, without any.
    margin
        The gain that makes a switch worth it, in reward units.
    mean_range
        Limits of the mean reward below any one decision of this level, narrower than those of single rewards.
    incumbent
        The policy that acts here if nothing is handed over; see `comparator` for the default.

    Raises
    ------
    ProblemError
        If the parts do not fit together.
    """

    name: str
    actions: Actions
    context: tuple[Variable, ...] = ()
    propensity: Propensity | None = None
    decision: str | None = None
    available: tuple[str, ...] = ()
    margin: float = 0.0
    mean_range: tuple[float, float] | None = None
    incumbent: Incumbent | None = None

    def __post_init__(self) -> None:
        where = f"level '{self.name}'"
        if not self.name:
            raise ProblemError("a level needs a name")
        self._check_density()  # first: the other checks of single actions do not apply to an interval
        check_per_action(where, "'available'", self.available, self.actions)
        if self.propensity is not None:
            self._check_propensity(where, self.propensity)
        check_unique(self.available, f"{where}, 'available'")
        finite_number(f"{where}: 'margin'", self.margin, error=ProblemError)
        if self.mean_range is not None:
            check_ordered_limits(self.mean_range, where, "mean_range")
        if self.incumbent is not None:
            self.incumbent.check(where, self.actions, self.masked)

    @property
    def comparator(self) -> Incumbent | None:
        """The incumbent, stated or known from `{base, epsilon}`; None if gains are over the policy that wrote the log."""
        logged = self.propensity
        if self.incumbent is not None or logged is None or logged.base is None:
            return self.incumbent
        return Incumbent(base=logged.base)

    @property
    def ratio_bound(self) -> float | None:
        """The largest mu / nu of comparator and logger, from the design or as declared, never from data; None if not known.

        With uniform exploration at rate epsilon around the base action it is `1 / (1 - epsilon + epsilon / A)`.
        """
        logged, own = self.propensity, self.comparator
        if own is None:
            return 1.0
        known = [] if own.largest_ratio is None else [own.largest_ratio]
        if logged is not None and logged.base is not None and logged.epsilon is not None and own.base == logged.base:
            known.append(1.0 / (1.0 - logged.epsilon + logged.epsilon / self.actions.count))
        if logged is not None and logged.least is not None:
            known.append(1.0 / logged.least)
        return min(known, default=None)

    @property
    def exploration(self) -> float | None:
        """The rate of exploration around the comparator, `nu = (1 - epsilon) mu + epsilon q`; None if not known."""
        logged, own = self.propensity, self.comparator
        if own is not None and own.epsilon is not None:
            return own.epsilon
        if own is not None and own.base is not None and logged is not None and own.base == logged.base:
            return logged.epsilon
        return None

    def _check_propensity(self, where: str, logged: Propensity) -> None:
        count = self.actions.count
        check_per_action(where, "propensity 'columns'", logged.columns, self.actions)
        check_per_action(where, "propensity 'shares'", logged.shares, self.actions)
        if logged.shares and self.available:
            raise ProblemError(
                f"{where}: propensity 'shares' are the same in every row, but 'available' masks actions in some; log the "
                "probabilities of that row and name them under 'column' or 'columns'"
            )
        if logged.least is not None and not self.available and logged.least * count > 1 + _ROUND_OFF:
            raise ProblemError(
                f"{where}: propensity 'least' promises {logged.least} for each of {count} actions, which is more than 1 in all; "
                f"it is at most {1 / count:.6g} here"
            )

    def _check_density(self) -> None:
        """Refuse what would divide a probability by a density, or the other way round."""
        where, logged, actions = f"level '{self.name}'", self.propensity, self.actions
        if not actions.continuous:
            if logged is not None and logged.density:
                raise ProblemError(
                    f"{where}: 'density: true' goes with an action on an 'interval'; '{actions.column}' has {actions.count} "
                    "values, each taken with a probability: log that, or give the action an 'interval'"
                )
            return
        if self.available:
            raise ProblemError(
                f"{where}: an action on an interval has no 'available' columns; use a 'grid' where actions are masked"
            )
        if logged is not None and not logged.density:
            low, high = actions.limits
            raise ProblemError(
                f"{where}: an action on an interval needs 'propensity: {{column: ..., density: true}}', a column with the "
                f"density of the action taken, per unit of '{actions.column}' (of a uniform draw it is {1 / (high - low):g} "
                "throughout); probabilities of single actions go with 'values' or a 'grid'"
            )

    @property
    def masked(self) -> bool:
        """Whether some actions may be unavailable in some contexts."""
        return bool(self.available)
