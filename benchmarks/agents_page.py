"""The page about agents, `docs/agents.md`, written from the tables: `python benchmarks/agents_page.py > docs/agents.md`."""

from __future__ import annotations

import inspect
import sys

from aegis.agents.agent import AGENTS, PRIOR_EPISODES, Agent
from aegis.agents.execution import SAVE_AFTER
from aegis.mechanisms import ModelSettings
from aegis.planning import COARSE, COMMITS, FINE, MOST_FINE, RULES

COMMIT_WORDS = {
    "nested": "each level decides when its turn comes, on what is known by then; outer levels plan for inner ones that do so too",
    "joint": "all actions are fixed when the outermost controlled decision is taken, for the mean of every context inside it",
    "flat": "only the innermost level is planned; the others are left to the legacy",
}


PAGE = """# Agents that learn while they act

    aegis simulate --world unified --agent nested_cts --episodes 100 --out run/

An agent is a row of a table: a model of the mechanisms, a commit shape, and a rule that chooses actions, with another one
for outer levels if it has one. In Python: `aegis.AGENTS`, `aegis.make_online`, `aegis.run`; a new row is
`dataclasses.replace(aegis.AGENTS["nested_cts"], rule="ucb", name="mine")`. This page is written from the tables.

{agents}

The paper names `icts_type1` and `icts_type2` without defining them. They are read here as the halves of its ablation:
*factorised* is one mechanism per variable; *targeted* is that outer actions are chosen for their value. So `icts_type2`
plans every level, as `nested_cts` does, and `icts_type1` leaves the outer levels to the legacy, as `flat_cts` does.

Every `nested` agent can also stand behind a handover gate, as a [host](handover.md#hosts) of its name:
`aegis handover --host aegis_handover`. A gate hands over level by level, so that `flat` and `joint` agents are refused there.

## Rules

{rules}

`particles` are beliefs drawn for an episode, one of which acts; all of them make up the logged probabilities. `draws` are
averaged over and never act alone. `--particles` goes to whichever of an agent's rules has that setting.

## Commit shapes

{shapes}

## Models

- *Features*: `fourier` is {count} random Fourier features (a Gaussian process with an RBF kernel, cut short). Each run draws
  its own from its seed, one set for each mechanism, shared by all its episodes and particles; with `feature_seed` in the
  model all runs share one draw. `linear` and `polynomial` (squares and products) have nothing random.
- *Units*: agents on random features see inputs and rewards in units of their spread in {prior} episodes of the legacy, which
  are made before the run and used for nothing else (`standardise`).
- *Tempering*: `--temper` is the power of the likelihood. 1 is Bayes; below 1 evidence counts less: the agent explores
  longer, and follows a model that is wrong less far.
- *Contexts that are not known yet* are integrated over with {fine.nodes} quadrature nodes for a number, or {fine.samples}
  samples of a vector, up to {most_fine} levels; with more levels, which multiply them, with {coarse.nodes} nodes or
  {coarse.samples} samples. `learn` and the demo follow the same rule. `--nodes` overrides it.

A run is saved every 50 episodes and, where episodes are slow, about every {seconds:.0f} seconds; interrupted and started again it
writes the same bytes. Planning supposes that a decision affects only its own subtree: `carry_over: within` is refused.
"""


def agents_page() -> str:
    """Return the page as Markdown."""
    return PAGE.format(
        agents=_table(["agent", "model", "commit shape", "rule", "what it is"], [_row(agent) for agent in AGENTS.values()]),
        rules=_table(["rule", "what it does", "settings and their defaults"], [_rule(name) for name in RULES]),
        shapes=_table(["shape", "when actions are chosen"], [[f"`{name}`", COMMIT_WORDS[name]] for name in COMMITS]),
        count=ModelSettings().count,
        prior=PRIOR_EPISODES,
        fine=FINE,
        coarse=COARSE,
        most_fine=MOST_FINE,
        seconds=SAVE_AFTER,
    )


def _row(agent: Agent) -> list[str]:
    model = agent.model
    kind = "table" if model.structure == "cells" else model.features
    structure = {"factorised": "", "joint": ", one regression", "cells": ""}[model.structure]
    rule = f"`{agent.rule}`" if agent.outer_rule is None else f"`{agent.outer_rule}`, innermost `{agent.rule}`"
    return [f"`{agent.name}`", f"{kind}{structure}", agent.commit, rule, agent.about]


def _rule(name: str) -> list[str]:
    made = RULES[name]
    about = (made.__doc__ or "").splitlines()[0].rstrip(".")
    settings = ", ".join(f"`{key}={found.default}`" for key, found in inspect.signature(made).parameters.items())
    return [f"`{name}`", about, settings or "none"]


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'|'.join('---' for _ in head)}|", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(agents_page())
