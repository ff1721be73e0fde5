"""The incumbent of a level: the policy that acts if nothing is handed over, and the comparator of every gain."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aegis.errors import ProblemError, finite_number
from aegis.problem.variables import Actions, Value, check_unique

LOGGED = "logged"  # the incumbent is the policy that wrote the log, exploration included
NAMED_INCUMBENTS = (LOGGED, "uniform")


def check_per_action(where: str, what: str, items: tuple[object, ...], actions: Actions) -> None:
    """Raise ProblemError unless there is one item per action, or none at all."""
    if items and len(items) != actions.count:
        raise ProblemError(
            f"{where}: {what} has one entry per action, in their order: expected {actions.count}, found {len(items)}"
        )


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
        self._check_ratios()

    def _check_ratios(self) -> None:
        if self.epsilon is not None:
            what = "incumbent: 'epsilon', the share of exploration in the log,"
            finite_number(what, self.epsilon, 0.0, below=1.0, error=ProblemError)
        if self.epsilon is not None and self.max_ratio is not None:
            raise ProblemError("incumbent: 'epsilon' and 'max_ratio' promise the same thing; give one of them")
        for name, value in (("max_ratio", self.max_ratio), ("max_product", self.max_product)):
            if value is not None:
                finite_number(f"incumbent: '{name}'", value, 1.0, error=ProblemError)
        if self.policy == LOGGED and (self.epsilon, self.max_ratio, self.max_product) != (None, None, None):
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
        if actions.continuous and not (self.logged or self.policy == "uniform" or isinstance(self.policy, Mapping)):
            raise ProblemError(
                f"{where}: on an interval the incumbent has a density: state it as 'policy' (logged, uniform or a rule); 'base', "
                "'action' and 'columns' are for actions with a probability each"
            )
        check_per_action(where, "incumbent 'columns'", self.columns, actions)
        if self.action is not None and self.index(actions) is None:
            listed = ", ".join(map(str, actions.values))
            raise ProblemError(f"{where}: the incumbent's action {self.action!r} is not one of {listed}")
        if self.action is not None and masked:
            raise ProblemError(
                f"{where}: actions may be unavailable here, so that an incumbent cannot always take {self.action!r}; name the "
                "column with the action it means to take ('base'), or its probabilities ('columns')"
            )

    def index(self, actions: Actions) -> int | None:
        """Return which of the actions it always takes; None if it is not among them."""
        if actions.numeric:
            number = isinstance(self.action, int | float) and not isinstance(self.action, bool)
            places = [place for place, value in enumerate(actions.values) if number and value == self.action]
        else:
            places = [place for place, value in enumerate(actions.values) if value == str(self.action)]
        return places[0] if places else None

    def plain(self) -> dict[str, Any]:
        """Return plain data, the content of its place in a problem file."""
        names = ("base", "action", "policy", "epsilon", "max_ratio", "max_product")
        content = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if isinstance(self.policy, Mapping):
            content["policy"] = dict(self.policy)
        return content | ({"columns": list(self.columns)} if self.columns else {})
