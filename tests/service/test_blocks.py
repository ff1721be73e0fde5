"""Blocks of counted episodes: the same arrays come back, and only those that the journal names."""

from __future__ import annotations

import itertools
import threading
from dataclasses import fields

import numpy as np
import pytest
import sqlalchemy as sa
from service_cases import GATE, key, play, quick_database, recipe, run_plant, small_plant, started

from aegis.problem import Batch, concat
from aegis.service.auth import list_tokens, make_token
from aegis.service.http_errors import StoreDamaged
from aegis.service.live_episodes import LiveEpisode
from aegis.service.live_gate import LiveGate
from aegis.service.schemas import Ask
from aegis.service.store.blocks import (
    BROKEN,
    BlockBuffer,
    BlockMark,
    EpisodeBlock,
    drop_unused_blocks,
    latest_blocks,
    learning_window,
    list_blocks,
    pack_episodes,
    read_block,
    write_blocks,
)
from aegis.service.store.database import Database, blocks_table


def trees_of(live: LiveGate) -> list[LiveEpisode]:
    return sorted(live.state.trees.values(), key=lambda tree: tree.number or 0)


def same(one: Batch | None, other: Batch | None) -> None:
    """Compare batches array by array."""
    assert (one is None) == (other is None)
    if one is None or other is None:
        return
    for mine, yours in zip([one, *one.levels.values()], [other, *other.levels.values()], strict=True):
        for item in fields(mine):
            left, right = getattr(mine, item.name), getattr(yours, item.name)
            if isinstance(left, np.ndarray):
                assert left.dtype == right.dtype
                np.testing.assert_array_equal(left, right)
            elif isinstance(left, dict) and item.name != "levels":
                assert list(left) == list(right)
                for name in left:
                    np.testing.assert_array_equal(left[name], right[name])


def test_a_block_comes_back_as_it_was(file_database: Database) -> None:
    with started(file_database) as live:
        for number in range(4):
            play(live, f"e{number}")
        live.open_episode(key(), "broken")
        live.decide(key(), "broken", Ask(**recipe()))
        live.close(key(), "broken")
        block = EpisodeBlock.of(live.problem, 1, trees_of(live))
        assert block.arms == ("agent",) * 4 + (BROKEN,)
        assert (block.last, block.numbers, block.decisions) == (5, [1, 2, 3, 4], 4)
        again = EpisodeBlock.from_bytes(block.to_bytes())
        assert again.arms == block.arms
        same(again.batch, block.batch)
        later = block.after(2)
        assert (later.first, later.arms) == (3, ("agent", "agent", BROKEN))
        same(later.batch, EpisodeBlock.of(live.problem, 3, trees_of(live)[2:]).batch)
        only = EpisodeBlock.from_bytes(block.after(4).to_bytes())
        assert (only.batch, only.arms) == (None, (BROKEN,))
    with pytest.raises(StoreDamaged, match="cannot be read"):
        EpisodeBlock.from_bytes(block.to_bytes()[:-9])


def test_what_is_learned_from_does_not_depend_on_the_blocks(file_database: Database) -> None:
    plant = small_plant()
    with started(file_database, plant.problem) as live:
        run_plant(plant, live, 0, 9)
        trees = trees_of(live)
    inner = plant.problem.innermost.name
    cuts = [[0, 9], [0, 2, 3, 9], [0, 8, 9]]
    ways = [[EpisodeBlock.of(live.problem, a + 1, trees[a:b]) for a, b in itertools.pairwise(cut)] for cut in cuts]
    for most, count in ((5, 2), (8, 4), (1, 1), (100, 9)):  # two decisions an episode
        windows = [learning_window(way, inner, most) for way in ways]
        for batch, numbers, arms in windows:
            assert numbers == tuple(range(10 - count, 10))
            assert arms == ("agent",) * count
            same(batch, windows[0][0])
    assert [block.first for block in latest_blocks(ways[1], 12)] == [4]
    assert [block.first for block in latest_blocks(ways[1], 13)] == [3, 4]
    assert learning_window([], inner, 3) == (None, (), ())
    same(concat([block.batch for block in ways[1] if block.batch is not None]), ways[0][0].batch)


def test_stored_blocks_are_those_that_the_journal_names(database: Database) -> None:
    with started(database) as live:
        for number in range(6):
            play(live, f"e{number}")
        trees = trees_of(live)
    one = write_blocks(database, GATE, BlockMark(), pack_episodes(live.problem, trees[:2]))
    write_blocks(database, GATE, one, pack_episodes(live.problem, trees[2:3]))  # of a writer that never came to its record
    two = write_blocks(database, GATE, one, pack_episodes(live.problem, trees[2:]))
    assert write_blocks(database, GATE, one, pack_episodes(live.problem, trees[2:])) == two  # once more
    assert list_blocks(database, GATE, two) == [one, two]
    assert list_blocks(database, GATE, two, after=2) == [two]
    same(read_block(database, GATE, two).batch, EpisodeBlock.of(live.problem, 3, trees[2:]).batch)
    count = sa.select(sa.func.count()).select_from(blocks_table)
    drop_unused_blocks(database, GATE, two)
    with database.reading() as connection:
        assert connection.execute(count).scalar() == 2
    with database.transaction() as connection:
        connection.execute(blocks_table.update().where(blocks_table.c.link == one.link).values(content=b"other"))
    with pytest.raises(StoreDamaged, match="up to 2 is not the one"):
        read_block(database, GATE, one)
    with database.transaction() as connection:
        connection.execute(blocks_table.delete().where(blocks_table.c.link == one.link))
    with pytest.raises(StoreDamaged, match="up to"):
        list_blocks(database, GATE, two)


def test_another_process_may_write_to_the_file_meanwhile(file_database: Database) -> None:
    with started(file_database) as live:
        for number in range(4):
            play(live, f"e{number}")
        trees = trees_of(live)
    one = write_blocks(file_database, GATE, BlockMark(), pack_episodes(live.problem, trees[:2]))
    write_blocks(file_database, GATE, BlockMark(), pack_episodes(live.problem, trees[:1]))  # it is never used
    other = quick_database(str(file_database.file))
    threads = list[threading.Thread]()

    def meanwhile(_: object, __: object, statement: str, *___: object) -> None:
        if statement.startswith("SELECT blocks.") and len(threads) < asked:
            threads.append(threading.Thread(target=make_token, args=(other, f"plant-{len(threads)}", "viewer")))
            threads[-1].start()
            threads[-1].join(0.5)  # before what was read leads to a write

    sa.event.listen(file_database.engine, "after_cursor_execute", meanwhile)
    asked = 1
    two = write_blocks(file_database, GATE, one, pack_episodes(live.problem, trees[2:]))
    asked = 3  # two reads
    drop_unused_blocks(file_database, GATE, two)
    sa.event.remove(file_database.engine, "after_cursor_execute", meanwhile)
    for thread in threads:
        thread.join(30)
    assert len(list_tokens(other)) == 3
    with file_database.reading() as connection:
        assert len(connection.execute(sa.select(blocks_table.c.link)).all()) == 2
    other.close()


def test_a_buffer_forgets_what_is_stored(file_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aegis.service.store.blocks.LARGEST", 4)
    with started(file_database) as live:
        for number in range(10):
            play(live, f"e{number}")
        trees, buffer = trees_of(live), BlockBuffer(live.problem)
    for tree in trees:
        buffer.add(tree)
    buffer.pack()
    assert [block.last for block in buffer.packed] == [4, 8]
    assert len(buffer.trees) == 2
    buffer.drop(6)  # in the middle of a block
    (left,) = buffer.packed
    assert (left.last, left.digest) == (8, pack_episodes(live.problem, trees[6:8])[0].digest)
    buffer.drop(9)
    assert (buffer.packed, buffer.trees) == ([], trees[9:])
