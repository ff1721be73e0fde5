"""In which order siblings were decided, and what tells it.

Where decisions carry over, the weight of a reward holds all earlier decisions of its episode. Which ones are earlier, numbered
or dated decision ids say, or a time that differs between rows; the order of the rows in a file does not, nor do ids of text,
of which '10' comes before '9'. Where nothing carries over the order only serves tests: there, what order there is, is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from aegis.logs.findings import Findings
from aegis.logs.groups import Groups, agrees
from aegis.logs.schema import column_key
from aegis.problem import AnyArray, Level, Problem
from aegis.problem.places import shown


def order_matters(problem: Problem, level: str) -> bool:
    """Say whether a certificate depends on the order of the decisions of a level below one parent.

    It does where decisions carry over, down to the level that the reward belongs to: all decisions below that are in its weight.
    """
    if problem.carry_over != "within" or problem.reward.per == "episode":
        return False
    return problem.reward.per == "decision" or problem.index(level) >= problem.index(problem.reward.per)


def order_words(problem: Problem, level: str) -> str:
    """Say what tells the order of the decisions of a level below one parent."""
    known = problem.level(level).decision
    if known is not None:
        return f"in the order of '{known}'" + (f" (of '{problem.time}' if it holds text)" if problem.time else "")
    return f"in the order of '{problem.time}', else of the log" if problem.time else "in the order of the log"


@dataclass(frozen=True, slots=True)
class SiblingOrder:
    """What a table says about the order of its rows. times `[n]`: None if there are none, or none that can be compared.

    varies: whether they differ within an episode, so that they can tell an order.
    """

    problem: Problem
    findings: Findings
    times: AnyArray | None
    varies: bool

    @classmethod
    def of(cls, table: pa.Table, problem: Problem, episodes: Groups, findings: Findings) -> SiblingOrder:
        """Return the order of a table of whole episodes."""
        if problem.time is None:
            return cls(problem, findings, None, False)
        times = table[column_key("time", problem.time)].to_numpy()
        if times.dtype.kind not in "iufM":
            return cls(problem, findings, None, False)
        return cls(problem, findings, times, not agrees(times, episodes))

    def arranged(self, groups: Groups, above: Groups, level: Level, ids: pa.ChunkedArray | None) -> Groups:
        """Return the decisions of a level with siblings in their order; notes a finding if it counts and nothing tells it."""
        if ids is not None and _in_order(ids.type):
            return groups
        needed = order_matters(self.problem, level.name)
        if not (needed or self.varies):
            return groups
        parent = above.of[groups.first]
        if (parent[1:] != parent[:-1]).all():
            return groups
        if not self.varies or self.times is None:
            self._unknown(groups, parent, level, ids)
            return groups
        start = groups.earliest(self.times)
        order = np.lexsort((start, parent))
        tied = np.flatnonzero((parent[order][1:] == parent[order][:-1]) & (start[order][1:] == start[order][:-1])) + 1
        if needed and tied.size:
            self._tied(groups.first[order[tied]], level)
        return groups.rearranged(order)

    def check(self, episodes: Groups, nodes: Groups) -> None:
        """Note decisions that start earlier than the one before them in the episode; nodes: those that rewards belong to."""
        if self.times is None or not self.varies or self.problem.carry_over != "within" or self.problem.reward.per == "episode":
            return
        times, owner = nodes.earliest(self.times), episodes.of[nodes.first]
        back = np.flatnonzero((owner[1:] == owner[:-1]) & (times[1:] < times[:-1])) + 1
        if not back.size:
            return

        def text(index: int) -> str:
            row = int(nodes.of[index])
            return (
                f"found {times[row]}, but {times[row - 1]} at {self.findings.places.at(int(nodes.first[row - 1]))}, which comes "
                "before it by decision ids; under 'carry_over: within' the order of decisions counts: correct the ids or the "
                "times, or leave out 'time' if it means another one"
            )

        self.findings.add(nodes.first[back], str(self.problem.time), text)

    def _unknown(self, groups: Groups, parent: AnyArray, level: Level, ids: pa.ChunkedArray | None) -> None:
        later = groups.first[np.flatnonzero(parent[1:] == parent[:-1]) + 1]
        column = level.decision if level.decision is not None else level.actions.column

        def text(index: int) -> str:
            found = f"with ids of text such as {shown(ids[index].as_py())}" if ids is not None else "without decision ids"
            return (
                f"level '{level.name}' has several decisions below one parent, {found} and without a time that differs between "
                "them; under 'carry_over: within' their order counts, and neither rows nor text tell it ('10' comes before '9'): "
                "name a 'decision' column that numbers (or dates) them as they were taken, or a 'time' column whose numbers or "
                "dates differ between them"
            )

        self.findings.add(later, column, text)

    def _tied(self, rows: AnyArray, level: Level) -> None:
        times = self.times

        def text(index: int) -> str:
            found = "" if times is None else f"found {times[index]} twice: "
            return (
                f"{found}two decisions of level '{level.name}' below one parent have the same time; under 'carry_over: within' "
                "their order counts: name a 'decision' column that numbers them as they were taken, or log finer times"
            )

        self.findings.add(rows, str(self.problem.time), text)


def _in_order(kind: pa.DataType) -> bool:
    """Say whether ids of this type are in an order that means something; that of text does not."""
    return pa.types.is_integer(kind) or pa.types.is_temporal(kind)
