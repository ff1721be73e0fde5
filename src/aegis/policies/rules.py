"""Single-level rules, and the table LEVEL_RULES of all rules by name.

Every rule returns a distribution over the available actions. To add one, write a frozen dataclass with the three methods of
`LevelRule` and enter it in the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

from aegis.errors import PolicyError, SettingError, check_choice, did_you_mean, finite_number
from aegis.policies.base import (
    DescribedRule,
    LevelRule,
    density_of,
    known_variable,
    level_label,
    nearest_action,
    need_numbers,
    need_real,
    one_hot,
    open_actions,
    quantile_of,
    real_variable,
    set_fields,
    uniform_over,
)
from aegis.policies.linear_rules import Gaussian, Natural, Nearest
from aegis.problem import SUM_TOLERANCE, Array, Bools, Level, Rows, Value, Variable, is_atom


@dataclass(frozen=True, slots=True)
class Sign(DescribedRule):
    """Always the available action nearest to size times the sign of a variable; the sign of 0 counts as +1."""

    kind: ClassVar[str] = "sign"
    variable: str
    size: float

    def __post_init__(self) -> None:
        set_fields(self, size=finite_number("sign: 'size'", self.size))

    def probabilities(self, level: Level, rows: Rows, count: int, available: Bools | None = None) -> Array:
        """Return `[n, A]`."""
        values = real_variable(rows, self.variable, level_label(level))
        target = np.where(values >= 0, self.size, -self.size)
        mask = open_actions(available, count, level.actions.count, level_label(level))
        return one_hot(nearest_action(level.actions.numbers, target, mask), level.actions.count)

    def check(self, level: Level, known: Mapping[str, Variable]) -> None:
        """Needs numeric actions and a real variable."""
        need_numbers(level, "sign")
        need_real(self.variable, known, level_label(level))


@dataclass(frozen=True, slots=True)
class Constant(DescribedRule):
    """Always the same action: the nearest to a number, or exactly a label.

    Where it is not available: the nearest available number, or the first available label.
    """

    kind: ClassVar[str] = "constant"
    value: Value

    def __post_init__(self) -> None:
        if isinstance(self.value, np.generic):
            set_fields(self, value=self.value.item())
        if not isinstance(self.value, str | bool):
            finite_number("constant: 'value'", self.value)

    def probabilities(self, level: Level, rows: Rows, count: int, available: Bools | None = None) -> Array:
        """Return `[n, A]`."""
        actions = level.actions
        mask = open_actions(available, count, actions.count, level_label(level))
        if actions.numeric:
            target = np.full(count, float(self._number(level)))
            return one_hot(nearest_action(actions.numbers, target, mask), actions.count)
        wanted = self._label(level)
        return one_hot(np.where(mask[:, wanted], wanted, np.argmax(mask, axis=1)), actions.count)

    def check(self, level: Level, known: Mapping[str, Variable]) -> None:
        """Needs a number for numeric actions, a known label for labels."""
        if level.actions.numeric:
            self._number(level)
        else:
            self._label(level)

    def _number(self, level: Level) -> float:
        if isinstance(self.value, str | bool):
            raise PolicyError(f"{level_label(level)}: its actions are numbers, and constant: {self.value!r} is not a number")
        return self.value

    def _label(self, level: Level) -> int:
        labels = level.actions.values
        if self.value in labels:
            return labels.index(self.value)
        hint = did_you_mean(str(self.value), labels)
        raise PolicyError(
            f"{level_label(level)}: there is no action {self.value!r}{hint}; actions: {', '.join(map(str, labels))}"
        )


@dataclass(frozen=True, slots=True)
class Uniform(DescribedRule):
    """Every available action with the same probability."""

    kind: ClassVar[str] = "uniform"

    def probabilities(self, level: Level, rows: Rows, count: int, available: Bools | None = None) -> Array:
        """Return `[n, A]`."""
        return uniform_over(open_actions(available, count, level.actions.count, level_label(level)))

    def density(self, level: Level, rows: Rows, count: int, value: Array) -> Array:
        """Return `[n]` on an interval: one over its length; 0 at atoms, to which a uniform draw gives no probability."""
        low, high = level.actions.limits
        return np.where(is_atom(level.actions, value), 0.0, 1.0 / (high - low))

    def quantile(self, level: Level, rows: Rows, count: int, uniform: Array) -> Array:
        """Return `[n]` on an interval."""
        low, high = level.actions.limits
        return low + uniform * (high - low)

    def check(self, level: Level, known: Mapping[str, Variable]) -> None:
        """Fits every level."""


@dataclass(frozen=True, slots=True)
class Epsilon(DescribedRule):
    """Another rule with probability 1 - epsilon, a uniform choice among the available actions otherwise."""

    kind: ClassVar[str] = "epsilon"
    rule: LevelRule
    epsilon: float

    def __post_init__(self) -> None:
        if isinstance(self.rule, type) or not isinstance(self.rule, LevelRule):
            raise SettingError(f"epsilon: 'rule' is another rule, found {self.rule!r}")
        set_fields(self, epsilon=finite_number("epsilon: 'epsilon'", self.epsilon, 0.0, 1.0))

    def probabilities(self, level: Level, rows: Rows, count: int, available: Bools | None = None) -> Array:
        """Return `[n, A]`."""
        base = self.rule.probabilities(level, rows, count, available)
        spread = Uniform().probabilities(level, rows, count, available)
        return (1.0 - self.epsilon) * base + self.epsilon * spread

    def density(self, level: Level, rows: Rows, count: int, value: Array) -> Array:
        """Return `[n]` on an interval."""
        base = density_of(self.rule, level, rows, count, value)
        return (1.0 - self.epsilon) * base + self.epsilon * Uniform().density(level, rows, count, value)

    def quantile(self, level: Level, rows: Rows, count: int, uniform: Array) -> Array:
        """Return `[n]` on an interval: the first 1 - epsilon of the uniform numbers draw from the rule."""
        follows = uniform < 1.0 - self.epsilon
        share = np.where(follows, uniform / max(1.0 - self.epsilon, 1e-300), 0.5)
        rest = np.where(follows, 0.0, uniform - (1.0 - self.epsilon)) / max(self.epsilon, 1e-300)
        base = quantile_of(self.rule, level, rows, count, share)
        return np.where(follows, base, Uniform().quantile(level, rows, count, np.minimum(rest, 1.0)))

    def check(self, level: Level, known: Mapping[str, Variable]) -> None:
        """Needs what the inner rule needs."""
        self.rule.check(level, known)


@dataclass(frozen=True, slots=True)
class Shares(DescribedRule):
    """The same shares of the actions whenever a category has the same value; with no `variable`, always the same shares.

    shares: one row of A probabilities for each value of the category, in the order of its values (without one, a single row).
    Where actions are not available the others keep their proportions. If no action with a share is available, all available ones
    are equally likely.
    """

    kind: ClassVar[str] = "shares"
    shares: tuple[tuple[float, ...], ...]
    variable: str | None = None

    def __post_init__(self) -> None:
        set_fields(self, shares=tuple(_distribution(row, index) for index, row in enumerate(self.shares)))
        if not self.shares or (self.variable is None and len(self.shares) != 1):
            raise SettingError(
                f"shares: without a 'variable' there is one row of shares, found {len(self.shares)}; name the category they go by"
            )
        if len({len(row) for row in self.shares}) > 1:
            raise SettingError("shares: every row has one number per action; rows of different lengths were found")

    def probabilities(self, level: Level, rows: Rows, count: int, available: Bools | None = None) -> Array:
        """Return `[n, A]`."""
        mask = open_actions(available, count, level.actions.count, level_label(level))
        shares, codes = np.asarray(self.shares), np.zeros(count, dtype=np.int64)
        if self.variable is not None:
            codes = known_variable(rows, self.variable, level_label(level)).astype(np.int64)
        missing = (codes < 0) | (codes >= len(shares))
        if missing.any():
            where = f"{level_label(level)}, row {int(np.argmax(missing))}"
            raise PolicyError(f"{where}: '{self.variable}' is missing, so that no row of shares applies")
        available_shares = np.where(mask, shares[codes], 0.0)
        total = available_shares.sum(axis=1, keepdims=True)
        return np.where(total > 0, available_shares / np.where(total > 0, total, 1.0), uniform_over(mask))

    def check(self, level: Level, known: Mapping[str, Variable]) -> None:
        """Needs one share per action, and a category among what is known with one row for each of its values."""
        if len(self.shares[0]) != level.actions.count:
            raise PolicyError(
                f"{level_label(level)}: a row of shares has one number per action, {level.actions.count}; found "
                f"{len(self.shares[0])}"
            )
        if self.variable is None:
            return
        variable = known_variable(known, self.variable, level_label(level))
        if variable.kind != "categorical":
            raise PolicyError(f"{level_label(level)}: shares go by a category, but '{self.variable}' is {variable.kind}")
        if len(variable.values) != len(self.shares):
            count = len(variable.values)
            raise PolicyError(
                f"{level_label(level)}: '{self.variable}' has {count} values, and shares have {len(self.shares)} rows"
            )


def _distribution(row: Sequence[float], index: int) -> tuple[float, ...]:
    where = f"shares, row {index + 1}"
    shares = tuple(finite_number(f"{where}: a share", value, 0.0, 1.0) for value in row)
    if abs(sum(shares) - 1.0) > SUM_TOLERANCE:
        raise SettingError(f"{where}: the shares sum to {sum(shares):.6g}, expected 1 (within {SUM_TOLERANCE:g})")
    return shares


@dataclass(frozen=True, slots=True)
class Softmax(DescribedRule):
    """Probabilities proportional to exp(score / temperature), score_a = intercept_a + sum of slopes[v][a] times v."""

    kind: ClassVar[str] = "softmax"
    intercepts: tuple[float, ...]
    slopes: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    temperature: float = 1.0

    def __post_init__(self) -> None:
        size = len(self.intercepts)
        for name, slope in self.slopes.items():
            if len(slope) != size:
                raise SettingError(
                    f"softmax: the slopes of '{name}' are one number per action, like the {size} intercepts; found {len(slope)}"
                )
        set_fields(
            self,
            intercepts=_numbers(self.intercepts, "softmax: intercept"),
            slopes={name: _numbers(self.slopes[name], f"softmax: slope of '{name}'") for name in sorted(self.slopes)},
            temperature=finite_number("softmax: 'temperature'", self.temperature, above=0.0),
        )

    def probabilities(self, level: Level, rows: Rows, count: int, available: Bools | None = None) -> Array:
        """Return `[n, A]`."""
        mask = open_actions(available, count, level.actions.count, level_label(level))
        score = np.tile(np.asarray(self.intercepts), (count, 1))
        with np.errstate(over="ignore", invalid="ignore"):  # checked right below
            for name, slope in self.slopes.items():
                score = score + real_variable(rows, name, level_label(level))[:, None] * np.asarray(slope)
            score = score / self.temperature
        if not np.isfinite(score).all():
            raise PolicyError(f"{level_label(level)}: the softmax scores overflow; scale the variables or the slopes down")
        score = np.where(mask, score, -np.inf)
        mass = np.exp(score - score.max(axis=1, keepdims=True))
        return np.asarray(mass / mass.sum(axis=1, keepdims=True))

    def check(self, level: Level, known: Mapping[str, Variable]) -> None:
        """Needs one intercept per action and real variables."""
        if len(self.intercepts) != level.actions.count:
            raise PolicyError(
                f"{level_label(level)}: softmax needs one intercept per action, {level.actions.count}; found "
                f"{len(self.intercepts)}"
            )
        for name in self.slopes:
            need_real(name, known, level_label(level))


def _numbers(values: Sequence[float], what: str) -> tuple[float, ...]:
    return tuple(finite_number(f"{what} {position + 1}", value) for position, value in enumerate(values))


LEVEL_RULES: dict[str, type[Any]] = {
    rule.kind: rule for rule in (Uniform, Natural, Gaussian, Sign, Constant, Nearest, Softmax, Epsilon, Shares)
}


def rule_from_description(description: Mapping[str, Any]) -> LevelRule:
    """Return the rule that `describe` put into plain data; SettingError if it is not one."""
    settings = dict(description)
    kind = str(settings.pop("kind", "(no 'kind')"))
    check_choice(kind, LEVEL_RULES, "rule")
    for name in settings:
        check_choice(name, [part.name for part in fields(LEVEL_RULES[kind])], f"setting of the rule '{kind}'")
    if isinstance(settings.get("rule"), Mapping):
        settings["rule"] = rule_from_description(settings["rule"])
    try:
        rule: LevelRule = LEVEL_RULES[kind](**settings)
    except TypeError as error:
        raise SettingError(f"rule '{kind}': {error}") from error
    return rule
