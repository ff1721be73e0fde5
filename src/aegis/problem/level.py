"""One level of decisions: its context and actions, how its propensities are logged, and its incumbent.

The incumbent is the policy that acts if nothing is handed over: the comparator of every gain.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aegis.errors import ProblemError, finite_number
from aegis.problem.variables import SUM_TOLERANCE, Actions, Value, Variable, check_ordered_limits, check_unique

LOGGED = "logged"  # the incumbent is the policy that wrote the log, exploration included
NAMED_INCUMBENTS = (LOGGED, "uniform")
_ROUND_OFF = 1e-9  # ten times 0.1 is not quite 1


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
        if self.density and (self.column is None or self.least is not None):
            raise ProblemError(
                "propensity: 'density' is for a 'column' that holds the density of the action taken; it has no 'least'"
            )
        if self.wrong_by is not None:
            what = "propensity: 'wrong_by', the factor by which an estimated probability may be too large or too small,"
            finite_number(what, self.wrong_by, 1.0, error=ProblemError)
            if not self.estimated:
                raise ProblemError(
                    "propensity: 'wrong_by' is for estimated probabilities: add 'estimated: true', or leave it out"
                )
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
                f"propensity: 'shares' sum to {total:.7g}, expected 1 (within {SUM_TOLERANCE:g}); write a third as 0.3333333"
            )

    @property
    def full(self) -> bool:
        """Whether the whole distribution over actions is known, not only the taken action's probability."""
        return self.column is None

    @property
    def log_columns(self) -> tuple[str, ...]:
        """The columns of the log that this propensity needs."""
        return tuple(name for name in (self.column, self.base, *self.columns) if name is not None)


@dataclass(frozen=True, slots=True)
class Incumbent:
    """Who acts at a level if nothing is handed over; exactly one of the four forms is set.

    Parameters
    ----------
    base
        A column with the action that the incumbent means to take.
    action
        One action, in every context.
    policy
        `logged` (the policy that wrote the log, exploration included), `uniform`, or a rule as plain data such as
        `{"kind": "sign", "variable": "T", "size": 1.6}`.
    columns
        Its probabilities of all actions, one column per action, in the order of the action's values.
    epsilon
        The share of decisions in which the logger explored: it drew `(1 - epsilon)` of its actions from the incumbent. Promises
        `mu <= nu / (1 - epsilon)`. Every row is checked: at every action where the whole distribution is logged, else at the
        action taken only.
    max_ratio
        The largest `mu / nu` over all actions and contexts; what `epsilon` promises, where exploration is not a fixed share.
    max_product
        The largest product of these ratios over the decisions of one episode: where decisions carry over.
    """

    base: str | None = None
    action: Value | None = None
    policy: str | Mapping[str, Any] | None = None
    columns: tuple[str, ...] = ()
    epsilon: float | None = None
    max_ratio: float | None = None
    max_product: float | None = None

    def __post_init__(self) -> None:
        forms = [self.base is not None, self.action is not None, self.policy is not None, bool(self.columns)]
        if sum(forms) != 1:
            raise ProblemError(
                "incumbent: give exactly one of 'base' (a column with the action it means to take), 'action' (always the same), "
                "'policy' ('logged', 'uniform' or a rule) or 'columns' (its probability of each action)"
            )
        if isinstance(self.policy, str) and self.policy not in NAMED_INCUMBENTS:
            raise ProblemError(
                f"incumbent: 'policy' is {', '.join(map(repr, NAMED_INCUMBENTS))} or a rule such as {{kind: constant, value: 3}}"
                f", found {self.policy!r}"
            )
        if isinstance(self.policy, Mapping) and not isinstance(self.policy.get("kind"), str):
            raise ProblemError(f"incumbent: a rule under 'policy' needs a 'kind', found {dict(self.policy)!r}")
        check_unique(self.columns, "incumbent 'columns'")
        if self.epsilon is not None:
            what = "incumbent: 'epsilon', the share of exploration in the log,"
            finite_number(what, self.epsilon, 0.0, below=1.0, error=ProblemError)
        if self.epsilon is not None and self.max_ratio is not None:
            raise ProblemError("incumbent: 'epsilon' and 'max_ratio' promise the same thing; give one of them")
        for name, value in (("max_ratio", self.max_ratio), ("max_product", self.max_product)):
            if value is not None:
                finite_number(f"incumbent: '{name}'", value, 1.0, error=ProblemError)
        if self.logged and (self.epsilon, self.max_ratio, self.max_product) != (None, None, None):
            raise ProblemError("incumbent: the policy that wrote the log has a ratio of 1; leave the other keys out")

    def __hash__(self) -> int:
        """Return a hash of the content; a rule is plain data, which Python cannot hash."""
        return hash(json.dumps(self.plain(), sort_keys=True, default=str))

    @property
    def logged(self) -> bool:
        """Whether the incumbent is declared to be the policy that wrote the log."""
        return self.policy == LOGGED

    @property
    def largest_ratio(self) -> float | None:
        """The declared bound of mu / nu; None without one."""
        if self.logged:
            return 1.0
        return self.max_ratio if self.epsilon is None else 1.0 / (1.0 - self.epsilon)

    @property
    def log_columns(self) -> tuple[str, ...]:
        """The columns of the log that it needs."""
        return self.columns if self.base is None else (self.base,)

    @property
    def words(self) -> str:
        """Return who it is, for a sentence."""
        if self.base is not None:
            return f"the action in '{self.base}'"
        if self.action is not None:
            return f"always '{self.action}'"
        if self.columns:
            return f"the probabilities in '{self.columns[0]}' to '{self.columns[-1]}'"
        if isinstance(self.policy, Mapping):
            return f"the rule '{self.policy['kind']}'"
        return "the policy that wrote the log, exploration included" if self.logged else "a uniform choice"

    def check(self, where: str, actions: Actions, masked: bool) -> None:
        """Raise ProblemError unless it fits the actions of its level."""
        if actions.continuous and self.policy is None:
            raise ProblemError(
                f"{where}: on an interval the incumbent has a density: state it as 'policy' (logged, uniform or a rule); 'base', "
                "'action' and 'columns' are for actions with a probability each"
            )
        _check_per_action(where, "incumbent 'columns'", self.columns, actions)
        if self.action is None:
            return
        if self.index(actions) is None:
            listed = ", ".join(map(str, actions.values))
            raise ProblemError(f"{where}: the incumbent's action {self.action!r} is not one of {listed}")
        if masked:
            raise ProblemError(
                f"{where}: actions may be unavailable here, so that an incumbent cannot always take {self.action!r}; name the "
                "column with the action it means to take ('base'), or its probabilities ('columns')"
            )

    def index(self, actions: Actions) -> int | None:
        """Return which of the actions it always takes; None if it is not among them."""
        wanted = self.action if actions.numeric else str(self.action)
        listed = () if actions.numeric and isinstance(wanted, bool) else actions.values
        return next((place for place, value in enumerate(listed) if value == wanted), None)

    def plain(self) -> dict[str, Any]:
        """Return plain data, the content of its place in a problem file."""
        names = ("base", "action", "policy", "epsilon", "max_ratio", "max_product")
        content = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if isinstance(self.policy, Mapping):
            content["policy"] = dict(self.policy)
        return content | ({"columns": list(self.columns)} if self.columns else {})


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
        self._check_density(where)  # first: the other checks of single actions do not apply to an interval
        _check_per_action(where, "'available'", self.available, self.actions)
        if self.propensity is not None:
            self._check_propensity(where, self.propensity)
        check_unique(self.available, f"{where}, 'available'")
        finite_number(f"{where}: 'margin'", self.margin, error=ProblemError)
        if self.mean_range is not None:
            check_ordered_limits(self.mean_range, where, "mean_range")
        if self.incumbent is not None:
            self.incumbent.check(where, self.actions, self.masked)

    @property
    def masked(self) -> bool:
        """Whether some actions may be unavailable in some contexts."""
        return bool(self.available)

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
        _check_per_action(where, "propensity 'columns'", logged.columns, self.actions)
        _check_per_action(where, "propensity 'shares'", logged.shares, self.actions)
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

    def _check_density(self, where: str) -> None:
        """Refuse what would divide a probability by a density, or the other way round."""
        logged, actions = self.propensity, self.actions
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


def _check_per_action(where: str, what: str, items: tuple[object, ...], actions: Actions) -> None:
    """Raise ProblemError unless there is one item per action, or none at all."""
    if items and len(items) != actions.count:
        raise ProblemError(
            f"{where}: {what} has one entry per action, in their order: expected {actions.count}, found {len(items)}"
        )
