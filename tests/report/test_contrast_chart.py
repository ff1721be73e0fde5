"""The chart of explain: a row of two pictures for each level, in the format of the file's name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aegis.errors import OutputError
from aegis.policies import contrast_policies
from aegis.report import draw_contrast
from aegis.worlds import make_world

pytest.importorskip("matplotlib")


def test_a_picture_is_written_in_the_format_of_its_name(tmp_path: Path) -> None:
    world = make_world("additive", inner_steps=2)
    legacy, other = world.legacy("uniform"), world.legacy("natural:epsilon=0.3")
    batch = world.episodes(0, 20, legacy, 1)
    contrasts = contrast_policies(world.problem, other, batch, list(world.problem.names), 2)
    assert all(np.isclose(contrast.policy.sum(), 1) for contrast in contrasts)
    draw_contrast(contrasts, world.problem, tmp_path / "picture.svg")
    text = (tmp_path / "picture.svg").read_text()
    assert text.count('id="axes_') == 2 * len(contrasts)
    with pytest.raises(OutputError, match=r"a picture ends in one of .*\.svg"):
        draw_contrast(contrasts, world.problem, tmp_path / "picture.words")
