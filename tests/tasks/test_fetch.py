"""Download of data files."""

import gzip
import lzma
from collections.abc import Iterator
from pathlib import Path

import pytest

from glcb import DataError, InvalidSettings
from glcb.tasks.classification import LabeledFileTask
from glcb.tasks.data.directory import DataFile, Facts
from glcb.tasks.data.fetch import fetch
from glcb.tasks.data.readers import ColumnOptions, read_text_file
from glcb.tasks.data.table import LabeledTable
from tests.tasks.server import Site, serving

CONTENT = "".join(f"{number},{number * 7 % 1000},{'ab'[number % 2]}\n" for number in range(20_000)).encode()


class Tiny(LabeledFileTask):
    """Two numbers and a letter."""

    name = "tiny"
    files = (DataFile("tiny.data", Facts(20_000, 2, 2, (10_000, 10_000)), "none", "nowhere"),)

    @classmethod
    def parse(cls, path: Path) -> LabeledTable:
        return LabeledTable.split(
            read_text_file(path, columns=["x", "y", "letter"], options=ColumnOptions()), "letter"
        )


@pytest.fixture
def site() -> Iterator[Site]:
    with serving({"tiny.data": CONTENT}) as site:
        yield site


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GLCB_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("GLCB_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "data"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_downloaded_file_makes_the_task_usable(site: Site, folder: Path) -> None:
    reports: list[tuple[str, int, int | None]] = []
    path = fetch(Tiny(), base_url=site.url, progress=lambda *report: reports.append(report))
    assert path == folder / "tiny.data"
    assert path.read_bytes() == CONTENT
    assert names(folder) == {"tiny.data"}
    assert reports[-1] == ("tiny.data", len(CONTENT), len(CONTENT))
    assert [have for _, have, _ in reports] == sorted(have for _, have, _ in reports)
    assert Tiny().stream(0, 100).contexts.shape == (100, 2)


@pytest.mark.parametrize("ending", [".xz", ".gz"])
def test_a_mirror_may_serve_a_compressed_file(site: Site, ending: str) -> None:
    packed = lzma.compress(CONTENT) if ending == ".xz" else gzip.compress(CONTENT)
    site.files = {f"tiny.data{ending}": packed}
    assert fetch(Tiny(), base_url=site.url + "/").name == f"tiny.data{ending}"
    assert Tiny().features == 2


def test_an_interrupted_download_resumes(site: Site, folder: Path) -> None:
    site.cut_after = 100_000
    with pytest.raises(DataError, match=r"was lost after 100,000 of .* bytes.*run the command again"):
        fetch(Tiny(), base_url=site.url)
    assert "tiny.data" not in names(folder)
    assert (folder / "tiny.data.part").stat().st_size == 100_000
    with pytest.raises(DataError, match="was lost after 200,000"):
        fetch(Tiny(), base_url=site.url)
    site.cut_after = None
    assert fetch(Tiny(), base_url=site.url).read_bytes() == CONTENT
    assert [requested for _, requested in site.requests] == [None, "bytes=100000-", "bytes=200000-"]
    assert site.sent == len(CONTENT)
    assert names(folder) == {"tiny.data"}


def test_a_file_that_changed_on_the_server_is_downloaded_from_the_start(site: Site) -> None:
    site.files["tiny.data"] = CONTENT.replace(b"a", b"c")
    site.cut_after = 100_000
    with pytest.raises(DataError, match="was lost after"):
        fetch(Tiny(), base_url=site.url)
    site.files["tiny.data"] = CONTENT
    site.cut_after = None
    assert fetch(Tiny(), base_url=site.url).read_bytes() == CONTENT


def test_a_partial_file_of_another_server_is_not_resumed(site: Site) -> None:
    site.files["tiny.data"] = CONTENT.replace(b"a", b"c")
    site.cut_after = 100_000
    with pytest.raises(DataError, match="was lost after"):
        fetch(Tiny(), base_url=site.url)
    with serving({"tiny.data": CONTENT}) as other:
        assert fetch(Tiny(), base_url=other.url).read_bytes() == CONTENT
        assert other.requests == [("tiny.data", None)]


@pytest.mark.parametrize(
    "note", ["", "5", "[]", "{}", '{"url": 1}', '{"url": "URL"}', '{"url": "URL", "version": 7}']
)
def test_an_invalid_resume_note_is_ignored(note: str, site: Site, folder: Path) -> None:
    folder.mkdir()
    (folder / "tiny.data.part").write_bytes(b"x" * 1000)
    (folder / "tiny.data.part.json").write_text(note.replace("URL", f"{site.url}/tiny.data"))
    assert fetch(Tiny(), base_url=site.url).read_bytes() == CONTENT
    assert site.requests == [("tiny.data", None)]


def test_a_complete_partial_file_is_accepted(site: Site, folder: Path) -> None:
    site.cut_after = 1000
    with pytest.raises(DataError, match="was lost after"):
        fetch(Tiny(), base_url=site.url)
    (folder / "tiny.data.part").write_bytes(CONTENT)
    site.cut_after = None
    assert fetch(Tiny(), base_url=site.url).read_bytes() == CONTENT
    assert site.requests[1:] == [("tiny.data", f"bytes={len(CONTENT)}-"), ("tiny.data", None)]


@pytest.mark.parametrize(
    "content",
    [
        CONTENT[: len(CONTENT) // 2],
        CONTENT.replace(b"a", b"b", 1),
        b"<html>Please log in</html>",
        b"",
        lzma.compress(CONTENT)[:-50],
    ],
    ids=["half", "other classes", "a web page", "nothing", "damaged xz"],
)
def test_wrong_content_is_refused_and_removed(site: Site, folder: Path, content: bytes) -> None:
    site.files["tiny.data"] = content
    with pytest.raises(DataError, match="is not the expected file and was removed"):
        fetch(Tiny(), base_url=site.url)
    assert names(folder) == set()
    site.files["tiny.data"] = CONTENT
    assert fetch(Tiny(), base_url=site.url).read_bytes() == CONTENT


def test_a_missing_file_names_the_mirror_option(site: Site, folder: Path) -> None:
    site.files = {}
    with pytest.raises(DataError, match=r"has no file tiny\.data: pass a mirror"):
        fetch(Tiny(), base_url=site.url)
    assert [name for name, _ in site.requests] == ["tiny.data", "tiny.data.xz", "tiny.data.gz"]
    assert names(folder) == set()


def test_a_server_error_is_reported(site: Site) -> None:
    site.status = 503
    with pytest.raises(DataError, match="the server responded with 503 Service Unavailable"):
        fetch(Tiny(), base_url=site.url)


def test_an_unreachable_server_is_reported() -> None:
    with serving({}) as site:
        url = site.url
    with pytest.raises(DataError, match=r"refused.*check the connection"):
        fetch(Tiny(), base_url=url)


def test_a_lost_connection_keeps_the_partial_file(folder: Path) -> None:
    with serving({"tiny.data": CONTENT}) as site:
        site.cut_after = 50_000
        with pytest.raises(DataError, match="was lost after 50,000"):
            fetch(Tiny(), base_url=site.url)
        url = site.url
    with pytest.raises(DataError, match="refused"):
        fetch(Tiny(), base_url=url)
    assert (folder / "tiny.data.part").stat().st_size == 50_000


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_reported(site: Site, folder: Path) -> None:
    folder.mkdir()
    (folder / "tiny.data.part").symlink_to("/dev/full")
    with pytest.raises(DataError, match=r"cannot write .*tiny\.data\.part: No space left"):
        fetch(Tiny(), base_url=site.url)
    assert not (folder / "tiny.data").exists()


def test_a_file_larger_than_the_free_space_is_not_downloaded(site: Site, folder: Path) -> None:
    site.claimed_length = 10**16
    with pytest.raises(DataError, match="needs 10,000,000,000,000,000 more bytes, but only"):
        fetch(Tiny(), base_url=site.url)
    assert names(folder) == set()


def test_a_folder_that_cannot_be_created_is_reported(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("GLCB_DATA_DIR", str(tmp_path / "file" / "below"))
    with pytest.raises(DataError, match="cannot write"):
        fetch(Tiny(), base_url=site.url)


def test_a_base_url_must_be_http() -> None:
    for address in ("nonsense", "file:///etc"):
        with pytest.raises(InvalidSettings, match=f"http://, got '{address}'"):
            fetch(Tiny(), base_url=address)
