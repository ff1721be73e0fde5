"""The formulas of values, gains and bets, transcribed for one episode at a time in plain loops (theory sections 1, 5 and 12).

The comparator mu is `Tiny.base`, which is the logging policy nu (`Tiny.mu`) unless the problem has an incumbent of its own.

Nothing is shared with the library; levels of water are found by bisection, scales by trying every action and reward.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tiny_episodes import Episode, Node, Tiny, TinyModel, lost, mean

ETA = 0.05
Bounds = tuple[float, float]


@dataclass(frozen=True)
class Naive:
    """One candidate of a tiny problem at a scope, with a model; `missing` is the share of rewards that are not known."""

    tiny: Tiny
    scope: frozenset[str]
    model: TinyModel
    below: TinyModel
    missing: float = 0.0
    others: bool = False  # levels outside the scope are corrected to the incumbent

    # ---- what is known ---------------------------------------------------------------------------------------------

    def inside(self, node: Node) -> bool:
        return self.tiny.names[node.level] in self.scope

    def lost(self, node: Node) -> bool:
        return lost(self.tiny, node, self.missing)

    def bounds(self, node: Node) -> Bounds:
        """Return the smallest and largest mean reward that may lie below a decision."""
        if self.tiny.carries_reward(node.level):
            found = self.tiny.scaled(self.tiny.reward_at(node))
            return (0.0, 1.0) if self.lost(node) else (found, found)
        parts = [self.bounds(child) for child in node.children]
        return mean([low for low, _ in parts]), mean([high for _, high in parts])

    def worst(self, node: Node, weight: float) -> float:
        low, high = self.bounds(node)
        return low if weight > 0 else high

    def nested(self, episode: Episode, at: Callable[[Node], float], level: int) -> float:
        """Return the mean over outermost decisions of the mean below each, of what `at` gives at the decisions of a level."""

        def below(node: Node) -> float:
            return at(node) if node.level == level else mean([below(child) for child in node.children])

        return mean([below(node) for node in episode])

    # ---- probabilities ---------------------------------------------------------------------------------------------

    def candidate(self, node: Node, known: list[Node]) -> list[float]:
        """Return the candidate's distribution at a decision, the particles weighted by what they did at `known` decisions."""
        if self.tiny.particles == 1:
            return self.tiny.pi(0, node.level, node.place)  # whatever it did: there is no other
        beliefs = []
        for particle, share in enumerate(self.tiny.shares):
            for other in known:
                if self.inside(other):
                    share *= self.tiny.pi(particle, other.level, other.place)[other.action]
            beliefs.append(share)
        total = sum(beliefs)
        parts = [self.tiny.pi(n, node.level, node.place) for n in range(self.tiny.particles)]
        return [sum(q / total * part[a] for q, part in zip(beliefs, parts, strict=True)) for a in range(len(parts[0]))]

    def product(self, nodes: list[Node]) -> float:
        """Return the mean over the particles of the product of the ratios at the decisions in scope."""
        total = 0.0
        for particle, share in enumerate(self.tiny.shares):
            for node in nodes:
                if self.inside(node):
                    share *= self.tiny.pi(particle, node.level, node.place)[node.action]
                    share /= self.tiny.mu(node.level, node.place)[node.action]
            total += share
        return total

    def compared(self, nodes: list[Node]) -> float:
        """Return u: the product of mu/nu at the decisions in scope, and at all others if they are corrected."""
        found = 1.0
        for node in nodes:
            if self.others or self.inside(node):
                found *= self.incumbent(node)[node.action] / self.logged(node)[node.action]
        return found

    def deployed(self, nodes: list[Node]) -> float:
        """Return w: that of the candidate in scope, times that of the incumbent elsewhere if other levels are corrected."""
        outside = [node for node in nodes if not self.inside(node)]
        found = self.product(nodes)
        for node in outside if self.others else ():
            found *= self.incumbent(node)[node.action] / self.logged(node)[node.action]
        return found

    def incumbent(self, node: Node) -> list[float]:
        return self.tiny.base(node.level, node.place)

    def logged(self, node: Node) -> list[float]:
        return self.tiny.mu(node.level, node.place)

    def guess(self, node: Node) -> list[float]:
        return self.model.guess(node.level, node.place)

    # ---- plain -----------------------------------------------------------------------------------------------------

    def plain(self, episode: Episode, gain: bool) -> float:
        """Return the nested mean of w r, or of (w - u) r."""
        led = histories(episode) if self.tiny.carry else trails(episode)

        def at(node: Node) -> float:
            nodes = [*led[id(node)], node]
            weight = self.deployed(nodes) - self.compared(nodes) if gain else self.product(nodes)
            return weight * (self.worst(node, weight) if gain else self.bounds(node)[0])

        return self.nested(episode, at, len(self.tiny.names) - 1)

    def whole(self, episode: Episode) -> float:
        """Return (prod w - prod u) r of a reward that belongs to the episode."""
        nodes = everything(episode)
        return (self.product(nodes) - self.compared(nodes)) * self.tiny.unit_reward(episode)

    def both_sides(self, episode: Episode) -> float:
        """Return the nested mean of w r + u (1 - r)."""
        led = histories(episode) if self.tiny.carry else trails(episode)

        def at(node: Node) -> float:
            nodes = [*led[id(node)], node]
            w, u = self.deployed(nodes), self.compared(nodes)
            reward = self.worst(node, w - u)
            return w * reward + u * (1.0 - reward)

        return self.nested(episode, at, len(self.tiny.names) - 1)

    # ---- doubly robust ---------------------------------------------------------------------------------------------

    def scaled(self, episode: Episode, c: float, gain: bool) -> float:
        """Return the unit value with the control variate scaled so that nothing falls below -c."""
        trail = trails(episode)

        def at(node: Node) -> float:
            nu, pi, guess = self.logged(node), self.candidate(node, trail[id(node)]), self.guess(node)
            mu = self.incumbent(node) if gain else [0.0] * len(nu)
            logged = [a for a in range(len(nu)) if nu[a] > 0]
            weight = {a: (pi[a] - mu[a]) / nu[a] for a in logged}
            average = sum((pi[a] - mu[a]) * guess[a] for a in logged)
            control = {a: average - weight[a] * guess[a] for a in logged}
            scale = 1.0
            for a in logged:
                for reward in (0.0, 1.0):
                    if control[a] < 0:
                        scale = min(scale, (c + weight[a] * reward) / -control[a])
            a = node.action
            reward = self.worst(node, weight[a]) if gain else self.bounds(node)[0]
            return weight[a] * reward + scale * control[a]

        return self.nested(episode, at, self._only())

    def nested_robust(self, episode: Episode, cut: float, gain: bool) -> float:
        """Return y_L by recursion, or y_L minus the mean reward."""
        leaf = len(self.tiny.names) - 1
        trail = trails(episode)

        def reward(node: Node) -> float:
            return self.worst(node, self.product([*trail[id(node)], node]) - 1.0) if gain else self.bounds(node)[0]

        def y(node: Node) -> float:
            below = reward(node) if node.level == leaf else mean([y(child) for child in node.children])
            if not self.inside(node):
                return below
            nu, pi, guess = self.logged(node), self.candidate(node, trail[id(node)]), self.guess(node)
            above = 1.0
            for other in trail[id(node)]:
                if self.inside(other):
                    own = self.candidate(other, trail[id(other)])[other.action]
                    above *= own / self.logged(other)[other.action]
            held = []
            for a in range(len(nu)):
                weight = pi[a] / nu[a] * above if nu[a] > 0 else 0.0
                held.append(0.0 if nu[a] == 0 else guess[a] if weight == 0 else min(guess[a], cut / weight))
            w = pi[node.action] / nu[node.action]
            return w * (below - held[node.action]) + sum(p * h for p, h in zip(pi, held, strict=True))

        value = mean([y(node) for node in episode])
        return value - self.nested(episode, reward, leaf) if gain else value

    def nested_sides(self, episode: Episode, cut: float) -> float:
        """Return y_L of what the candidate earns plus y_L of what the incumbent fails to earn, minus 1."""
        leaf, trail = len(self.tiny.names) - 1, trails(episode)

        def reward(node: Node) -> float:
            nodes = [*trail[id(node)], node]
            return self.worst(node, self.product(nodes) - self.compared(nodes))

        def y(node: Node, failing: bool) -> float:
            if node.level == leaf:
                below = 1.0 - reward(node) if failing else reward(node)
            else:
                below = mean([y(child, failing) for child in node.children])
            if not self.inside(node):
                return below

            def acts(other: Node) -> list[float]:
                return self.incumbent(other) if failing else self.candidate(other, trail[id(other)])

            nu, pi, guess = self.logged(node), acts(node), self.guess(node)
            above = 1.0
            for other in trail[id(node)]:
                if self.inside(other):
                    above *= acts(other)[other.action] / self.logged(other)[other.action]
            total, own = 0.0, 0.0
            for a in range(len(nu)):
                if nu[a] == 0:
                    continue
                weight, wanted = pi[a] / nu[a] * above, 1.0 - guess[a] if failing else guess[a]
                held = wanted if weight == 0 else min(wanted, cut / weight)
                total += pi[a] * held
                own = held if a == node.action else own
            return pi[node.action] / nu[node.action] * (below - own) + total

        return mean([y(node, False) for node in episode]) + mean([y(node, True) for node in episode]) - 1.0

    # ---- water-filled ----------------------------------------------------------------------------------------------

    def filled(self, episode: Episode, bet: float, gain: bool) -> float:
        """Return the factor of an episode under one bet for a scope of one level; nan if a decision cannot afford it."""
        trail, earlier = trails(episode), histories(episode)

        def at(node: Node) -> float:
            nu, guess = self.logged(node), self.guess(node)
            known = earlier[id(node)] if self.tiny.carry else trail[id(node)]
            before = self.product(earlier[id(node)]) if self.tiny.carry else 1.0
            compared = self.compared(earlier[id(node)]) if self.tiny.carry else 1.0
            pi = [before * p for p in self.candidate(node, known)]
            mu = [compared * p for p in self.incumbent(node)] if gain else [0.0] * len(nu)
            z = [(pi[a] - mu[a]) / nu[a] if nu[a] > 0 else 0.0 for a in range(len(nu))]
            worst = sum(max(mu[a] - pi[a], 0.0) for a in range(len(nu)))
            room = (1 - ETA) / bet - worst
            return ETA + bet * staked(nu, z, guess, node.action, self.worst(node, z[node.action]), room)

        return self.nested(episode, at, self._only())

    def corrected(self, episode: Episode, bet: float, most: dict[str, float]) -> float:
        """Return the factor for a scope of one level while the incumbent acts at all others; most: by level the largest mu/nu."""
        trail, level = trails(episode), self._only()
        above = math.prod(most[name] for name in self.tiny.names[:level])
        below = math.prod(most[name] for name in self.tiny.names[level + 1 :])

        def ratio(node: Node) -> float:
            return self.incumbent(node)[node.action] / self.logged(node)[node.action]

        def bounds(node: Node) -> Bounds:
            """Return the limits of the mean of u r / C below a decision, u of the decisions further in."""
            if self.tiny.carries_reward(node.level):
                low, high = self.bounds(node)
            else:
                parts = [bounds(child) for child in node.children]
                low, high = mean([part[0] for part in parts]), mean([part[1] for part in parts])
            own = 1.0 if node.level == level else ratio(node)
            return own * low, own * high

        def at(node: Node) -> float:
            nu, pi, mu = self.logged(node), self.candidate(node, trail[id(node)]), self.incumbent(node)
            z = [(pi[a] - mu[a]) / nu[a] if nu[a] > 0 else 0.0 for a in range(len(nu))]
            worst = sum(max(mu[a] - pi[a], 0.0) for a in range(len(nu)))
            low, high = bounds(node)
            reward = (low if z[node.action] > 0 else high) / below
            large = bet * above * below
            guess = [g / below for g in self.guess(node)]
            factor = ETA + large * staked(nu, z, guess, node.action, reward, (1 - ETA) / large - worst)
            u = math.prod(ratio(other) for other in trail[id(node)])
            return 1.0 + u / above * (factor - 1.0)

        return self.nested(episode, at, level)

    def doubted(self, episode: Episode, bet: float, factor: float) -> float:
        """Return the factor of one level against the incumbent where logged probabilities are wrong by up to a factor."""
        trail = trails(episode)

        def at(node: Node) -> float:
            nu, pi, mu = self.logged(node), self.candidate(node, trail[id(node)]), self.incumbent(node)
            guess, actions = self.guess(node), range(len(nu))
            z = [(pi[a] - mu[a]) / min(1.0, factor * nu[a]) if nu[a] > 0 else 0.0 for a in actions]
            budget = (1 - ETA) / bet - sum(max(mu[a] - pi[a], 0.0) for a in actions)
            kappa = [max(z[a], 0.0) * guess[a] + max(-z[a], 0.0) * (1.0 - guess[a]) for a in actions]

            def cost(t: float) -> float:
                staked_at = [max(t - kappa[a], 0.0) if nu[a] > 0 else 0.0 for a in actions]
                beyond = sum(nu[a] * max(staked_at[a] - budget, 0.0) for a in actions)
                return sum(nu[a] * staked_at[a] for a in actions) + (factor**2 - 1.0) * beyond

            t = largest(cost, budget, min(kappa))
            a = node.action
            reward = self.worst(node, z[a])
            return ETA + bet * (max(t - kappa[a], 0.0) + max(z[a], 0.0) * reward + max(-z[a], 0.0) * (1.0 - reward))

        return self.nested(episode, at, self._only())

    def joint(self, episode: Episode, bet: float, inner_cap: float, inner_step: float = 1.0) -> float:
        """Return the factor of an episode under one bet for a scope of two levels, caps and steps against the incumbent."""
        trail = trails(episode)
        outer_level, inner_level = (level for level, name in enumerate(self.tiny.names) if name in self.scope)
        stakes: dict[int, tuple[float, float, float]] = {}

        def enter(node: Node) -> None:
            if node.level == outer_level:
                stakes[id(node)] = self._outer(node, trail[id(node)], bet, inner_cap, inner_step)
            for child in node.children:
                enter(child)

        for node in episode:
            enter(node)

        def at(node: Node) -> float:
            outer = next(other for other in trail[id(node)] if other.level == outer_level)
            stake, w, u = stakes[id(outer)]
            nu, pi, mu = self.logged(node), self.candidate(node, trail[id(node)]), self.incumbent(node)
            z = [(w * pi[a] - u * mu[a]) / nu[a] if nu[a] > 0 else 0.0 for a in range(len(nu))]
            worst = sum(max(u * mu[a] - w * pi[a], 0.0) for a in range(len(nu)))
            room = (stake - ETA) / bet - worst
            return ETA + bet * staked(nu, z, self.guess(node), node.action, self.worst(node, z[node.action]), room)

        return self.nested(episode, at, inner_level)

    def _outer(self, node: Node, known: list[Node], bet: float, cap: float, step: float) -> tuple[float, float, float]:
        nu, pi, mu = self.logged(node), self.candidate(node, known), self.incumbent(node)
        under_candidate, under_comparator = self.below.guess(node.level, node.place), self.guess(node)

        def needed(u: float, w: float) -> float:
            return max(u - (1.0 - step) * w, 0.0) if step < 1.0 else max(u * (1.0 - 1.0 / cap), u - w)

        w = [pi[a] / nu[a] if nu[a] > 0 else math.nan for a in range(len(nu))]
        u = [mu[a] / nu[a] if nu[a] > 0 else math.nan for a in range(len(nu))]
        tau = [needed(u[a], w[a]) if nu[a] > 0 else math.nan for a in range(len(nu))]
        kappa = [
            tau[a] + w[a] * under_candidate[a] - u[a] * under_comparator[a] if nu[a] > 0 else math.inf for a in range(len(nu))
        ]
        worst = sum(needed(mu[a], pi[a]) for a in range(len(nu)))
        t = water(nu, kappa, (1 - ETA) / bet - worst)
        a = node.action
        return ETA + bet * (tau[a] + max(t - kappa[a], 0.0)), w[a], u[a]

    def _only(self) -> int:
        (name,) = self.scope
        return self.tiny.names.index(name)


def staked(nu: list[float], z: list[float], guess: list[float], action: int, reward: float, room: float) -> float:
    """Return (t - kappa)^+ + z^+ r + z^- (1 - r) at the action taken."""
    kappa = [max(z[a], 0.0) * guess[a] + max(-z[a], 0.0) * (1.0 - guess[a]) if nu[a] > 0 else math.inf for a in range(len(nu))]
    t = water(nu, kappa, room)
    return max(t - kappa[action], 0.0) + max(z[action], 0.0) * reward + max(-z[action], 0.0) * (1.0 - reward)


def water(nu: list[float], kappa: list[float], target: float) -> float:
    """Return t with sum nu (t - kappa)^+ = target, by bisection; nan if there is none."""
    if target < 0:
        return math.nan
    low = min(kappa)
    high = low + 1.0
    while sum(p * max(high - k, 0.0) for p, k in zip(nu, kappa, strict=True)) < target:
        high = low + 2.0 * (high - low)
    for _ in range(200):
        middle = 0.5 * (low + high)
        if sum(p * max(middle - k, 0.0) for p, k in zip(nu, kappa, strict=True)) < target:
            low = middle
        else:
            high = middle
    return low


def largest(cost: Callable[[float], float], budget: float, low: float) -> float:
    """Return the largest t with cost(t) <= budget, by bisection; cost grows with t and is 0 at `low`. Nan if there is none."""
    if budget < 0:
        return math.nan
    high = low + 1.0
    while cost(high) <= budget:
        high = low + 2.0 * (high - low)
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if cost(middle) <= budget else (low, middle)
    return low


def everything(episode: Episode) -> list[Node]:
    """Return all decisions of an episode, depth first."""
    found: list[Node] = []

    def enter(node: Node) -> None:
        found.append(node)
        for child in node.children:
            enter(child)

    for node in episode:
        enter(node)
    return found


def trails(episode: Episode) -> dict[int, list[Node]]:
    """Return the decisions above each decision, outermost first."""
    found: dict[int, list[Node]] = {}

    def enter(node: Node, above: list[Node]) -> None:
        found[id(node)] = above
        for child in node.children:
            enter(child, [*above, node])

    for node in episode:
        enter(node, [])
    return found


def histories(episode: Episode) -> dict[int, list[Node]]:
    """Return all decisions of the episode before each decision, depth first."""
    found: dict[int, list[Node]] = {}
    before: list[Node] = []

    def enter(node: Node) -> None:
        found[id(node)] = list(before)
        before.append(node)
        for child in node.children:
            enter(child)

    for node in episode:
        enter(node)
    return found
