"""Pages are followed literally: a page that shows something else than what comes out is noticed."""

from __future__ import annotations

from pathlib import Path

import page_steps
import pytest

PAGE = """# A page

Save this as `greet.py`:

```python
print("good", "day")
```

```sh
pip install .
pip install 'aegis-handover[report]'
python greet.py
```

```text
good day
```

```python
number = 6
```

```python
print(number, *range(4), sep="\\n")
```

```text
6
...
3
```

```sh
aegis nonsense   # exit code 2
```
"""


def followed(text: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> page_steps.Reader:
    monkeypatch.setattr(page_steps, "page", lambda name: text)
    return page_steps.follow("a.md", place)


def test_a_page_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = followed(PAGE, tmp_path, monkeypatch)
    assert (tmp_path / "greet.py").read_text() == 'print("good", "day")\n'
    assert len(reader.printed) == 5


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("good day\n```", "good night\n```"),
        ("6\n...\n3\n", "6\n...\n4\n"),
        ("6\n...\n3\n", "...\n2\n"),
        ("exit code 2", "exit code 3"),
        ("install .\n", "install something\n"),
        ("aegis-handover[report]", "something[report]"),
        ("python greet.py", "ls"),
    ],
)
def test_what_does_not_come_out_is_noticed(old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert old in PAGE
    with pytest.raises(AssertionError):
        followed(PAGE.replace(old, new), tmp_path, monkeypatch)


EDITED = """Save this as `a/list.yaml`:

```yaml
first: 1
second: 2
third: 3
```

```diff
--- a/list.yaml
+++ a/list.yaml
@@ -1,2 +1,2 @@
-first: 1
+first: one
 second: 2
@@ -3 +3,2 @@
 third: 3
+fourth: 4
```
"""


def test_a_difference_is_applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    followed(EDITED, tmp_path, monkeypatch)
    assert (tmp_path / "a" / "list.yaml").read_text() == "first: one\nsecond: 2\nthird: 3\nfourth: 4\n"


@pytest.mark.parametrize(("old", "new"), [("-first: 1", "-first: 3"), (" third: 3\n+", " third: 4\n+"), ("+++ a/", "+++ b/")])
def test_a_difference_of_another_file_is_noticed(old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert old in EDITED
    (tmp_path / "a").mkdir()
    with pytest.raises((AssertionError, TypeError)):
        followed(EDITED.replace(old, new), tmp_path, monkeypatch)
