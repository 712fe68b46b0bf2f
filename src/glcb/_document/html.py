"""Rendering of a report as one self-contained HTML page without scripts."""

import re
from html import escape
from importlib.resources import files
from string import Template

from glcb._document.document import (
    Block,
    Document,
    Figure,
    Gallery,
    Group,
    Listing,
    Row,
    Section,
    Table,
    TableCell,
)


def render(document: Document) -> str:
    """Return the page."""
    overview, *sections = document.sections
    conclusion = f'<p class="conclusion">{escape(document.conclusion)}</p>' if document.conclusion else ""
    facts = "".join(
        f"<div><dd>{escape(fact.value)}</dd><dt>{escape(fact.label)}</dt></div>" for fact in document.facts
    )
    links = "".join(f'<a href="#{escape(section.name)}">{escape(section.title)}</a>' for section in sections)
    return Template(_resource("page.html")).substitute(
        title=escape(document.title),
        conclusion=conclusion,
        overview=_section(overview),
        introduction=escape(document.introduction),
        facts=facts,
        links=links,
        sections="\n".join(map(_section, sections)),
        style=_resource("style.css"),
    )


def _resource(name: str) -> str:
    return files("glcb._document").joinpath(name).read_text(encoding="utf-8")


def _section(section: Section) -> str:
    blocks = "\n".join(map(_block, section.blocks))
    return f'<section id="{escape(section.name)}">\n<h2>{escape(section.title)}</h2>\n{blocks}\n</section>'


def _block(block: Block) -> str:
    match block:
        case str():
            return f"<p>{escape(block)}</p>"
        case Table():
            return _table(block)
        case Gallery():
            title = f"<h3>{escape(block.title)}</h3>" if block.title else ""
            return f'{title}<div class="gallery">{"".join(map(_figure, block.figures))}</div>'
        case Listing():
            return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in block.items) + "</ul>"


def _table(table: Table) -> str:
    headings = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in table.columns)
    groups = "".join(_group(group, len(table.columns)) for group in table.groups)
    kind = "text" if table.textual else "numbers"
    # The box scrolls instead of the page and can be focused with the keyboard.
    return (
        f'<p class="caption">{escape(table.caption)}</p>'
        f'<div class="box" tabindex="0" role="region" aria-label="{escape(table.caption)}">'
        f'<table class="{kind}"><thead><tr>{headings}</tr></thead>{groups}</table></div>'
    )


def _group(group: Group, width: int) -> str:
    title = f'<th scope="rowgroup" colspan="{width}"><span>{escape(group.title)}</span></th>'
    head = f'<tr class="group">{title}</tr>' if group.title else ""
    return f"<tbody>{head}{''.join(map(_row, group.rows))}</tbody>"


def _row(row: Row) -> str:
    return f'<tr><th scope="row">{_cell_content(row.heading)}</th>{"".join(map(_cell, row.cells))}</tr>'


def _cell(cell: TableCell) -> str:
    if not cell.text:
        return '<td class="missing">–</td>'
    kind = ' class="best"' if cell.best else ' class="uncertain"' if cell.uncertain else ""
    return f"<td{kind}>{_cell_content(cell)}</td>"


def _cell_content(cell: TableCell) -> str:
    text = f"<strong>{escape(cell.text)}</strong>" if cell.best else escape(cell.text)
    return text + "".join(f"<small>{escape(note)}</small>" for note in cell.notes)


def _figure(figure: Figure) -> str:
    # Without a fixed size the figure takes the available width.
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*" height="[^"]*"', r'\1 role="img"', figure.svg, count=1)
    svg = svg.replace("<svg", f'<svg aria-label="{escape(figure.title)}"', 1)
    return f"<figure>{svg}</figure>"
