"""``glcb serve --demo``: three experiments with simulated visitors, past and live."""

import contextlib
import sys
import tempfile
from pathlib import Path

import msgspec

from glcb._errors import InvalidSettings
from glcb.service.access.api_keys import list_keys
from glcb.service.config import ServiceSettings
from glcb.service.demo import traffic
from glcb.service.demo.worlds import WORLDS
from glcb.service.process.warmup import warm_up
from glcb.service.server import serve
from glcb.service.storage.database import Database


def serve_demo(settings: ServiceSettings) -> None:
    """Serve the demo, in a temporary folder unless the settings name a database.

    Parameters
    ----------
    settings
        The settings of the service.

    Raises
    ------
    InvalidSettings
        The database contains API keys, which the simulated visitors do not have; or there are several
        workers.
    """
    if settings.has_workers:
        raise InvalidSettings("the demo is one process: leave out --workers, --executor and inner_address")

    async def prepare(database: Database) -> None:
        if list_keys(database):
            raise InvalidSettings(
                "the demo cannot use a database with API keys: omit --data, or name a new file"
            )
        names = ", ".join(world.name for world in WORLDS)
        sys.stderr.write(f"simulating {traffic.DAYS:g} days of visitors for {names}: a few seconds\n")
        sys.stderr.flush()
        await warm_up()  # the simulation needs the kernels too, and only this can be interrupted
        await traffic.simulate_history(database, settings, WORLDS)

    with contextlib.ExitStack() as stack:
        if settings.database is None and settings.data == ServiceSettings().data:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="glcb-demo-"))
            settings = msgspec.structs.replace(settings, data=str(Path(folder) / "glcb.db"))
        serve(settings, prepare, lambda url: traffic.simulate_visitors(url, WORLDS))
