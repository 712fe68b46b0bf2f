"""The tables of the service, and how older ones are brought up to date."""

from collections.abc import Callable, Sequence

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    inspect,
    select,
)

from glcb._errors import StorageError

metadata = MetaData()

about = Table(
    "glcb_about",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)

experiments = Table(
    "glcb_experiments",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("name", String(64), nullable=False, unique=True),
    sqlite_autoincrement=True,  # what is left of a deleted experiment must never fall to a new one
)

events = Table(
    "glcb_events",
    metadata,
    Column("experiment", Integer, primary_key=True, autoincrement=False),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Float(53), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("request", LargeBinary, nullable=False),
    Column("outcome", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

snapshots = Table(
    "glcb_snapshots",
    metadata,
    Column("experiment", Integer, primary_key=True, autoincrement=False),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Float(53), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("parts", Integer, nullable=False),
    Column("summary", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

parts = Table(
    "glcb_snapshot_parts",
    metadata,
    Column("experiment", Integer, primary_key=True, autoincrement=False),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("content", LargeBinary, nullable=False),
)

keys = Table(
    "glcb_keys",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("digest", String(64), nullable=False, unique=True),
    Column("role", String(16), nullable=False),
    Column("experiments", Text),
    Column("created", Float(53), nullable=False),
)

Migration = Callable[[Connection], None]


def _make_tables(connection: Connection) -> None:
    metadata.create_all(connection)


MIGRATIONS: Sequence[Migration] = (_make_tables,)
"""What leads from each version of the tables to the next; the first makes them. Only added to."""


def migrate(connection: Connection, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Bring the tables up to date, within the transaction of ``connection``."""
    version = _version(connection)
    if version > len(migrations):
        raise StorageError(
            f"this database has version {version} of the tables, this glcb knows {len(migrations)}: "
            "update glcb"
        )
    if version == len(migrations):
        return
    for step in migrations[version:]:
        step(connection)
    connection.execute(about.delete().where(about.c.name == "version"))
    connection.execute(about.insert().values(name="version", value=str(len(migrations))))


def _version(connection: Connection) -> int:
    if not inspect(connection).has_table(about.name):
        return 0
    found = connection.execute(select(about.c.value).where(about.c.name == "version")).scalar()
    return 0 if found is None else int(found)
