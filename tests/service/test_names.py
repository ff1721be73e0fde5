"""Names: any language, and nothing that parts a path, ends a line or cannot be seen. Server and client have the same rule."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from aegis.service.client.names import LONGEST_NAME, NAME, is_name
from aegis.service.schemas import OpenEpisode

RIGHT = [
    *(
        "e-1.a:b",
        "07.01.2025 Früh",
        "Fru\u0308h",
        "投与 3 (夜)",
        "دفعة ٧",
        "हिन्दी में",
        "می\u200cخواهم",
        "🧪",
        "👩\u200d🔬 2",
        "#1",
        "-1",
    ),
    *("50% & more?", "a?b=1#c", "<b>'\"&amp;", "x\u3000y", "x" * LONGEST_NAME),
]
WRONG = [
    *(
        "",
        " ",
        " a",
        "a ",
        "a\u3000",
        "a/b",
        "a\\b",
        "a\nb",
        "a\tb",
        "a\u2028b",
        "\u202ea",
        "a\u202e",
        "\ufeffa",
        "..",
        ".",
        ".a",
        "a\x00",
    ),
    *("x" * (LONGEST_NAME + 1), "a\x85b", "\ud800"),
    *(f"a{sign}b" for sign in "\u200e\u200f\u061c\u200b\u2060\xad"),  # marks of direction; blanks and hyphens that are not seen
]


@pytest.mark.parametrize("text", RIGHT)
def test_a_name_of_any_language(text: str) -> None:
    assert is_name(text) and OpenEpisode(id=text).id == text


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_name(text: str) -> None:
    assert not is_name(text)
    with pytest.raises(ValidationError):
        OpenEpisode(id=text)


def test_the_pattern_is_that_of_the_description() -> None:
    assert OpenEpisode.model_json_schema()["properties"]["id"]["anyOf"][0]["pattern"] == NAME
