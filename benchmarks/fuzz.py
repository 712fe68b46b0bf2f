"""Fuzz ``glcb serve`` with requests generated from its OpenAPI document: part of ``make soak``."""

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
    """Run schemathesis with ``examples`` requests per operation; return its output.

    Raises AssertionError if a response is undocumented or a server error.
    """
    output = _run(server, folder, "--max-examples", str(examples), "--seed", str(seed))
    # Once more with the name of an existing experiment, because a random name only yields 404.
    created = server.client.put("/v1/experiments/fuzzed", {"arms": ["a", "b"], "policy": "linucb"})
    assert created.status == 201, created
    (folder / "schemathesis.toml").write_text('[parameters]\n"path.name" = "fuzzed"\n')
    kept = ("--exclude-method", "DELETE", "--exclude-method", "PATCH")
    return output + _run(server, folder, *kept, "--max-examples", str(examples), "--seed", str(seed))


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
    assert server.exit_code() is None, server.output()
    assert "Traceback" not in server.output(), server.output()
    return ran.stdout


def main() -> None:
    """Fuzz and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--seed", type=int, default=10_000)
    chosen = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="glcb-fuzz-") as folder,
        serving(["--data", f"{folder}/glcb.db"]) as server,
    ):
        output = fuzz(server, Path(folder), examples=chosen.examples, seed=chosen.seed)
    print("\n".join(re.findall(r"^.*(?:generated|No issues).*$", output, re.MULTILINE)))


if __name__ == "__main__":
    main()
