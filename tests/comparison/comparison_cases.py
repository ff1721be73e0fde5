"""Cases for comparisons: the tiny problems and small logs of the certificates, and estimators as plain loops over one episode."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "certificate"))

from tiny_episodes import Episode, Node, Tiny, TinyModel, TinyPolicy, mean

from aegis.comparison.bounds import BoundCase, WeightLimit
from aegis.comparison.direct_method import ActionPredictions
from aegis.comparison.unit_series import UnitSeries
from aegis.ope import CandidateView, Measure, RewardModels, reward_measure
from aegis.problem import Array, Scope
from aegis.rng import stream

SCOPES = {
    1: [("fast",)],
    2: [("fast",), ("slow",), ("slow", "fast")],
    3: [("middle",), ("slow", "fast"), ("slow", "middle", "fast")],
}


@dataclass(frozen=True)
class Loops:
    """The estimators of one episode, transcribed; `models` by level: whose guesses are q."""

    tiny: Tiny
    scope: frozenset[str]
    models: dict[str, TinyModel]

    def chances(self, path: list[Node]) -> list[float]:
        """Return the candidate's distribution at the last decision of a path, particles weighed by what they did above."""
        node = path[-1]
        if self.tiny.particles == 1:
            return self.tiny.pi(0, node.level, node.place)
        beliefs = []
        for particle, share in enumerate(self.tiny.shares):
            for above in path[:-1]:
                if self.tiny.names[above.level] in self.scope:
                    share *= self.tiny.pi(particle, above.level, above.place)[above.action]
            beliefs.append(share)
        if not sum(beliefs):
            return [0.0] * self.tiny.actions[node.level]
        parts = [self.tiny.pi(n, node.level, node.place) for n in range(self.tiny.particles)]
        count = self.tiny.actions[node.level]
        return [sum(q * part[a] for q, part in zip(beliefs, parts, strict=True)) / sum(beliefs) for a in range(count)]

    def weight(self, path: list[Node]) -> float:
        """Return E_n of the product of the ratios in scope along a path."""
        total = 0.0
        for particle, share in enumerate(self.tiny.shares):
            for node in path:
                if self.tiny.names[node.level] in self.scope:
                    share *= (
                        self.tiny.pi(particle, node.level, node.place)[node.action]
                        / self.tiny.mu(node.level, node.place)[node.action]
                    )
            total += share
        return total

    def weighted(self, episode: Episode, clip: float = np.inf, less: float = 0.0) -> float:
        """Return the nested mean of `(min(w, clip) - less) r`."""

        def below(path: list[Node]) -> float:
            node = path[-1]
            if not node.children:
                return (min(self.weight(path), clip) - less) * self.tiny.scaled(self.tiny.reward_at(node))
            return mean([below([*path, child]) for child in node.children])

        return mean([below([node]) for node in episode])

    def weights(self, episode: Episode) -> float:
        """Return the nested mean of the weights."""

        def below(path: list[Node]) -> float:
            children = path[-1].children
            return mean([below([*path, child]) for child in children]) if children else self.weight(path)

        return mean([below([node]) for node in episode])

    def switched(self, episode: Episode, threshold: float) -> float:
        """Return `y = 1{W <= threshold} w (mean y below - q(A)) + sum pi q`, from the rewards up."""

        def below(path: list[Node]) -> float:
            node = path[-1]
            name = self.tiny.names[node.level]
            children = node.children
            y = mean([below([*path, child]) for child in children]) if children else self.tiny.scaled(self.tiny.reward_at(node))
            if name not in self.scope:
                return y
            chances, guesses = self.chances(path), self.models[name].guess(node.level, node.place)
            expected = sum(chance * guess for chance, guess in zip(chances, guesses, strict=True))
            if self.weight(path) > threshold:
                return expected
            ratio = chances[node.action] / self.tiny.mu(node.level, node.place)[node.action]
            return expected + ratio * (y - guesses[node.action])

        return mean([below([node]) for node in episode])


def tiny_view(tiny: Tiny, episodes: list[Episode], model: TinyModel | None = None) -> CandidateView:
    models = RewardModels() if model is None else RewardModels({"r": model})
    return CandidateView(tiny.problem, tiny.batch(episodes), TinyPolicy(tiny), models)


def tiny_predictions(tiny: Tiny, scope: Scope) -> tuple[ActionPredictions, dict[str, TinyModel]]:
    """Return models for every level in scope, those of outer levels scaled, as the library keeps them."""
    inside_out = [name for name in reversed(tiny.names) if name in scope]
    base = TinyModel(tiny)
    outer = {name: TinyModel(tiny, "below", scaled=True) for name in inside_out[1:]}
    return ActionPredictions(RewardModels({"r": base}), outer, "guesses"), {inside_out[0]: base, **outer}


def tiny_measure(tiny: Tiny) -> Measure:
    return reward_measure(tiny.problem)


def random_case(
    seed: int, count: int, particles: int, limit: float, prior: int, spread: float = 1.0, delta: float = 0.05
) -> BoundCase:
    """Return a case with made-up unit values: of `particles` particles, at most about `spread` each."""
    rng = stream(seed, "comparison case")
    shares = rng.dirichlet(np.ones(particles))
    made = [_units(rng, size, shares, spread) for size in (count, prior)]
    words = "made up" if np.isfinite(limit) else "nothing was promised"
    measure = Measure("r", 0.0, 1.0, "maximise")
    return BoundCase(made[0], made[1] if prior else None, shares, WeightLimit(limit, words), delta, "made up", seed, measure)


def _units(rng: np.random.Generator, count: int, shares: Array, spread: float) -> UnitSeries:
    values = spread * rng.random((count, shares.size)) * rng.random((count, 1))
    legacy = rng.random(count)
    mixed = values @ shares
    series = {
        "value": mixed,
        "gain": np.maximum(mixed - legacy, -1.0),
        "legacy": legacy,
        "compared best": legacy,
        "lifted gain": np.maximum(mixed - legacy, -1.0),
        "weight": rng.random(count) * 2,
        "particles": values,
        "particle gains": values - legacy[:, None],
    }
    return UnitSeries(series, {"weight": float(values.max(initial=0.0)) if count else 0.0})
