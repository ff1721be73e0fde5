"""Costly checks look at a part of a large log. Which part depends on counts only, never on content, so that bets stay fair."""

from __future__ import annotations

from aegis.audit.view import View

STEP = 32  # batches, of which a costly check looks at one when it has seen enough


class Thinning:
    """Says what a costly check looks at: all batches until it has seen `most` decisions, then one in `STEP`.

    Of no batch does it look at more than `most` decisions: those of its first episodes. A view that is to be skimmed it leaves.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.seen = 0
        self.batches = 0

    def wants(self, decisions: int, skimmed: bool = False) -> bool:
        """Say whether to look at a batch with so many decisions; asked once for each batch."""
        self.batches += 1
        if skimmed or (self.seen >= self.most and self.batches % STEP):
            return False
        self.seen += min(decisions, self.most)
        return True

    def part(self, view: View, level: str) -> View | None:
        """Return what to look at of a batch, to check decisions of a level; None if it is not wanted. Asked once for each."""
        return view.first(level, self.most) if self.wants(len(view.batch.levels[level]), view.skimmed) else None
