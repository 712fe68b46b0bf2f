"""API keys: shown once, stored as a digest, with roles and experiments."""

from pathlib import Path

import pytest

from glcb._errors import InvalidSettings
from glcb.service.access import api_keys as keys
from glcb.service.access.api_keys import Keyring
from glcb.service.errors import ApiError
from glcb.service.http.authentication import authorize
from glcb.service.http.errors import status_of
from tests.support.builders import open_test_database


def test_a_key_is_stored_as_a_digest_only(tmp_path: Path) -> None:
    database = open_test_database(tmp_path)
    secret = keys.add_key(database, "shop", "decide", ["home", "cart", "home"])
    (key,) = keys.list_keys(database)
    assert (key.name, key.role, key.experiments) == ("shop", "decide", ("cart", "home"))
    assert len(secret) > 40
    database.close()
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert secret.encode() not in content
    assert key.digest.encode() in content


def test_every_key_has_a_different_secret(tmp_path: Path) -> None:
    database = open_test_database(tmp_path)
    assert len({keys.add_key(database, f"k{number}", "read") for number in range(20)}) == 20


def test_a_keyring_finds_current_keys_only(tmp_path: Path) -> None:
    database = open_test_database(tmp_path)
    ring = Keyring(database)
    assert ring.keys == []
    secret = keys.add_key(database, "shop", "admin")
    assert ring.find(secret) is None
    ring.refresh()
    found = ring.find(secret)
    assert found is not None
    assert found.name == "shop"
    for wrong in ("", secret[:-1], secret + "x", found.digest, secret.upper()):
        assert ring.find(wrong) is None
    keys.remove_key(database, "shop")
    ring.refresh()
    assert ring.find(secret) is None


@pytest.mark.parametrize(
    ("role", "roles"),
    [
        ("decide", {"decide"}),
        ("read", {"read"}),
        ("edit", {"read", "edit"}),
        ("admin", {"decide", "read", "edit", "admin"}),
    ],
)
def test_a_key_has_its_own_role_and_admin_has_all(tmp_path: Path, role: str, roles: set[str]) -> None:
    database = open_test_database(tmp_path)
    keys.add_key(database, "k", role)
    (key,) = keys.list_keys(database)
    assert {one for one in ("decide", "read", "edit", "admin") if key.has_role(one)} == roles


def test_a_key_of_some_experiments_cannot_administer_the_service(tmp_path: Path) -> None:
    database = open_test_database(tmp_path)
    keys.add_key(database, "all", "admin")
    keys.add_key(database, "home", "admin", ["home"])
    everything, bound = keys.list_keys(database)
    authorize(everything, "admin", None)
    authorize(bound, "admin", "home")
    authorize(bound, "read", None)
    with pytest.raises(ApiError, match="bound to home: use one without --experiments") as caught:
        authorize(bound, "admin", None)
    assert status_of(caught.value) == 403


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("", "read"),
        ("a b", "read"),
        ("x" * 65, "read"),
        ("ok", "owner"),
        ("'; DROP", "read"),
        ("guardrail", "read"),
        ("local", "read"),
    ],
)
def test_an_invalid_name_or_role_is_rejected(tmp_path: Path, name: str, role: str) -> None:
    database = open_test_database(tmp_path)
    with pytest.raises(InvalidSettings):
        keys.add_key(database, name, role)
    assert keys.list_keys(database) == []


def test_names_are_unique(tmp_path: Path) -> None:
    database = open_test_database(tmp_path)
    keys.add_key(database, "shop", "read")
    with pytest.raises(InvalidSettings, match="already"):
        keys.add_key(database, "shop", "admin")
    with pytest.raises(InvalidSettings, match="no key"):
        keys.remove_key(database, "other")
