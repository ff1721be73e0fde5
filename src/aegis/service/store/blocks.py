"""Blocks of counted episodes: columns of numbers in the store, from which a trainer learns and audits without the journal.

A block is derived from the journal. Each has a link, the digest of its content and of the link before it; the journal holds
the link of the newest block, so that the chain of the journal covers all of them.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from hashlib import sha256
from typing import Any

import numpy as np
import sqlalchemy as sa

from aegis.problem import AnyArray, Batch, LevelTable, Problem, concat
from aegis.service.gate_problem import legacy_columns
from aegis.service.http_errors import StoreDamaged
from aegis.service.live_episodes import LiveEpisode, episodes_to_batch
from aegis.service.store.database import LARGE, Database, blocks_table

LARGEST = 512  # episodes of a block
BROKEN = "broken"  # the arm of an episode that is not whole, or was overruled: it keeps its place and has no rows
FIRST_LINK = "0" * 64  # the link before the first block
_TABLE_ARRAYS = ("parent", "action", "mu_taken", "mu_full", "available", "value", "base", "incumbent")
_BATCH_ARRAYS = ("episode", "reward", "observed", "outcome", "cluster", "time", "closed")


@dataclass(frozen=True, slots=True)
class EpisodeBlock:
    """Counted episodes `first` to `last`. arms: who acted in each, BROKEN if it is not whole. batch: the whole ones, if any."""

    first: int
    arms: tuple[str, ...]
    batch: Batch | None

    @property
    def last(self) -> int:
        """Return the number of the last episode."""
        return self.first + len(self.arms) - 1

    @property
    def numbers(self) -> list[int]:
        """Return the numbers of the whole episodes, in the order of the batch."""
        return [self.first + place for place, arm in enumerate(self.arms) if arm != BROKEN]

    @property
    def decisions(self) -> int:
        """Return the number of innermost decisions."""
        return 0 if self.batch is None or self.batch.reward is None else int(self.batch.reward.size)

    @classmethod
    def of(cls, problem: Problem, first: int, trees: Sequence[LiveEpisode]) -> EpisodeBlock:
        """Return counted episodes that follow each other as a block."""
        whole = [tree.whole(problem) and not tree.replaced for tree in trees]
        chosen = [tree for tree, good in zip(trees, whole, strict=True) if good]
        batch = episodes_to_batch(problem, chosen, legacy_columns(problem)) if chosen else None
        return cls(first, tuple(tree.arm if good else BROKEN for tree, good in zip(trees, whole, strict=True)), batch)

    def after(self, number: int) -> EpisodeBlock:
        """Return the episodes after a number, of which there is one at least."""
        if number < self.first:
            return self
        kept = [place for place, own in enumerate(self.numbers) if own > number]
        batch = None if self.batch is None or not kept else self.batch.take_episodes(kept)
        return EpisodeBlock(number + 1, self.arms[number + 1 - self.first :], batch)

    def to_bytes(self) -> bytes:
        """Return the block as a line of JSON and the bytes of its arrays; the same bytes for the same episodes."""
        arrays = {} if self.batch is None else _batch_arrays(self.batch)
        parts = {name: np.ascontiguousarray(values) for name, values in arrays.items()}
        head = {
            "first": self.first,
            "arms": self.arms,
            "levels": [] if self.batch is None else list(self.batch.levels),
            "arrays": [[name, values.dtype.str, values.shape] for name, values in parts.items()],
        }
        return b"\n".join([json.dumps(head).encode(), b"".join(values.tobytes() for values in parts.values())])

    @classmethod
    def from_bytes(cls, content: bytes) -> EpisodeBlock:
        """Return the block that `to_bytes` wrote; StoreDamaged if it did not write this."""
        try:
            text, _, rest = content.partition(b"\n")
            head, arrays, start = json.loads(text), dict[str, AnyArray](), 0
            for name, kind, shape in head["arrays"]:
                flat = np.frombuffer(rest, np.dtype(kind), math.prod(shape), start)
                arrays[name], start = flat.reshape(shape).copy(), start + flat.nbytes
            batch = _batch_of(head["levels"], arrays) if head["levels"] else None
            return cls(int(head["first"]), tuple(head["arms"]), batch)
        except (ValueError, KeyError, TypeError) as error:
            raise StoreDamaged(f"a block of counted episodes cannot be read: {error}") from error


def _batch_arrays(batch: Batch) -> dict[str, AnyArray]:
    """Return the arrays of a batch by paths of their names."""
    arrays = {f"batch/{name}": values for name in _BATCH_ARRAYS if (values := getattr(batch, name)) is not None}
    arrays |= {f"guards/{name}": values for name, values in batch.guards.items()}
    arrays |= {f"extra/{name}": values for name, values in batch.extra.items()}
    for place, table in enumerate(batch.levels.values()):
        arrays |= {f"{place}/{name}": values for name in _TABLE_ARRAYS if (values := getattr(table, name)) is not None}
        arrays |= {f"{place}/context/{name}": values for name, values in table.context.items()}
    return arrays


def _batch_of(levels: Sequence[str], arrays: Mapping[str, AnyArray]) -> Batch:
    def under(path: str) -> dict[str, Any]:
        return {name.removeprefix(path): values for name, values in arrays.items() if name.startswith(path)}

    tables = {}
    for place, level in enumerate(levels):
        own = under(f"{place}/")
        context = under(f"{place}/context/")
        tables[level] = LevelTable(context=context, **{name: own[name] for name in _TABLE_ARRAYS if name in own})
    return Batch(levels=tables, guards=under("guards/"), extra=under("extra/"), **under("batch/"))


@dataclass(frozen=True, slots=True)
class PackedBlock:
    """A block to be stored. last: its last episode. digest, content: of its bytes, and these compressed."""

    last: int
    digest: str
    content: bytes

    @classmethod
    def of(cls, block: EpisodeBlock) -> PackedBlock:
        """Return a block packed."""
        content = block.to_bytes()
        return cls(block.last, sha256(content).hexdigest(), zlib.compress(content, 1))


@dataclass(frozen=True, slots=True)
class BlockMark:
    """Where the chain of blocks ends: the last episode in it, and the link of its last block."""

    last: int = 0
    link: str = FIRST_LINK

    def after(self, last: int, digest: str) -> BlockMark:
        """Return the mark after one more block."""
        return BlockMark(last, sha256(f"{self.link}\n{last}\n{digest}".encode()).hexdigest())

    def after_all(self, blocks: Sequence[PackedBlock]) -> BlockMark:
        """Return the mark after more blocks."""
        return reduce(lambda mark, block: mark.after(block.last, block.digest), blocks, self)


@dataclass(slots=True)
class BlockBuffer:
    """Counted episodes that are in no stored block yet, in order. packed: blocks that were made already, before the trees.

    `add` and `drop` are quick; making blocks takes time.
    """

    problem: Problem
    trees: list[LiveEpisode] = field(default_factory=list)
    packed: list[PackedBlock] = field(default_factory=list)

    def add(self, tree: LiveEpisode) -> None:
        """Add an episode that was counted."""
        self.trees.append(tree)

    def drop(self, last: int) -> None:
        """Forget the episodes up to a number: they are in stored blocks."""
        kept = [item for item in self.packed if item.last > last]
        if kept:
            block = EpisodeBlock.from_bytes(zlib.decompress(kept[0].content)).after(last)
            kept[0] = PackedBlock.of(block)
        self.packed, self.trees = kept, [tree for tree in self.trees if (tree.number or 0) > last]

    def pack(self) -> None:
        """Make blocks of all but the latest episodes."""
        while len(self.trees) >= LARGEST:
            self.packed += pack_episodes(self.problem, self.trees[:LARGEST])
            self.trees = self.trees[LARGEST:]


def pack_episodes(problem: Problem, trees: Sequence[LiveEpisode]) -> list[PackedBlock]:
    """Return counted episodes that follow each other as blocks."""
    starts = range(0, len(trees), LARGEST)
    return [PackedBlock.of(EpisodeBlock.of(problem, trees[i].number or 0, trees[i : i + LARGEST])) for i in starts]


def write_blocks(database: Database, gate: str, mark: BlockMark, blocks: Sequence[PackedBlock]) -> BlockMark:
    """Store blocks after a mark and return the new one. They count once the journal names it: until then they are in no way."""
    for block in blocks:
        before, mark = mark, mark.after(block.last, block.digest)
        values = {"gate": gate, "link": mark.link, "last": mark.last, "before": before.link, "content": block.content}
        with database.transaction(LARGE) as connection:
            table = blocks_table.c
            known = sa.select(table.last).where(table.gate == gate, table.link == mark.link)
            if connection.execute(known).scalar() is None:  # a writer that ended before it was done may have stored it
                connection.execute(blocks_table.insert(), values)
    return mark


def drop_unused_blocks(database: Database, gate: str, mark: BlockMark) -> None:
    """Remove blocks that never became part of the journal. Only for a writer whose journal has just named the mark."""
    used = {item.link for item in list_blocks(database, gate, mark)}
    table = blocks_table.c
    with database.transaction(LARGE) as connection:
        old = (table.gate == gate) & (table.last <= mark.last) & (sa.func.length(table.content) > 0)
        links = connection.execute(sa.select(table.link).where(old)).scalars()
        for link in [link for link in links if link not in used]:
            connection.execute(blocks_table.delete().where(table.gate == gate, table.link == link))


def list_blocks(database: Database, gate: str, mark: BlockMark, after: int = 0) -> list[BlockMark]:
    """Return the stored blocks with episodes after a number, up to a mark, in order; StoreDamaged if one is missing.

    Blocks that were discarded are left out.
    """
    table = blocks_table.c
    with database.reading(LARGE) as connection:
        query = sa.select(table.link, table.last, table.before, sa.func.length(table.content)).where(table.gate == gate)
        rows = {link: (last, before, size) for link, last, before, size in connection.execute(query)}
    marks, link = list[BlockMark](), mark.link
    while link != FIRST_LINK and (link not in rows or rows[link][0] > after):
        if link not in rows:
            raise StoreDamaged(f"gate '{gate}': a block of counted episodes up to {mark.last} is not in the store")
        if rows[link][2] == 0:
            break
        marks.append(BlockMark(rows[link][0], link))
        link = rows[link][1]
    return marks[::-1]


def discard_blocks(connection: sa.engine.Connection, gate: str, marks: Sequence[BlockMark], last: int) -> None:
    """Remove the content of the blocks up to an episode, in a transaction of the caller's. marks: all blocks, in order.

    Of the newest of them the link stays, so that the chain of blocks ends there.
    """
    old = [mark.link for mark in marks if mark.last <= last]
    table = blocks_table.c
    if old:
        connection.execute(blocks_table.update().where(table.gate == gate, table.link == old[-1]).values(content=b""))
        before = (table.gate == gate) & (table.last <= last) & (table.link != old[-1])
        connection.execute(blocks_table.delete().where(before))


def read_block(database: Database, gate: str, mark: BlockMark) -> EpisodeBlock:
    """Return a stored block; StoreDamaged unless it is the one that was stored."""
    table = blocks_table.c
    with database.reading(LARGE) as connection:
        query = sa.select(table.content, table.before).where(table.gate == gate, table.link == mark.link)
        row = connection.execute(query).first()
    try:
        content = b"" if row is None else zlib.decompress(bytes(row[0]))
    except zlib.error:
        content = b""
    if row is None or BlockMark(0, row[1]).after(mark.last, sha256(content).hexdigest()) != mark:
        raise StoreDamaged(f"gate '{gate}': the block of counted episodes up to {mark.last} is not the one that was stored")
    return EpisodeBlock.from_bytes(content)


def learning_window(
    blocks: Sequence[EpisodeBlock], innermost: str, most: int
) -> tuple[Batch | None, tuple[int, ...], tuple[str, ...]]:
    """Return the latest whole episodes with up to `most` innermost decisions, their numbers and their arms; at least one.

    The same episodes, whichever blocks they are in.
    """
    batches = [block.batch for block in blocks if block.batch is not None]
    if not batches:
        return None, (), ()
    whole = concat(batches)
    numbers = [number for block in blocks for number in block.numbers]
    arms = [arm for block in blocks for arm in block.arms if arm != BROKEN]
    sizes = np.bincount(whole.episode_of(innermost), minlength=len(whole))[::-1]
    count = max(1, int(np.searchsorted(np.cumsum(sizes), most, side="right")))
    if count < len(whole):
        whole = whole.take_episodes(np.arange(len(whole) - count, len(whole)))
    return whole, tuple(numbers[-count:]), tuple(arms[-count:])


def latest_blocks(blocks: Sequence[EpisodeBlock], most: int) -> list[EpisodeBlock]:
    """Return the latest blocks that together hold at least `most` innermost decisions, or all of them."""
    kept: list[EpisodeBlock] = []
    for block in reversed(blocks):
        if sum(item.decisions for item in kept) >= most:
            break
        kept.append(block)
    return kept[::-1]
