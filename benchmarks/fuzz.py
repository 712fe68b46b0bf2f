"""Requests made from the OpenAPI document of ``glcb serve``, good and bad: part of ``make soak``."""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.service.server import Server, serving

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "unsupported_method",
)


def fuzz(server: Server, folder: Path, *, examples: int, seed: int) -> str:
    """Send so many requests of every kind to every route; return what schemathesis says.

    Raises when an answer is not as documented, or is one of a server that failed.
    """
    said = _run(server, folder, "--max-examples", str(examples), "--seed", str(seed))
    # Again with the name of an experiment that is there and stays, so that more than a 404 comes of it.
    made = server.client.put("/v1/experiments/fuzzed", {"arms": ["a", "b"], "policy": "linucb"})
    assert made.status == 201, made
    (folder / "schemathesis.toml").write_text('[parameters]\n"path.name" = "fuzzed"\n')
    kept = ("--exclude-method", "DELETE", "--exclude-method", "PATCH")
    return said + _run(server, folder, *kept, "--max-examples", str(examples), "--seed", str(seed))


def _run(server: Server, folder: Path, *options: str) -> str:
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json"),
            *("--checks", ",".join(CHECKS), "--phases", "examples,coverage,fuzzing,stateful", "--no-shrink"),
            *("--warnings", "off", "--suppress-health-check", "all", "--continue-on-failure", *options),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr
    assert server.ended() is None, server.said()
    assert "Traceback" not in server.said(), server.said()
    return ran.stdout


def main() -> None:
    """Fuzz, and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--seed", type=int, default=10_000)
    chosen = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="glcb-fuzz-") as folder,
        serving(["--data", f"{folder}/glcb.db"]) as server,
    ):
        said = fuzz(server, Path(folder), examples=chosen.examples, seed=chosen.seed)
    print("\n".join(re.findall(r"^.*(?:generated|No issues).*$", said, re.MULTILINE)))


if __name__ == "__main__":
    main()
