"""Icons of verdicts: every verdict has a shape of its own, and an unknown word looks neutral."""

from __future__ import annotations

from aegis.certificate import CERTIFIED, NOT_YET, REFUSED
from aegis.report.verdict_icons import verdict_face


def test_verdicts_have_words_styles_and_shapes_of_their_own() -> None:
    faces = [verdict_face(verdict) for verdict in (CERTIFIED, NOT_YET, REFUSED)]
    assert [face.word for face in faces] == ["Certified", "Not yet", "Refused"]
    assert len({face.style for face in faces}) == len({face.icon for face in faces}) == 3


def test_other_words_look_neutral() -> None:
    assert (verdict_face("waiting").word, verdict_face("waiting").style) == ("Waiting", "neutral")
    assert verdict_face(None).word == "Unknown"
