"""Generate the synchronous client from the asynchronous one.

python scripts/unasync.py            write src/glcb/client/sync_*.py
python scripts/unasync.py --check    fail if a file is not up to date
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).parents[1] / "src" / "glcb" / "client"

REPLACEMENTS = [
    # code
    (r"\b(async|await) ", ""),
    (r"\bAsync(?=[A-Z])", ""),
    (r"\basync_(?=\w)", "sync_"),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"\ba(close|read|iter_bytes)\b", r"\1"),
    (r"\banyio\b", "time"),
    # docstrings
    (r"\basynchronous\b", "synchronous"),
    (r", for asyncio and Trio\b", ""),
    (r"\bshared by tasks\b", "shared by threads"),
]


def main() -> None:
    """Write the synchronous files, or check them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a file is not current")
    check = parser.parse_args().check

    expected = generate({path: path.read_text(encoding="utf-8") for path in CLIENT.glob("async_*.py")})
    actual = {path: path.read_text(encoding="utf-8") for path in CLIENT.glob("sync_*.py")}
    wrong = sorted(path for path in expected.keys() | actual.keys() if expected.get(path) != actual.get(path))
    for path in wrong:
        if check:
            print(f"{path.name} is not what scripts/unasync.py generates: run make client")
        elif path in expected:
            path.write_text(expected[path], encoding="utf-8")
        else:
            path.unlink()
    sys.exit(1 if check and wrong else 0)


def generate(sources: dict[Path, str]) -> dict[Path, str]:
    """Return the synchronous files for the asynchronous ones, by path."""
    everything = "\n".join(sources.values())
    for pattern, _ in REPLACEMENTS:
        if not re.search(pattern, everything):
            sys.exit(f"nothing matches {pattern}: remove it from REPLACEMENTS")
    return {
        path.with_name(path.name.replace("async_", "sync_")): to_sync(path, source)
        for path, source in sources.items()
    }


def to_sync(path: Path, source: str) -> str:
    """Return the synchronous form of one file."""
    for pattern, replacement in REPLACEMENTS:
        source = re.sub(pattern, replacement, source)
    if rest := re.search(r".*(async|await|anyio).*", source, re.IGNORECASE):
        sys.exit(f"{path.name}: no synchronous form of {rest[0].strip()!r}: add it to REPLACEMENTS")
    source = f"# Generated from {path.name} by scripts/unasync.py; do not edit.\n{source}"
    return ruff("format", path, ruff("check", path, source, "--select=I", "--fix-only"))


def ruff(command: str, path: Path, source: str, *options: str) -> str:
    """Return the source as a command of ruff changes it."""
    run = [sys.executable, "-m", "ruff", command, "--quiet", *options, f"--stdin-filename={path}", "-"]
    return subprocess.run(run, input=source, stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout


if __name__ == "__main__":
    main()
