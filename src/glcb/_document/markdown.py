"""Rendering of a report as Markdown, with its figures as SVG files."""

import re

from glcb._document.document import Block, Document, Figure, Gallery, Listing, Section, Table, TableCell

FOLDER = "report-figures"

# A figure in a file has no page to take its font and color from.
_STYLE = (
    "<style>svg{font-family:sans-serif;color:#222}@media(prefers-color-scheme:dark){svg{color:#ddd}}</style>"
)


def render(document: Document) -> dict[str, str]:
    """Return the contents of all files by name."""
    overview, *sections = document.sections
    parts = [f"# {_escape(document.title)}"]
    if document.conclusion:
        parts.append(strong(document.conclusion))
    parts += [_section(overview), _escape(document.introduction)]
    parts.append("\n".join(f"- **{_escape(fact.value)}** {_escape(fact.label)}" for fact in document.facts))
    parts += [_section(section) for section in sections]
    figures = {
        f"{FOLDER}/{figure.name}.svg": re.sub(r"(<svg[^>]*>)", rf"\1{_STYLE}", figure.svg, count=1)
        for section in document.sections
        for block in section.blocks
        if isinstance(block, Gallery)
        for figure in block.figures
    }
    return {"report.md": "\n\n".join(parts) + "\n", **figures}


def _section(section: Section) -> str:
    return "\n\n".join([f"## {_escape(section.title)}", *map(_block, section.blocks)])


def _block(block: Block) -> str:
    match block:
        case str():
            return _escape(block)
        case Table():
            return table(block)
        case Gallery():
            title = [f"### {_escape(block.title)}"] if block.title else []
            return "\n\n".join([*title, "\n".join(map(_figure, block.figures))])
        case Listing():
            return "\n".join(f"- {_escape(item)}" for item in block.items)


def table(content: Table) -> str:
    """Return a table with its caption above it."""
    align = ":--" if content.textual else "--:"
    lines = [
        "| " + " | ".join(map(_escape, content.columns)) + " |",
        "|:--|" + f"{align}|" * (len(content.columns) - 1),
    ]
    for group in content.groups:
        if group.title:
            lines.append(f"| *{_escape(group.title)}* |" + " |" * (len(content.columns) - 1))
        lines += ["| " + " | ".join(map(_cell, (row.heading, *row.cells))) + " |" for row in group.rows]
    return f"{_escape(content.caption)}\n\n" + "\n".join(lines)


def strong(text: str) -> str:
    """Return a paragraph in bold."""
    return f"**{_escape(text)}**"


def _cell(cell: TableCell) -> str:
    text = _escape(cell.text) or "–"
    shown = f"**{text}**" if cell.best else f"*{text}*" if cell.uncertain else text
    return "<br>".join([shown, *map(_escape, cell.notes)])


def _figure(figure: Figure) -> str:
    return f"![{_escape(figure.title)}]({FOLDER}/{figure.name}.svg)"


def _escape(text: str) -> str:
    """Escape Markdown and HTML syntax.

    >>> _escape("a|b *c* <d>")
    'a\\\\|b \\\\*c\\\\* &lt;d>'
    """
    marked = re.sub(r"([\\`*_|\[\]])", r"\\\1", text.replace("\n", " "))
    return marked.replace("&", "&amp;").replace("<", "&lt;")
