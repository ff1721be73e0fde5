"""The single-level rules by name.

Every rule returns a distribution over the actions that are available. To add one: a frozen dataclass with the three
methods of `Rule` in a file of its own, entered in `RULES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from aegis.errors import SettingError, choose
from aegis.policies.deterministic import Constant, Nearest, Sign
from aegis.policies.exploring import Epsilon, Uniform
from aegis.policies.gaussian import Gaussian
from aegis.policies.natural import Natural
from aegis.policies.rule import Rule
from aegis.policies.shares import Shares
from aegis.policies.softmax import Softmax

__all__ = [
    "RULES",
    "Constant",
    "Epsilon",
    "Gaussian",
    "Natural",
    "Nearest",
    "Rule",
    "Shares",
    "Sign",
    "Softmax",
    "Uniform",
    "rule_of",
]

RULES: dict[str, type[Any]] = {
    "uniform": Uniform,
    "natural": Natural,
    "gaussian": Gaussian,
    "sign": Sign,
    "constant": Constant,
    "nearest": Nearest,
    "softmax": Softmax,
    "epsilon": Epsilon,
    "shares": Shares,
}


def rule_of(description: Mapping[str, Any]) -> Rule:
    """Return the rule that `describe` put into plain data; SettingError if it is not one."""
    settings = dict(description)
    kind = str(settings.pop("kind", "(no 'kind')"))
    choose(kind, RULES, "rule")
    for name in settings:
        choose(name, [part.name for part in fields(RULES[kind])], f"setting of the rule '{kind}'")
    if isinstance(settings.get("rule"), Mapping):
        settings["rule"] = rule_of(settings["rule"])
    try:
        rule: Rule = RULES[kind](**settings)
    except TypeError as error:
        raise SettingError(f"rule '{kind}': {error}") from error
    return rule
