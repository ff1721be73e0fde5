"""Formulas as HTML: KaTeX typesets them when the site is built, so that pages need neither a script nor a network.

KaTeX, its style sheet and its fonts come from the package jupyterlab-katex, a bundle without dependencies; quickjs-ng runs it.
"""

from __future__ import annotations

import functools
import html
import importlib
import importlib.metadata
import json
import re
from pathlib import Path
from typing import Any

MISSING = "formulas are not typeset, {name} is missing: pip install 'aegis-handover[docs]'"
FOLDER = "assets/katex"  # of the site
FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">(?:\\\((?P<inline>.*?)\\\)|\\\[(?P<display>.*?)\\\])</(?P=tag)>', re.DOTALL
)
# The bundle is a table of modules by number, in files that add to it. `need` loads a module, as the bundle's own loader does.
LOADER = """
var modules = {}, loaded = {}, self = globalThis;
var URL = class { constructor(path) { this.path = path } toString() { return this.path } };
function need(id) {
  if (!(id in loaded)) { var it = loaded[id] = {id: id, exports: {}}; modules[id](it, it.exports, need) }
  return loaded[id].exports;
}
need.p = need.b = "";
need.o = (item, name) => Object.prototype.hasOwnProperty.call(item, name);
need.r = item => Object.defineProperty(item, "__esModule", {value: true});
need.d = (item, getters) => {
  for (var name in getters) Object.defineProperty(item, name, {enumerable: true, get: getters[name]});
};
need.n = item => { var getter = () => item && item.__esModule ? item.default : item; need.d(getter, {a: getter}); return getter };
function with_text(text) {
  var id = Object.keys(modules).find(id => String(modules[id]).includes(text));
  if (!id) throw new Error("no module holds " + text);
  return need(id);
}
function style() { return Object.values(with_text("@font-face")).map(String).find(text => text.includes("@font-face")) }
function typeset(formula, display) {
  try {
    return JSON.stringify({html: katex.renderToString(formula, {displayMode: display, throwOnError: true, strict: false})});
  } catch (error) { return JSON.stringify({error: error.message}) }
}
"""


class FormulaError(ValueError):
    """KaTeX cannot read a formula, or is not installed."""


def typeset(formula: str, *, display: bool = False) -> str:
    """Return a formula in TeX as HTML, with MathML beside it for screen readers.

    Raises
    ------
    FormulaError
        If KaTeX cannot read the formula, or is not installed.
    """
    answer: dict[str, str] = json.loads(_katex().eval(f"typeset({json.dumps(formula)}, {json.dumps(display)})"))
    if "error" in answer:
        raise FormulaError(f"{answer['error']} (in {formula.strip()!r})")
    return answer["html"]


def typeset_page(content: str) -> tuple[str, list[str]]:
    """Return the HTML of a page with its formulas typeset, and what is wrong with those that are left as they are."""
    wrong: list[str] = []

    def replace(match: re.Match[str]) -> str:
        display = match["display"] is not None
        formula = html.unescape(match["display"] if display else match["inline"])
        try:
            inside = typeset(formula, display=display)
        except FormulaError as error:
            wrong.append(str(error))
            return match[0]
        return f'<{match["tag"]} class="formula" data-search-exclude>{inside}</{match["tag"]}>'

    return FORMULA.sub(replace, content), list(dict.fromkeys(wrong))


def assets() -> dict[str, str | Path]:
    """Return what the site needs to show formulas, by its place there: the text of the style sheet, and the files of the fonts.

    Raises
    ------
    FormulaError
        If KaTeX is not installed.
    """
    style: str = _katex().eval("style()")
    rules = re.sub(r",\s*url\([^)]*\) format\(.(?:woff|truetype).\)", "", style)  # every browser of today reads woff2
    fonts = sorted(set(re.findall(r"url\(\"?([\w.]+)\"?\)", rules)))
    files = {path.name: path for path in _bundle()}
    return {f"{FOLDER}/katex.css": rules, **{f"{FOLDER}/{name}": files[name] for name in fonts}}


@functools.cache
def _bundle() -> list[Path]:
    try:
        listed = importlib.metadata.files("jupyterlab-katex")
    except importlib.metadata.PackageNotFoundError:
        raise FormulaError(MISSING.format(name="jupyterlab-katex")) from None
    return [Path(str(path.locate())).resolve() for path in listed or () if path.parent.name == "static"]


@functools.cache
def _katex() -> Any:
    try:
        context = importlib.import_module("quickjs").Context()
    except ModuleNotFoundError:
        raise FormulaError(MISSING.format(name="quickjs-ng")) from None
    context.eval(LOADER)
    for path in sorted(_bundle()):
        text = path.read_text(encoding="utf-8") if path.suffix == ".js" else ""
        if chunk := re.search(r"\(self\.(webpackChunk\w+)=", text[:200]):
            context.eval(f"self.{chunk[1]} = {{push: chunk => Object.assign(modules, chunk[1])}}")
            context.eval(text)
    context.eval('var katex = with_text("KaTeX parse error")')
    return context
