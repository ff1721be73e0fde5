"""Reads a page back: a tree of elements, checked to be well formed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br"}


@dataclass
class Element:
    """An element with its attributes, and its children: elements and texts."""

    name: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    def walk(self) -> Iterator[Element]:
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child.walk()

    def all(self, test: str | Callable[[Element], bool]) -> list[Element]:
        """Return the elements below of a name, of a `.class`, or that pass a test."""
        if callable(test):
            return [item for item in self.walk() if test(item)]
        if test.startswith("."):
            return [item for item in self.walk() if test[1:] in item.attributes.get("class", "").split()]
        return [item for item in self.walk() if item.name == test]

    def one(self, test: str) -> Element:
        found = self.all(test)
        assert len(found) == 1, f"{len(found)} of {test}"
        return found[0]

    @property
    def text(self) -> str:
        """Return all text below, but not that of pictures' descriptions, with single spaces."""
        parts = [child if isinstance(child, str) else child.text for child in self.children if self.name not in ("title", "desc")]
        return " ".join(" ".join(parts).split())


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.stack = [Element("document", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {key: value or "" for key, value in attrs})
        assert len(element.attributes) == len(attrs), f"an attribute twice in {tag}"
        self.stack[-1].children.append(element)
        if tag not in VOID:
            self.stack.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack[-1].name == tag, f"</{tag}> closes <{self.stack[-1].name}>"
        self.stack.pop()

    def handle_data(self, data: str) -> None:
        self.stack[-1].children.append(data)


def read(page: str) -> Element:
    """Return the page as a tree; fails if tags do not match."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert len(reader.stack) == 1, f"<{reader.stack[-1].name}> is never closed"
    return reader.stack[0]


def section(page: Element, title: str) -> Element:
    """Return the section with a heading."""
    found = [item for item in page.all("section") if item.all("h2") and item.all("h2")[0].text == title]
    assert len(found) == 1, f"{len(found)} sections called {title}"
    return found[0]


def drawn(text: str) -> Element:
    """Return the picture in a text."""
    return read(text).one("svg")


def edges(rectangle: Element) -> tuple[float, float]:
    """Return where a rectangle begins and ends."""
    left = float(rectangle.attributes["x"])
    return left, left + float(rectangle.attributes["width"])
