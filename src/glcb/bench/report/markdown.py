"""The report as Markdown; the pictures are files beside it."""

import re

from glcb.bench.report.document import Block, Cell, Document, Gallery, Listing, Picture, Section, Table

FOLDER = "report-pictures"

# What surrounds a picture in a page, it has to bring along as a file.
_STYLE = (
    "<style>svg{font-family:sans-serif;color:#222}@media(prefers-color-scheme:dark){svg{color:#ddd}}</style>"
)


def render(document: Document) -> dict[str, str]:
    """Return the names of all files and what goes into them."""
    parts = [f"# {_escape(document.title)}", _escape(document.lead)]
    parts.append("\n".join(f"- **{_escape(fact.value)}** {_escape(fact.label)}" for fact in document.facts))
    parts += [_section(section) for section in document.sections]
    pictures = {
        f"{FOLDER}/{picture.name}.svg": re.sub(r"(<svg[^>]*>)", rf"\1{_STYLE}", picture.svg, count=1)
        for section in document.sections
        for block in section.blocks
        if isinstance(block, Gallery)
        for picture in block.pictures
    }
    return {"report.md": "\n\n".join(parts) + "\n", **pictures}


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
            return "\n\n".join([*title, "\n".join(map(_picture, block.pictures))])
        case Listing():
            return "\n".join(f"- {_escape(item)}" for item in block.items)


def table(content: Table) -> str:
    """Return a table, with its caption above."""
    align = ":--" if content.words else "--:"
    lines = [
        "| " + " | ".join(map(_escape, content.columns)) + " |",
        "|:--|" + f"{align}|" * (len(content.columns) - 1),
    ]
    for group in content.groups:
        if group.title:
            lines.append(f"| *{_escape(group.title)}* |" + " |" * (len(content.columns) - 1))
        lines += ["| " + " | ".join(map(_cell, (row.heading, *row.cells))) + " |" for row in group.rows]
    return f"{_escape(content.caption)}\n\n" + "\n".join(lines)


def _cell(cell: Cell) -> str:
    text = _escape(cell.text) or "–"
    shown = f"**{text}**" if cell.best else f"*{text}*" if cell.doubtful else text
    return "<br>".join([shown, *map(_escape, cell.notes)])


def _picture(picture: Picture) -> str:
    return f"![{_escape(picture.title)}]({FOLDER}/{picture.name}.svg)"


def _escape(text: str) -> str:
    """Return text that Markdown shows as it is.

    >>> _escape("a|b *c* <d>")
    'a\\\\|b \\\\*c\\\\* &lt;d>'
    """
    marked = re.sub(r"([\\`*_|\[\]])", r"\\\1", text.replace("\n", " "))
    return marked.replace("&", "&amp;").replace("<", "&lt;")
