"""Keys: shown once, kept as a digest, bound to roles and experiments."""

from pathlib import Path

import pytest

from glcb._errors import InvalidSettings
from glcb.service import auth as keys
from glcb.service.auth import Keyring
from tests.service.made import storage as made


def test_a_key_is_shown_once_and_kept_as_a_digest(tmp_path: Path) -> None:
    storage = made(tmp_path)
    secret = keys.add(storage, "shop", "decide", ["home", "cart", "home"])
    (key,) = keys.listed(storage)
    assert (key.name, key.role, key.experiments) == ("shop", "decide", ("cart", "home"))
    assert len(secret) > 40
    storage.close()
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert secret.encode() not in content
    assert key.digest.encode() in content


def test_keys_are_all_different(tmp_path: Path) -> None:
    storage = made(tmp_path)
    assert len({keys.add(storage, f"k{number}", "read") for number in range(20)}) == 20


def test_a_keyring_knows_its_own(tmp_path: Path) -> None:
    storage = made(tmp_path)
    ring = Keyring(storage)
    assert ring.keys == []
    secret = keys.add(storage, "shop", "admin")
    assert ring.find(secret) is None
    ring.refresh()
    found = ring.find(secret)
    assert found is not None
    assert found.name == "shop"
    for wrong in ("", secret[:-1], secret + "x", found.digest, secret.upper()):
        assert ring.find(wrong) is None
    keys.remove(storage, "shop")
    ring.refresh()
    assert ring.find(secret) is None


@pytest.mark.parametrize(
    ("role", "may"), [("decide", {"decide"}), ("read", {"read"}), ("admin", {"decide", "read", "admin"})]
)
def test_roles(tmp_path: Path, role: str, may: set[str]) -> None:
    storage = made(tmp_path)
    keys.add(storage, "k", role)
    (key,) = keys.listed(storage)
    assert {one for one in ("decide", "read", "admin") if key.may(one)} == may


@pytest.mark.parametrize(
    ("name", "role"),
    [("", "read"), ("a b", "read"), ("x" * 65, "read"), ("ok", "owner"), ("'; DROP", "read")],
)
def test_what_cannot_be_is_refused(tmp_path: Path, name: str, role: str) -> None:
    storage = made(tmp_path)
    with pytest.raises(InvalidSettings):
        keys.add(storage, name, role)
    assert keys.listed(storage) == []


def test_names_are_given_once(tmp_path: Path) -> None:
    storage = made(tmp_path)
    keys.add(storage, "shop", "read")
    with pytest.raises(InvalidSettings, match="already"):
        keys.add(storage, "shop", "admin")
    with pytest.raises(InvalidSettings, match="no key"):
        keys.remove(storage, "other")
