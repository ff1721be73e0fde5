"""The page as a whole: well formed, self-contained, accessible, escaped, reproducible, and only of certificates as issued."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from page_reader import Element, read
from report_cases import KINDS, bare, certified, hostile

from aegis.errors import InputError, OutputError
from aegis.report import render_certificate, write_report

NAMES = sorted(KINDS)
TAGS = {
    "abbr", "article", "body", "br", "circle", "code", "dd", "desc", "details", "div", "dl", "document", "dt", "figcaption",
    "figure", "footer", "h1", "h2", "h3", "head", "header", "html", "li", "line", "main", "meta", "p", "path", "polyline", "pre",
    "rect", "section", "span", "strong", "style", "summary", "svg", "table", "tbody", "td", "text", "th", "thead", "title", "tr",
    "ul",
}  # fmt: skip


def page_of(name: str) -> Element:
    return read(render_certificate(KINDS[name]().to_json()))


@pytest.mark.parametrize("name", NAMES)
def test_page_is_well_formed_and_needs_nothing_else(name: str) -> None:
    text = render_certificate(KINDS[name]().to_json())
    page = read(text)
    assert text.startswith("<!DOCTYPE html>")
    assert {item.name for item in page.walk()} <= TAGS  # no script, link, img, iframe
    for item in page.walk():
        assert not {"src", "href", "srcset", "action", "data", "xlink:href"} & set(item.attributes)
        assert not [key for key in item.attributes if key.startswith("on")]
    style = page.one("style").text
    assert "url(" not in style and "@import" not in style
    assert "http" not in text.lower()


@pytest.mark.parametrize("name", NAMES)
def test_page_is_accessible(name: str) -> None:
    page = page_of(name)
    assert page.one("html").attributes["lang"] == "en"
    depths = [int(item.name[1]) for item in page.walk() if item.name in ("h1", "h2", "h3", "h4")]
    assert depths[0] == 1 and depths.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(depths))
    ids = [item.attributes["id"] for item in page.walk() if "id" in item.attributes]
    assert len(ids) == len(set(ids))
    for picture in page.all("svg"):
        if picture.attributes.get("aria-hidden") == "true":
            continue
        assert picture.attributes["role"] == "img"
        title, description = (
            page.all(lambda item, key=key: item.attributes.get("id") == key)[0]
            for key in picture.attributes["aria-labelledby"].split()
        )
        assert (title.name, description.name) == ("title", "desc")
        assert title.children and description.children
    for table in page.all("table"):
        assert all("scope" in head.attributes for head in table.all("th"))


@pytest.mark.parametrize("name", NAMES)
def test_the_same_certificate_gives_the_same_page(name: str) -> None:
    content = KINDS[name]().to_json()
    first = render_certificate(content)
    assert render_certificate(content) == first
    assert render_certificate(json.loads(json.dumps(content))) == first


@pytest.mark.parametrize("name", NAMES)
def test_no_missing_number_is_printed_as_code(name: str) -> None:
    text = page_of(name).one("main").text
    for word in ("None", "nan", "Undefined", "inf ", "Markup"):
        assert word not in text


@pytest.mark.parametrize("verdict", ["certified", "not yet", "refused"])
def test_a_certificate_without_numbers_has_a_page(verdict: str) -> None:
    page = read(render_certificate(bare(verdict).to_json()))
    assert page.one(".verdict").text.lower() == verdict
    assert page.all(".tile")[0].one(".value").text == "none"
    assert "not known" in page.all(".tile")[4].text


def test_everything_from_the_certificate_is_escaped() -> None:
    text = render_certificate(hostile().to_json())
    assert "<b" not in text.replace("<body", "").replace("<br", "")
    page = read(text)
    assert "<b onload=\"x('&')\">" in page.one("h1").text
    assert page.one(".sentence").text == "<b onload=\"x('&')\">"


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
    | st.sampled_from(["</style>", "-->", "{{ 7 * 7 }}", '" x="', "]]>"])
)
@settings(max_examples=25, deadline=None)
def test_no_name_can_break_the_page(text: str) -> None:
    page = read(render_certificate(hostile(text).to_json()))
    assert {item.name for item in page.walk()} <= TAGS
    known = {key for item in read(render_certificate(hostile("x").to_json())).walk() for key in item.attributes}
    assert {key for item in page.walk() for key in item.attributes} <= known


def test_the_page_is_written_in_one_step_from_all_three_forms(tmp_path: Path) -> None:
    certificate = certified()
    stored = tmp_path / "certificate.json"
    certificate.save(stored)
    pages = [
        write_report(form, tmp_path / f"{place}.html") for place, form in enumerate((certificate, certificate.to_json(), stored))
    ]
    assert pages == [tmp_path / f"{place}.html" for place in range(3)]
    assert len({page.read_bytes() for page in pages}) == 1
    assert pages[0].read_text(encoding="utf-8") == render_certificate(certificate.to_json())
    assert not list(tmp_path.glob(".*"))


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write"):
        write_report(certified(), tmp_path / "file" / "page.html")


def test_only_certificates_as_issued_have_a_page() -> None:
    content = certified().to_json()
    changed = json.loads(json.dumps(content))
    changed["summary"]["gain_lower"] = 99.0
    with pytest.raises(InputError, match="changed after it was written"):
        render_certificate(changed)
    with pytest.raises(InputError, match="changed after it was written"):
        render_certificate({key: value for key, value in content.items() if key != "seal"})
    with pytest.raises(InputError, match=r"not a certificate.*aegis certify"):
        render_certificate({"kind": "something"})
    with pytest.raises(InputError, match="format 99"):
        render_certificate({**content, "format": 99})
