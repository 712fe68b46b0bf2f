"""The report: what stands in its tables."""

import json
from pathlib import Path

import pytest

from glcb._errors import InvalidSettings
from glcb.bench import paper
from glcb.bench.report import write
from glcb.bench.report.build import read
from glcb.bench.report.document import Section, Table
from glcb.bench.report.sections import conditions, differences, ranks, rewards
from glcb.bench.report.selection import Column, Player, select
from glcb.bench.run import Record
from tests.bench.made_up import folder, record


def as_in_the_paper() -> list[Record]:
    """Return records with exactly the paper's means and errors, two seeds each."""
    return [
        record(
            policy,
            task,
            seed,
            cell.mean + (2 * seed - 1) * cell.error,
            optimum=6000,
            played=paper.steps(task),
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


def test_the_papers_own_numbers_give_the_papers_own_tables() -> None:
    selection = select(as_in_the_paper())
    (ranked,) = tables(ranks.section(selection))
    assert ranked.columns == ("policy", *paper.REWARDS["rms"], "mean rank")
    rows = cells(ranked)
    assert len(rows) == 10
    assert rows["BBB"] == [(str(r), str(r)) for r in (6, 7, 2, 4, 8, 5, 6)] + [("5.43", "5.43")]
    (rewarded,) = tables(rewards.section(selection, ranks.order(selection)))
    assert cells(rewarded)["GLCB, the paper's settings"][-1] == ("4,308 ± 11", "4,308 ± 11", "0.0 %")
    assert cells(rewarded)["Best possible"] == [("6,000",)] * 7
    best = {
        row.heading.text: [c for c, cell in zip(paper.REWARDS["rms"], row.cells, strict=True) if cell.best]
        for group in rewarded.groups
        for row in group.rows
    }
    assert best["LinFullPost"] == ["financial", "wheel"]
    assert best["BootRMS"] == ["covertype", "jester"]
    assert sum(map(len, best.values())) == 7


def test_what_is_missing_is_shown_as_missing() -> None:
    records = [one for one in as_in_the_paper() if (one.policy, one.task) != ("glcb-paper", "adult")]
    (ranked,) = tables(ranks.section(select(records)))
    rows = cells(ranked)
    assert rows["GLCB, the paper's settings"][0] == ("",)
    assert rows["GLCB, the paper's settings"][-1][0] == "2.50 (6 of 7)"
    assert rows["BootRMS"][0] == ("1", "1"), "the authors' rank is taken among those who are here"
    assert ranked.groups[0].rows[-1].heading.text == "GLCB, the paper's settings"
    assert not ranked.groups[0].rows[-1].cells[-1].best
    assert ranked.groups[0].rows[0].cells[-1].best


def test_policies_and_tasks_that_the_paper_has_not_are_ranked_apart() -> None:
    others = [record("glcb", "wheel", seed, 4600, optimum=6000) for seed in range(2)]
    others += [record("glcb", "linear", seed, 90) for seed in range(2)]
    selection = select(as_in_the_paper() + others)
    ten, everybody, elsewhere = tables(ranks.section(selection))
    assert "GLCB" not in cells(ten)
    assert cells(ten)["LinFullPost"][-2] == ("1", "1")
    assert cells(everybody)["GLCB"][-2] == ("1",)
    assert cells(everybody)["LinFullPost"][-2] == ("2",)
    assert cells(elsewhere) == {"GLCB": [("1",), ("1.00",)]}
    (rewarded,) = tables(rewards.section(selection, ranks.order(selection)))
    assert [group.title for group in rewarded.groups] == ["In the paper", "Not among the paper's ten", ""]
    assert cells(rewarded)["GLCB"][-1] == ("90.0 ± 0.0",)


def test_one_run_alone_is_not_called_the_best() -> None:
    records = [record("rms", total=900), *(record("dropout", seed=s, total=100) for s in range(2))]
    (rewarded,) = tables(rewards.section(selection := select(records), ranks.order(selection)))
    assert cells(rewarded)["RMS"][0][-1] == "1 seed only"
    assert not any(cell.best for group in rewarded.groups for row in group.rows for cell in row.cells)


def test_other_lengths_are_not_compared_with_the_paper() -> None:
    selection = select([record("rms", seed=s, played=500, steps=500) for s in range(2)])
    (ranked,) = tables(ranks.section(selection))
    assert cells(ranked)["RMS"] == [("1",), ("1.00",)]
    assert cells(tables(rewards.section(selection, selection.players))[0])["RMS"] == [("100 ± 0",)]


def test_settings_steps_versions_and_seeds_keep_runs_apart() -> None:
    selection = select(
        [
            record(seed=1),
            record(seed=0),
            record(seed=0, total=1.0),
            record(settings={"tree_depth": 2}),
            record(played=500, steps=500),
            record("rms", version=1),
            record("rms", version=2),
        ]
    )
    plain, changed = Player("glcb"), Player("glcb", "tree_depth = 2")
    assert selection.players == (plain, changed, Player("rms"))
    assert selection.columns == (Column("wheel", 5000), Column("wheel", 500))
    assert [one.seed for one in selection.cells[Column("wheel", 5000), plain]] == [0, 1]
    assert [one.total for one in selection.cells[Column("wheel", 5000), plain]] == [100.0, 100.0]
    assert [one.version for one in selection.cells[Column("wheel", 5000), Player("rms")]] == [2]
    assert selection.left_out == ("1 run of an older version of RMS",)
    assert selection.title(Column("wheel", 500)) == "wheel, 500 steps"
    assert not changed.in_paper
    assert changed.title == "GLCB (tree_depth = 2)"


def test_differences_are_paired_by_seed_and_only_if_the_rewards_were_the_same() -> None:
    luck = [0.0, 30.0, -20.0, 5.0]
    records = [record("glcb", seed=s, total=200 + luck[s], optimum=300) for s in range(4)]
    records += [record("rms", seed=s, total=190 + luck[s] + s, optimum=300) for s in range(3)]
    records += [record("rms", seed=3, total=0, optimum=299)]
    selection = select(records)
    ours, theirs = selection.players
    section = differences.section(selection, selection.players, ours)
    (compared,) = tables(section)
    assert cells(compared) == {"RMS": [("−9", "[−10, −8]", "3 seeds")]}
    assert "1 pair of runs" in str(section.blocks[-1])
    (turned,) = tables(differences.section(selection, selection.players, theirs))
    assert cells(turned)["GLCB"][0][0] == "+9"


def test_a_reference_that_was_not_played_is_an_error(tmp_path: Path) -> None:
    changed = record("glcb", settings={"tree_depth": 2})
    players = select([changed, record("glcb"), record("rms")]).players
    assert differences.find(players, "glcb") == Player("glcb")
    with pytest.raises(InvalidSettings, match=r"no runs of 'bbb'.*glcb, rms"):
        write(folder(tmp_path, [record("glcb"), record("rms")]), reference="bbb")
    assert not (tmp_path / "report.html").exists()


def test_a_difference_that_may_be_none_stands_back() -> None:
    records = [record("glcb", seed=s, total=200) for s in range(6)]
    records += [record("rms", seed=s, total=199 + 5 * (-1) ** s) for s in range(6)]
    records += [record("bbb", seed=s, total=150) for s in range(6)]
    selection = select(records)
    (compared,) = tables(differences.section(selection, selection.players, Player("glcb")))
    doubtful = {row.heading.text: row.cells[0].doubtful for row in compared.groups[0].rows}
    assert doubtful == {"RMS": True, "BBB": False}


def test_seeds_settings_and_failures_are_told(tmp_path: Path) -> None:
    records = [record("linucb", seed=s) for s in range(3)] + [record("glcb-paper"), record("nobody")]
    records += [record("linucb", settings={"ridge": 2.0}), record("lints", version=0)]
    folder(tmp_path, records)
    failures = [
        {"task": "wheel", "policy": "linucb", "seed": 1, "steps": 5000, "settings": {}, "error": "made good"},
        {"task": "wheel", "policy": "rms", "seed": 7, "steps": 5000, "settings": {}, "error": "out of luck"},
    ]
    lines = [*map(json.dumps, failures), '{"torn']
    (tmp_path / "failures.jsonl").write_text("\n".join(lines), encoding="utf-8")
    selection = read(tmp_path)
    section = conditions.section(selection, selection.players, conditions.failures(tmp_path, selection))
    seeds, policies, hyper_parameters = tables(section)
    assert cells(seeds)["LinUCB"] == [("3",)]
    assert cells(seeds)["Steps of a run"] == [("5,000",)]
    assert cells(policies)["LinUCB"][:3] == [("linucb",), ("alpha = 0.25, ridge = 1",), ("1",)]
    assert cells(policies)["LinUCB (ridge = 2.0)"][1] == ("alpha = 0.25, ridge = 2",)
    assert cells(policies)["LinTS"][1] == ("those of version 0",)
    assert cells(policies)["nobody"][3] == ("not known to this version of glcb",)
    assert cells(hyper_parameters)["layers"][0] == ("100, 10, 1",)
    text = str(section.blocks)
    assert "wheel, rms, seed 7: out of luck" in text
    assert "made good" not in text
    assert "python 3.x, a machine (7 runs)" in text
