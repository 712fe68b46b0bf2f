"""Run a study and print its tables: ``python -m benchmarks.studies NAME``.

The studies are ablation, arms, drift, homepage and routing. Results are stored in ``benchmarks/out``, so an
interrupted study resumes.
"""

import argparse
from importlib import import_module
from pathlib import Path

from rich.console import Console

from benchmarks.studies.stored import StoredResults

NAMES = ("ablation", "arms", "drift", "homepage", "routing")


def main() -> None:
    """Run the study named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, help="length of each run; default: as in docs/results.md")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/out/studies"))
    options = parser.parse_args()
    study = import_module(f"benchmarks.studies.{options.name}")
    stored, console = StoredResults(options.out / options.name), Console()
    for table in study.tables(stored, options.seeds, options.steps or study.STEPS):
        console.print(table)


if __name__ == "__main__":
    main()
