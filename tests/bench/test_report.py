"""The tables, figures and conclusion of a report."""

import json
import re
from pathlib import Path

import pytest

from glcb._document.document import Gallery, Section, Table
from glcb._errors import InvalidSettings
from glcb.bench import paper
from glcb.bench.report import write
from glcb.bench.report.build import read
from glcb.bench.report.sections import comparison, leads, overview, setup, summary
from glcb.bench.report.selection import Column, SelectedPolicy, Selection, select
from glcb.bench.run import RunRecord
from tests.bench.records import bakeoff, folder, record


def published_records() -> list[RunRecord]:
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


def overview_of(selection: Selection) -> Section:
    order = comparison.order(selection)
    return overview.section(selection, order, order[0], leads.leads(selection, order[0]))


def conclusion_of(selection: Selection) -> str:
    reference = comparison.order(selection)[0]
    return overview.summary(selection, reference, leads.leads(selection, reference))


def test_the_published_numbers_reproduce_the_published_tables() -> None:
    selection = select(published_records())
    (ranked,) = tables(comparison.rank_section(selection))
    assert ranked.columns == ("policy", *paper.REWARDS["rms"], "mean rank")
    rows = cells(ranked)
    assert len(rows) == 10
    assert rows["BBB"] == [(str(r), str(r)) for r in (6, 7, 2, 4, 8, 5, 6)] + [("5.43", "5.43")]
    (rewarded,) = tables(comparison.reward_section(selection, comparison.order(selection)))
    assert cells(rewarded)["GLCB (paper settings)"][-1] == ("4,308 ± 11", "4,308 ± 11", "0.0%")
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
    assert rows["GLCB (paper settings)"][0] == ("",)
    assert rows["GLCB (paper settings)"][-1][0] == "2.50 (6 of 7)"
    assert rows["BootRMS"][0] == ("1", "1"), "published ranks are computed among the policies that were run"
    assert ranked.groups[0].rows[-1].heading.text == "GLCB (paper settings)"
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
    plain, changed = SelectedPolicy("glcb"), SelectedPolicy("glcb", "tree_depth = 2")
    assert selection.entries == (plain, changed, SelectedPolicy("rms"))
    assert selection.columns == (Column("wheel", 5000), Column("wheel", 500))
    assert [one.seed for one in selection.cells[Column("wheel", 5000), plain]] == [0, 1]
    assert [one.total for one in selection.cells[Column("wheel", 5000), plain]] == [100.0, 100.0]
    assert [one.version for one in selection.cells[Column("wheel", 5000), SelectedPolicy("rms")]] == [2]
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
    assert comparison.find_entry(entries, "glcb") == SelectedPolicy("glcb")
    with pytest.raises(InvalidSettings, match=r"no runs of 'bbb'.*glcb, rms"):
        write(folder(tmp_path, [record("glcb"), record("rms")]), reference="bbb")
    assert not (tmp_path / "report.html").exists()


def test_a_difference_whose_interval_includes_0_is_uncertain() -> None:
    records = [record("glcb", seed=s, total=200) for s in range(6)]
    records += [record("rms", seed=s, total=199 + 5 * (-1) ** s) for s in range(6)]
    records += [record("bbb", seed=s, total=150) for s in range(6)]
    selection = select(records)
    (compared,) = tables(comparison.difference_section(selection, selection.entries, SelectedPolicy("glcb")))
    uncertain = {row.heading.text: row.cells[0].uncertain for row in compared.groups[0].rows}
    assert uncertain == {"RMS": True, "BBB": False}


def test_the_overview_has_one_panel_per_task_ordered_by_mean_share() -> None:
    records = [record("uniform", task, seed, 50) for task in ("linear", "wheel") for seed in range(2)]
    records += [record("glcb", task, seed, 150) for task in ("linear", "wheel") for seed in range(2)]
    (gallery, caption) = overview_of(select(records)).blocks
    assert isinstance(gallery, Gallery)
    assert [figure.name for figure in gallery.figures] == ["share-1", "share-2", "leads"]
    svg = gallery.figures[0].svg
    assert svg.index(">GLCB<") < svg.index(">Uniform<")
    assert ">75.0<" in svg
    assert "mean over 2 seeds" in str(caption)


def test_the_conclusion_is_computed_from_the_records() -> None:
    records = [record("glcb", "linear", seed, 150 + seed) for seed in range(5)]
    records += [record("rms", "linear", seed, 100 + seed) for seed in range(5)]
    records += [record("glcb", "wheel", seed, 100 + seed) for seed in range(5)]
    records += [record("rms", "wheel", seed, 101 + 3 * seed * (-1) ** seed) for seed in range(5)]
    assert conclusion_of(select(records)) == (
        "RMS has the highest mean reward on 1 of 2 tasks (wheel) and GLCB on 1 (linear); against the other "
        "policy on each task, GLCB wins on 1, ties on 1 and loses on 0 (two standard errors of the paired "
        "differences; median difference +24.4%)."
    )
    assert conclusion_of(select(records[:5])) == "", "a single policy is not compared"
    assert conclusion_of(select(records[:6])) == (
        "GLCB has the highest mean reward on linear; no difference of GLCB from the other policy can be "
        "judged without a second seed."
    )


def test_without_paper_policies_all_tasks_are_in_one_rank_table() -> None:
    records = [record(name, task, 0) for name in ("glcb", "linucb") for task in ("wheel", "linear")]
    (table,) = tables(comparison.rank_section(select(records)))
    assert table.columns == ("policy", "wheel", "linear", "mean rank")


def test_seeds_settings_and_failures_are_listed(tmp_path: Path) -> None:
    records = [record("linucb", seed=s, version=2) for s in range(3)]
    records += [record("glcb-paper"), record("unknown"), record("lints", version=0)]
    records += [record("linucb", settings={"ridge": 2.0}, version=2)]
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
    assert cells(policies)["LinUCB"][:3] == [("linucb",), ("alpha = 0.25, ridge = 1",), ("2",)]
    assert cells(policies)["LinUCB (ridge = 2.0)"][1] == ("alpha = 0.25, ridge = 2",)
    assert cells(policies)["LinTS"][1] == ("those of version 0",)
    assert cells(policies)["unknown"][3] == ("not available in this version of glcb",)
    assert cells(hyper_parameters)["layers"][0] == ("100, 10, 1",)
    text = str(section.blocks)
    assert "wheel, rms, seed 7: out of memory" in text
    assert "succeeded later" not in text
    assert "python 3.x, a machine (7 runs)" in text


def test_many_tasks_become_rows_without_their_common_folder() -> None:
    selection = select(bakeoff(tasks=9, policies=4))
    order = comparison.order(selection)
    (rewarded,) = tables(comparison.reward_section(selection, order))
    assert rewarded.columns == ("task", "policy-0", "policy-1", "policy-2", "policy-3", "Best possible")
    assert list(cells(rewarded)) == [f"data-{number}" for number in range(9)]
    assert "Mean over 3 seeds ± standard error" in rewarded.caption
    (ranked,) = tables(comparison.rank_section(selection))
    assert cells(ranked)["mean rank"] == [("1.67",), ("1.78",), ("2.78",), ("3.78",)]
    (compared,) = tables(comparison.difference_section(selection, order, order[0]))
    assert compared.columns[1:] == ("policy-1", "policy-2", "policy-3")
    assert len(cells(compared)) == 9
    more_policies = select(bakeoff(tasks=9, policies=12, seeds=2))
    (upright,) = tables(comparison.reward_section(more_policies, more_policies.entries))
    assert upright.columns[:2] == ("policy", "data-0")


def test_tasks_of_several_folders_keep_their_names() -> None:
    selection = select([record(task="bakeoff/car"), record(task="scenarios/news")])
    assert [selection.title(column) for column in selection.columns] == ["bakeoff/car", "scenarios/news"]
    alone = select([record(task="bakeoff/car")])
    assert alone.title(alone.columns[0]) == "car"


def test_the_leads_name_the_best_other_policy_of_each_task() -> None:
    selection = select(bakeoff(tasks=8, policies=5))
    reference = SelectedPolicy("policy-0")
    found = leads.leads(selection, reference)
    section = leads.section(selection, reference, found)
    (table,) = tables(section)
    rows = cells(table)
    assert list(rows)[-2:] in (["data-3", "data-7"], ["data-7", "data-3"]), "the largest lead comes first"
    assert {row[0][0] for row in rows.values()} == {"policy-1"}
    assert [row[4][0] for row in rows.values()] == ["win"] * 6 + ["loss"] * 2
    own = [one.total for one in selection.cells[Column("bakeoff/data-0", 5000), reference]]
    other = [one.total for one in selection.cells[Column("bakeoff/data-0", 5000), SelectedPolicy("policy-1")]]
    relative = 100 * (sum(own) - sum(other)) / sum(other)
    assert rows["data-0"][2] == (f"+{relative:.1f}%",)
    assert rows["data-0"][5] == ("3",)
    text = str(section.blocks[0])
    assert "6 wins, 0 ties and 2 losses" in text
    assert "chosen after the fact" in text


def test_the_summary_lists_rank_share_outcomes_worst_case_and_cost() -> None:
    records = [record("glcb", "linear", seed, 150.0, decide_us=[30.0] * 20) for seed in range(2)]
    records += [record("glcb", "wheel", seed, 80.0, decide_us=[30.0] * 20) for seed in range(2)]
    records += [record("lints", "linear", seed, 120.0, decide_us=[80.0] * 20) for seed in range(2)]
    records += [record("lints", "wheel", seed, 100.0, decide_us=[80.0] * 20) for seed in range(2)]
    records += [record("ucb1", "wheel", 0, 60.0, decide_us=[5.0] * 20)]
    selection = select(records)
    order = comparison.order(selection)
    section = summary.section(selection, order, SelectedPolicy("glcb"))
    (table,) = tables(section)
    rows = cells(table)
    # 20 µs per update, 5,000 steps on each of two tasks: 0.5 seconds for GLCB.
    assert rows["GLCB"] == [("1.50",), ("57.5%",), ("",), ("80.0%",), ("wheel",), ("50.0",), ("460",)]
    assert rows["LinTS"] == [("1.50",), ("55.0%",), ("1–0–1",), ("80.0%",), ("linear",), ("100",), ("220",)]
    assert rows["UCB1"][0] == ("3.00 (1 of 2)",)
    assert rows["UCB1"][2] == ("0–0–0", "1 not judged")
    assert rows["UCB1"][3:5] == [("60.0%",), ("wheel",)]
    (figure,) = (block.figures[0] for block in section.blocks if isinstance(block, Gallery))
    assert ">GLCB<" in figure.svg
    assert ">UCB1<" not in figure.svg, "its mean share is not comparable"


def test_the_overview_of_many_tasks_highlights_the_leading_policies() -> None:
    selection = select(bakeoff(tasks=9, policies=14, seeds=2))
    gallery = overview_of(selection).blocks[0]
    assert isinstance(gallery, Gallery)
    dots, led = gallery.figures
    assert (dots.name, led.name) == ("shares", "leads")
    assert all(f">policy-{number}<" in dots.svg for number in range(4))
    assert ">policy-4<" not in dots.svg
    assert ">other policies<" in dots.svg
    for figure in gallery.figures:  # the rows of both figures, from bottom to top
        labels = re.findall(r">(data-\d)<", figure.svg)
        assert set(labels[:2]) == {"data-3", "data-7"}, "the smallest leads are at the bottom"
        assert len(labels) == 9


def test_the_ranks_are_tested_among_the_policies_that_ran_on_all_tasks() -> None:
    records = [*bakeoff(tasks=9, policies=4), record("late", "bakeoff/data-0", 0, 1.0, optimum=1000.0)]
    blocks = comparison.rank_section(select(records)).blocks
    text = str(blocks[1])
    assert isinstance(blocks[0], Gallery)
    assert "Mean ranks of 4 policies on 9 tasks" in text
    assert "critical difference of 1.56" in text  # 2.569 √(4 · 5 / (6 · 9))
    assert "missing: late." in text


@pytest.mark.parametrize(
    "records",
    [
        [record()],
        [record(seed=seed) for seed in range(3)],
        [record(), record("rms", seed=1)],
        [record(), record("rms", "linear")],
        [record(total=-5.0, optimum=-1.0), record("rms", total=-9.0, optimum=-1.0)],
        [record(total=0.0), record("rms", total=0.0)],
        [record(name, decide_us=[0.0] * 20, learn_us=[0.0] * 20) for name in ("glcb", "rms")],
        [record("glcb", f"t{number}", optimum=200.0 - 200 * (number == 2)) for number in range(9)],
    ],
    ids=[
        "one run",
        "one policy",
        "other seeds",
        "other tasks",
        "negative",
        "nothing",
        "no time",
        "one optimum 0",
    ],
)
def test_a_report_on_little_data_is_complete(tmp_path: Path, records: list[RunRecord]) -> None:
    html, markdown = write(folder(tmp_path, records))
    for text in (html.read_text(encoding="utf-8"), markdown.read_text(encoding="utf-8")):
        assert "nan" not in text.replace("financial", "")
        assert "Policies at a glance" in text


def test_a_minority_of_tasks_in_the_paper_does_not_decide_the_ranking() -> None:
    records = [record("rms", "wheel", seed, 150) for seed in range(2)]
    records += [record("bbb", "wheel", seed, 50) for seed in range(2)]
    records += [record("rms", f"t{number}", seed, 50) for number in range(3) for seed in range(2)]
    records += [record("bbb", f"t{number}", seed, 150) for number in range(3) for seed in range(2)]
    selection = select(records)
    assert comparison.order(selection) == [SelectedPolicy("bbb"), SelectedPolicy("rms")]
    assert [own.mean for own in comparison.main_standings(selection)] == [1.25, 1.75]


def test_the_time_of_a_step_includes_periodic_work_but_not_compilation() -> None:
    selection = select([record(cpu_us=[90_000.0] + [300.0] * 19)])
    (column,), (entry,) = selection.columns, selection.entries
    assert selection.step_time(column, entry) == 300


def test_the_time_of_a_step_in_older_records_is_the_sum_of_medians() -> None:
    selection = select([record(decide_us=[50.0] * 20, learn_us=[20.0] * 20)])
    (column,), (entry,) = selection.columns, selection.entries
    assert selection.step_time(column, entry) == 70
