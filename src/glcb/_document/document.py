"""The document model of a report, independent of HTML and Markdown."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TableCell:
    """One cell of a table. A missing value is a cell without text."""

    text: str = ""
    notes: tuple[str, ...] = ()
    """Lines of small print below the text."""
    best: bool = False
    """Highlighted as the best value."""
    uncertain: bool = False
    """Shown in italics: not distinguishable from the reference, or a single run."""


@dataclass(frozen=True)
class Row:
    """One row of a table."""

    heading: TableCell
    cells: tuple[TableCell, ...]


@dataclass(frozen=True)
class Group:
    """Rows that belong together; an empty title is not shown."""

    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Table:
    """A table with a caption."""

    caption: str
    columns: tuple[str, ...]
    """Column headings, including the one above the row headings."""
    groups: tuple[Group, ...]
    textual: bool = False
    """Whether the cells hold text rather than numbers."""

    def transposed(self, heading: str) -> "Table":
        """Return the table with columns as rows, under ``heading``, in a single group.

        Small print of row headings is added to the column headings in parentheses.
        """
        rows = [row for group in self.groups for row in group.rows]
        headings = [
            " ".join([row.heading.text, *(f"({note})" for note in row.heading.notes)]) for row in rows
        ]
        turned = tuple(
            Row(TableCell(name), tuple(row.cells[index] for row in rows))
            for index, name in enumerate(self.columns[1:])
        )
        return Table(self.caption, (heading, *headings), (Group("", turned),), self.textual)


@dataclass(frozen=True)
class Figure:
    """A drawing with its title."""

    name: str
    """Unique in the document and usable as a file name."""
    title: str
    svg: str


@dataclass(frozen=True)
class Gallery:
    """Figures side by side, as far as the width of the page allows."""

    title: str
    figures: tuple[Figure, ...]


@dataclass(frozen=True)
class Listing:
    """A list of short texts."""

    items: tuple[str, ...]


Block = str | Table | Gallery | Listing
"""A string is a paragraph."""


@dataclass(frozen=True)
class Section:
    """A section of the report."""

    name: str
    """Short name, for links."""
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Fact:
    """A key number and its label."""

    value: str
    label: str


@dataclass(frozen=True)
class Document:
    """A complete report."""

    title: str
    conclusion: str
    """One sentence, or "" if there is nothing to compare."""
    introduction: str
    facts: tuple[Fact, ...]
    sections: tuple[Section, ...]
    """The first one is shown at the top, before the introduction."""
