"""What a report consists of, whatever it is written as."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """One cell of a table; what is missing is a cell without text."""

    text: str = ""
    notes: tuple[str, ...] = ()
    """Said below, in small print, a line each."""
    best: bool = False
    """Stands out from the others."""
    doubtful: bool = False
    """Stands back: says less than it seems to."""


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    heading: Cell
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Group:
    """Lines that belong together; a title of "" is not shown."""

    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Table:
    """A table with a line of explanation."""

    caption: str
    columns: tuple[str, ...]
    """Headings, the one above the headings of the lines first."""
    groups: tuple[Group, ...]
    words: bool = False
    """Whether the cells are words rather than numbers."""


@dataclass(frozen=True)
class Picture:
    """A drawing, and what it shows."""

    name: str
    """Different for every picture, and fit for the name of a file."""
    title: str
    svg: str


@dataclass(frozen=True)
class Gallery:
    """Pictures side by side, where there is room."""

    title: str
    pictures: tuple[Picture, ...]


@dataclass(frozen=True)
class Listing:
    """A list of short texts."""

    items: tuple[str, ...]


Block = str | Table | Gallery | Listing
"""A string is a paragraph."""


@dataclass(frozen=True)
class Section:
    """A chapter."""

    name: str
    """Short, for links."""
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Fact:
    """A number that a reader wants first, and what it counts."""

    value: str
    label: str


@dataclass(frozen=True)
class Document:
    """The whole report."""

    title: str
    lead: str
    facts: tuple[Fact, ...]
    sections: tuple[Section, ...]
