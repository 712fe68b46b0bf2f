"""``glcb serve --demo``: three experiments in made-up worlds, with a past and with visitors."""

import contextlib
import sys
import tempfile
from pathlib import Path

import msgspec

from glcb._errors import InvalidSettings
from glcb.service.auth import listed
from glcb.service.config import ServiceSettings
from glcb.service.demo import history, homepage, price, router
from glcb.service.demo.visitors import come
from glcb.service.server import serve
from glcb.service.storage.storage import Storage
from glcb.service.warmup import warm_up

WORLDS = [homepage.WORLD, price.WORLD, router.WORLD]


def serve_demo(settings: ServiceSettings) -> None:
    """Serve the demo; in a temporary folder, unless the settings name a place for the data."""

    async def make_up(storage: Storage) -> None:
        if listed(storage):
            raise InvalidSettings("the demo has no key for this data: leave out --data, or name a new file")
        names = ", ".join(world.name for world in WORLDS)
        sys.stderr.write(f"making up {history.DAYS:g} days of visitors for {names}: some seconds\n")
        sys.stderr.flush()
        await warm_up()  # the visitors of the past need it too, and only this can be given up half-way
        await history.make_up(storage, settings, WORLDS)

    with contextlib.ExitStack() as until_the_end:
        if settings.database is None and settings.data == ServiceSettings().data:
            folder = until_the_end.enter_context(tempfile.TemporaryDirectory(prefix="glcb-demo-"))
            settings = msgspec.structs.replace(settings, data=str(Path(folder) / "glcb.db"))
        serve(settings, before=make_up, beside=lambda url: come(url, WORLDS))
