"""Words of column names, and ranks of names in lists of words."""

from __future__ import annotations

import pytest

from aegis.logs.draft.vocabulary import EPISODE, id_word_rank, name_words, word_rank


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("p_Setting2", ("p", "setting", "2")),
        ("batchNo", ("batch", "no")),
        ("DOSE mg", ("dose", "mg")),
        ("", ()),
        ("größe", ("grosse",)),
        ("Prüfung OK", ("prufung", "ok")),
        ("Ausschussquote", ("ausschuss", "quote")),
        ("Solldrehzahl", ("soll", "drehzahl")),
        ("вода_2", ("вода", "2")),
    ],
)
def test_words(name: str, found: tuple[str, ...]) -> None:
    assert name_words(name) == found


def test_a_whole_name_counts_before_a_word_in_it_and_only_ids_are_ids() -> None:
    assert word_rank("batch_id", EPISODE) == EPISODE.index("batch")
    assert (word_rank("my_episode", EPISODE) or 0) > (word_rank("experiment", EPISODE) or 0)
    assert id_word_rank("batch_run", EPISODE) is not None
    assert id_word_rank("batch_size", EPISODE) is None
