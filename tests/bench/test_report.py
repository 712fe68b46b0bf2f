"""The tables, figures and conclusion of a report."""

import json
from pathlib import Path

import pytest

from glcb._errors import InvalidSettings
from glcb.bench import paper
from glcb.bench.report import write
from glcb.bench.report.build import read
from glcb.bench.report.document import Gallery, Section, Table
from glcb.bench.report.sections import comparison, overview, setup
from glcb.bench.report.selection import Column, Entry, select
from glcb.bench.run import Record
from tests.bench.records import folder, record


def published_records() -> list[Record]:
    """Return records with exactly the paper's means and errors, two seeds each."""
    return [
        record(
            policy,
            task,
            seed,
            cell.mean + (2 * seed - 1) * cell.error,
            optimum=6000,
            steps_run=paper.steps(task),
        )
        for policy, row in paper.REWARDS.items()
        for task, cell in row.items()
        for seed in range(2)
    ]


def tables(section: Section) -> list[Table]:
    return [block for block in section.blocks if isinstance(block, Table)]


def cells(table: Table) -> dict[str, list[tuple[str, ...]]]:
    """Return the texts of every row, with the small print, by its heading."""
    return {
        row.heading.text: [(cell.text, *cell.notes) for cell in row.cells]
        for group in table.groups
        for row in group.rows
    }


def test_the_published_numbers_reproduce_the_published_tables() -> None:
    selection = select(published_records())
    (ranked,) = tables(comparison.rank_section(selection))
    assert ranked.columns == ("policy", *paper.REWARDS["rms"], "mean rank")
    rows = cells(ranked)
    assert len(rows) == 10
    assert rows["BBB"] == [(str(r), str(r)) for r in (6, 7, 2, 4, 8, 5, 6)] + [("5.43", "5.43")]
    (rewarded,) = tables(comparison.reward_section(selection, comparison.order(selection)))
    assert cells(rewarded)["GLCB, paper settings"][-1] == ("4,308 ± 11", "4,308 ± 11", "0.0%")
    assert cells(rewarded)["Best possible"] == [("6,000",)] * 7
    best = {
        row.heading.text: [c for c, cell in zip(paper.REWARDS["rms"], row.cells, strict=True) if cell.best]
        for group in rewarded.groups
        for row in group.rows
    }
    assert best["LinFullPost"] == ["financial", "wheel"]
    assert best["BootRMS"] == ["covertype", "jester"]
    assert sum(map(len, best.values())) == 7


def test_missing_runs_are_shown_as_missing() -> None:
    records = [one for one in published_records() if (one.policy, one.task) != ("glcb-paper", "adult")]
    (ranked,) = tables(comparison.rank_section(select(records)))
    rows = cells(ranked)
    assert rows["GLCB, paper settings"][0] == ("",)
    assert rows["GLCB, paper settings"][-1][0] == "2.50 (6 of 7)"
    assert rows["BootRMS"][0] == ("1", "1"), "published ranks are computed among the policies that were run"
    assert ranked.groups[0].rows[-1].heading.text == "GLCB, paper settings"
    assert not ranked.groups[0].rows[-1].cells[-1].best
    assert ranked.groups[0].rows[0].cells[-1].best


def test_policies_and_tasks_not_in_the_paper_are_ranked_separately() -> None:
    others = [record("glcb", "wheel", seed, 4600, optimum=6000) for seed in range(2)]
    others += [record("glcb", "linear", seed, 90) for seed in range(2)]
    selection = select(published_records() + others)
    paper_policies, all_policies, other_tasks = tables(comparison.rank_section(selection))
    assert "GLCB" not in cells(paper_policies)
    assert cells(paper_policies)["LinFullPost"][-2] == ("1", "1")
    assert cells(all_policies)["GLCB"][-2] == ("1",)
    assert cells(all_policies)["LinFullPost"][-2] == ("2",)
    assert cells(other_tasks) == {"GLCB": [("1",), ("1.00",)]}
    (rewarded,) = tables(comparison.reward_section(selection, comparison.order(selection)))
    assert [group.title for group in rewarded.groups] == ["In the paper", "Not in the paper", ""]
    assert cells(rewarded)["GLCB"][-1] == ("90.0 ± 0.0",)


def test_a_single_run_is_never_marked_as_best() -> None:
    records = [record("rms", total=900), *(record("dropout", seed=s, total=100) for s in range(2))]
    (rewarded,) = tables(comparison.reward_section(selection := select(records), comparison.order(selection)))
    assert cells(rewarded)["RMS"][0][-1] == "1 seed only"
    assert not any(cell.best for group in rewarded.groups for row in group.rows for cell in row.cells)


def test_other_lengths_are_not_compared_with_the_paper() -> None:
    selection = select([record("rms", seed=s, steps_run=500, steps=500) for s in range(2)])
    (ranked,) = tables(comparison.rank_section(selection))
    assert cells(ranked)["RMS"] == [("1",), ("1.00",)]
    assert cells(tables(comparison.reward_section(selection, selection.entries))[0])["RMS"] == [("100 ± 0",)]


def test_runs_are_separated_by_settings_steps_version_and_seed() -> None:
    selection = select(
        [
            record(seed=1),
            record(seed=0),
            record(seed=0, total=1.0),
            record(settings={"tree_depth": 2}),
            record(steps_run=500, steps=500),
            record("rms", version=1),
            record("rms", version=2),
        ]
    )
    plain, changed = Entry("glcb"), Entry("glcb", "tree_depth = 2")
    assert selection.entries == (plain, changed, Entry("rms"))
    assert selection.columns == (Column("wheel", 5000), Column("wheel", 500))
    assert [one.seed for one in selection.cells[Column("wheel", 5000), plain]] == [0, 1]
    assert [one.total for one in selection.cells[Column("wheel", 5000), plain]] == [100.0, 100.0]
    assert [one.version for one in selection.cells[Column("wheel", 5000), Entry("rms")]] == [2]
    assert selection.excluded == ("1 run of an older version of RMS",)
    assert selection.title(Column("wheel", 500)) == "wheel, 500 steps"
    assert not changed.in_paper
    assert changed.title == "GLCB (tree_depth = 2)"


def test_differences_are_paired_by_seed_if_the_rewards_are_the_same() -> None:
    luck = [0.0, 30.0, -20.0, 5.0]
    records = [record("glcb", seed=s, total=200 + luck[s], optimum=300) for s in range(4)]
    records += [record("rms", seed=s, total=190 + luck[s] + s, optimum=300) for s in range(3)]
    records += [record("rms", seed=3, total=0, optimum=299)]
    selection = select(records)
    ours, theirs = selection.entries
    section = comparison.difference_section(selection, selection.entries, ours)
    (compared,) = tables(section)
    assert cells(compared) == {"RMS": [("−9", "[−10, −8]", "3 seeds")]}
    assert "Excluded: 1 pair of runs" in str(section.blocks[-1])
    (reverse,) = tables(comparison.difference_section(selection, selection.entries, theirs))
    assert cells(reverse)["GLCB"][0][0] == "+9"


def test_a_reference_without_runs_is_an_error(tmp_path: Path) -> None:
    changed = record("glcb", settings={"tree_depth": 2})
    entries = select([changed, record("glcb"), record("rms")]).entries
    assert comparison.find_entry(entries, "glcb") == Entry("glcb")
    with pytest.raises(InvalidSettings, match=r"no runs of 'bbb'.*glcb, rms"):
        write(folder(tmp_path, [record("glcb"), record("rms")]), reference="bbb")
    assert not (tmp_path / "report.html").exists()


def test_a_difference_whose_interval_includes_0_is_uncertain() -> None:
    records = [record("glcb", seed=s, total=200) for s in range(6)]
    records += [record("rms", seed=s, total=199 + 5 * (-1) ** s) for s in range(6)]
    records += [record("bbb", seed=s, total=150) for s in range(6)]
    selection = select(records)
    (compared,) = tables(comparison.difference_section(selection, selection.entries, Entry("glcb")))
    uncertain = {row.heading.text: row.cells[0].uncertain for row in compared.groups[0].rows}
    assert uncertain == {"RMS": True, "BBB": False}


def test_the_overview_has_one_panel_per_task_ordered_by_mean_share() -> None:
    records = [record("uniform", task, seed, 50) for task in ("linear", "wheel") for seed in range(2)]
    records += [record("glcb", task, seed, 150) for task in ("linear", "wheel") for seed in range(2)]
    (gallery, caption) = overview.section(select(records)).blocks
    assert isinstance(gallery, Gallery)
    assert [figure.name for figure in gallery.figures] == ["share-1", "share-2"]
    svg = gallery.figures[0].svg
    assert svg.index(">GLCB<") < svg.index(">Uniform<")
    assert ">75.0<" in svg
    assert "mean over 2 seeds" in str(caption)


def test_the_conclusion_is_computed_from_the_records() -> None:
    records = [record("glcb", "linear", seed, 150 + seed) for seed in range(5)]
    records += [record("rms", "linear", seed, 100 + seed) for seed in range(5)]
    records += [record("glcb", "wheel", seed, 100 + seed) for seed in range(5)]
    records += [record("rms", "wheel", seed, 101 + 3 * seed * (-1) ** seed) for seed in range(5)]
    assert overview.summary(select(records)) == (
        "RMS has the highest mean reward on 1 of 2 tasks (wheel) and GLCB on 1 (linear); the lead over the "
        "runner-up is statistically clear on 1 of 2 tasks (95% paired bootstrap)."
    )
    assert overview.summary(select(records[:5])) == "", "a single policy is not compared"


def test_without_paper_policies_all_tasks_are_in_one_rank_table() -> None:
    records = [record(name, task, 0) for name in ("glcb", "linucb") for task in ("wheel", "linear")]
    (table,) = tables(comparison.rank_section(select(records)))
    assert table.columns == ("policy", "wheel", "linear", "mean rank")


def test_seeds_settings_and_failures_are_listed(tmp_path: Path) -> None:
    records = [record("linucb", seed=s) for s in range(3)] + [record("glcb-paper"), record("unknown")]
    records += [record("linucb", settings={"ridge": 2.0}), record("lints", version=0)]
    folder(tmp_path, records)
    failures = [
        {
            "task": "wheel",
            "policy": "linucb",
            "seed": 1,
            "steps": 5000,
            "settings": {},
            "error": "succeeded later",
        },
        {
            "task": "wheel",
            "policy": "rms",
            "seed": 7,
            "steps": 5000,
            "settings": {},
            "error": "out of memory",
        },
    ]
    lines = [*map(json.dumps, failures), '{"incomplete']
    (tmp_path / "failures.jsonl").write_text("\n".join(lines), encoding="utf-8")
    selection = read(tmp_path)
    section = setup.section(selection, selection.entries, setup.failures(tmp_path, selection))
    seeds, policies, hyper_parameters = tables(section)
    assert cells(seeds)["LinUCB"] == [("3",)]
    assert cells(seeds)["Steps per run"] == [("5,000",)]
    assert cells(policies)["LinUCB"][:3] == [("linucb",), ("alpha = 0.25, ridge = 1",), ("1",)]
    assert cells(policies)["LinUCB (ridge = 2.0)"][1] == ("alpha = 0.25, ridge = 2",)
    assert cells(policies)["LinTS"][1] == ("those of version 0",)
    assert cells(policies)["unknown"][3] == ("not available in this version of glcb",)
    assert cells(hyper_parameters)["layers"][0] == ("100, 10, 1",)
    text = str(section.blocks)
    assert "wheel, rms, seed 7: out of memory" in text
    assert "succeeded later" not in text
    assert "python 3.x, a machine (7 runs)" in text
