"""MkDocs hooks: generate reference tables from the code and typeset formulas as MathML."""

import html
import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any

GENERATED = {
    "bandit-parameters": ("glcb.bandit.config", "parameters_table"),
    "glcb-settings": ("glcb.policies.glcb.settings", "settings_table"),
    "service-settings": ("glcb.service.config", "settings_table"),
    "http": ("glcb.service.http.openapi", "markdown_reference"),
    "cli": ("glcb.cli.reference", "markdown"),
}
"""The name in a marker such as ``<!-- generate: cli -->``, and the function that returns its Markdown."""

_MARKER = re.compile(r"^<!-- generate: ([\w-]+) -->$", re.MULTILINE)
_FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<tex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace each marker by what the code says about itself."""
    return _MARKER.sub(lambda marker: generate(marker[1], page.file.src_path), markdown)


def on_page_content(content: str, **_: Any) -> str:
    """Replace TeX by MathML, which browsers display without scripts or fonts."""
    return _FORMULA.sub(_mathml, content)


def generate(name: str, page: str = "a page") -> str:
    """Return the generated Markdown called ``name``."""
    if name == "errors":
        return errors()
    if name not in GENERATED:
        raise ValueError(f"{page}: nothing generates {name!r}; known are {', '.join(GENERATED)}")
    module, function = GENERATED[name]
    try:
        build = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{page}: {name!r} needs {module}.{function}(): {error}") from error
    built = build()
    return built if isinstance(built, str) else table(built)


def table(rows: Sequence[Any]) -> str:
    """Return rows of (name, type, default, meaning, when to change it) as a Markdown table."""
    lines = ["| name | type | default | meaning | when to change it |", "|:--|:--|:--|:--|:--|"]
    for name, kind, default, meaning, when in rows:
        cells = (f"`{name}`", kind, default, meaning, when)
        lines.append(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)


def errors() -> str:
    """Return the tree of errors and a directive for each of them, by its public name."""
    from glcb import _errors

    tree = "\n".join(
        line for line in (_errors.__doc__ or "").splitlines() if re.match("GlcbError|[├│└]", line)
    )
    names = ["GlcbError", *re.findall(r"── (\w+)", tree)]
    blocks = [f"```text\n{tree}\n```", *(f"::: glcb.{name}" for name in names)]
    return "\n\n".join(blocks)


def _mathml(formula: re.Match[str]) -> str:
    from latex2mathml.converter import convert

    display = "block" if formula["tag"] == "div" else "inline"
    tex = html.unescape(formula["tex"]).strip()
    try:
        return str(convert(tex, display=display))
    except Exception as error:
        raise ValueError(f"cannot typeset the formula {tex!r}: {error!r}") from error
