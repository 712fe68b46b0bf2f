"""Tasks made from user data."""

import gzip
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glcb import DataError, InvalidSettings, LinUCB
from glcb.bench import simulate
from glcb.tasks import ClassificationTask, RewardTableTask, Stream

ROWS = """age,color,flag,kind
31,red,0,dog
40,green,1,cat
25.5,red,1,dog
60,blue,0,owl
"""


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "pets.csv"
    path.write_text(ROWS)
    return path


def in_order(stream: Stream) -> list[list[float]]:
    """Return the steps of a stream, context and rewards, in an order that no seed decides."""
    return sorted(np.hstack([stream.contexts.astype(float), stream.rewards]).round(6).tolist())


def test_numbers_and_categories_are_recognized(csv: Path) -> None:
    task = ClassificationTask.from_csv(csv, "kind")
    assert task.name == "pets"
    assert task.arms == ("cat", "dog", "owl")
    assert task.rewards == "binary"
    assert task.feature_names == ("age", "flag", "color=blue", "color=green", "color=red")
    old = round((31 - 25.5) / 34.5, 6)
    assert in_order(task.stream(0)) == [
        [0, 1, 0, 0, 1, 0, 1, 0],
        [old, 0, 0, 0, 1, 0, 1, 0],
        [round(14.5 / 34.5, 6), 1, 0, 1, 0, 1, 0, 0],
        [1, 0, 1, 0, 0, 0, 0, 1],
    ]


@pytest.mark.parametrize("kind", ["pandas", "pandas categories", "polars", "gz", "xz", "semicolons", "crlf"])
def test_all_input_formats_give_the_same_task(csv: Path, kind: str) -> None:
    expected = ClassificationTask.from_csv(csv, "kind")
    if kind.startswith("pandas"):
        types = {"color": "category", "kind": "category"} if kind == "pandas categories" else None
        task = ClassificationTask.from_frame(pytest.importorskip("pandas").read_csv(csv, dtype=types), "kind")
    elif kind == "polars":
        task = ClassificationTask.from_frame(pytest.importorskip("polars").read_csv(csv), "kind")
    else:
        text = ROWS.replace(",", ";") if kind == "semicolons" else ROWS
        content = (text.replace("\n", "\r\n") if kind == "crlf" else text).encode()
        packed = {"gz": gzip.compress(content), "xz": lzma.compress(content)}
        csv.write_bytes(packed.get(kind, content))
        task = ClassificationTask.from_csv(csv, "kind", delimiter=";" if kind == "semicolons" else ",")
    assert task.arms == expected.arms
    assert task.feature_names == expected.feature_names
    assert task.stream(1).contexts.tobytes() == expected.stream(1).contexts.tobytes()
    assert task.stream(1).rewards.tobytes() == expected.stream(1).rewards.tobytes()


def test_a_text_after_thousands_of_numbers_makes_the_column_categorical(tmp_path: Path) -> None:
    path = tmp_path / "late.csv"
    lines = [f"{number % 3},{number % 2}" for number in range(25_000)]
    path.write_text("code,label\n" + "\n".join([*lines, "01,0", "x,1"]))
    task = ClassificationTask.from_csv(path, "label")
    assert task.feature_names == ("code=0", "code=01", "code=1", "code=2", "code=x")
    assert task.arms == (0, 1)
    assert sum(task.data.counts) == 25_002


AGES = ["18_25", "26_35", "36_50"]


@pytest.mark.parametrize("way", ["csv", "pandas", "polars", "array of texts", "array of objects"])
def test_numbers_that_only_python_accepts_are_categories(way: str, csv: Path) -> None:
    columns = {"ages": AGES, "size": ["1", " 2.5e1", "-.5"], "y": ["u", "v", "u"]}
    if way == "csv":
        csv.write_text("ages,size,y\n" + "\n".join(map(",".join, zip(*columns.values(), strict=True))))
        task = ClassificationTask.from_csv(csv, "y")
    elif way.startswith("array"):
        contexts = np.array([AGES, columns["size"]], str if way == "array of texts" else object).T
        task = ClassificationTask.from_arrays(contexts, columns["y"])
    else:
        task = ClassificationTask.from_frame(pytest.importorskip(way).DataFrame(columns), "y")
    ages, size = ("0", "1") if way.startswith("array") else ("ages", "size")
    assert task.feature_names == (size, *(f"{ages}={age}" for age in AGES))


def test_an_array_may_mix_texts_numbers_and_booleans() -> None:
    contexts = np.array([[31, "red", True, "7"], [40.5, "blue", False, None]], object)
    task = ClassificationTask.from_arrays(contexts, [0, 1], ignore=["3"])
    assert task.feature_names == ("0", "2", "1=blue", "1=red")
    with pytest.raises(DataError, match=r"in the columns '3' \(1\)"):
        ClassificationTask.from_arrays(contexts, [0, 1])


@pytest.mark.parametrize(
    ("library", "values", "kind"),
    [
        ("pandas", [10, 9, 10, 9], "category"),
        ("pandas", [10.0, 9.0, 10.0, None], "category"),
        ("pandas", ["10", "9", "10", "9"], "category"),
        ("polars", ["10", "9", "10", None], "Categorical"),
        ("polars", ["10", "9", "10", "9"], "Enum"),
    ],
)
def test_a_categorical_column_of_a_frame_stays_categorical(
    library: str, values: list[object], kind: str
) -> None:
    module = pytest.importorskip(library)
    dtype = {"Categorical": lambda: module.Categorical, "Enum": lambda: module.Enum(["9", "10"])}
    code = module.Series(values, dtype=dtype.get(kind, lambda: kind)())
    frame = module.DataFrame({"code": code, "n": [1, 2, 3, 4], "a": [0, 1, 0, 1], "b": [1, 0, 1, 0]})
    labeled = ClassificationTask.from_frame(frame, "a", missing="drop")
    assert labeled.feature_names == ("n", "b", "code=9", "code=10")
    rewarded = RewardTableTask.from_frame(frame, ["a", "b"], missing="drop")
    assert rewarded.feature_names == ("n", "code=9", "code=10")
    assert "code" not in str(RewardTableTask.from_frame(frame, ["a", "b"], ignore=["code"]).feature_names)
    with pytest.raises(DataError, match="column 'code' must hold rewards"):
        RewardTableTask.from_frame(frame, ["code", "n"], missing="drop")


@pytest.mark.parametrize("text", ["inf", "-Infinity", "Inf"])
def test_infinity_is_not_a_category(text: str, csv: Path) -> None:
    csv.write_text(f"a,y\n{text},u\n2,v\n")
    with pytest.raises(DataError, match="column 'a' holds an infinite number"):
        ClassificationTask.from_csv(csv, "y")


def test_columns_can_be_named_ignored_and_declared_categories(tmp_path: Path) -> None:
    path = tmp_path / "plain.txt"
    path.write_text("7 1 10 a\n8 2 11 b\n9 1 12 a\n\n")
    task = ClassificationTask.from_csv(
        path, "y", columns=["id", "n", "c", "y"], delimiter=" ", ignore=["id"], categories=["c"]
    )
    assert task.feature_names == ("n", "c=10", "c=11", "c=12")


def test_numbers_keep_their_value_and_labels_are_sorted() -> None:
    contexts = [[2**40, 0.1], [0, 0.2], [2**39, 0.3]]
    task = ClassificationTask.from_arrays(contexts, [10, 9, 100])
    assert task.arms == (9, 10, 100)
    assert in_order(task.stream(0))[1][0] == 0.5
    assert ClassificationTask.from_arrays([[1], [2]], [1.0, 2.0]).arms == (1, 2)
    assert ClassificationTask.from_arrays([[1], [2]], ["1", "01"]).arms == ("01", 1)


def test_a_stream_contains_every_row_at_most_once() -> None:
    task = ClassificationTask.from_arrays(np.arange(50)[:, None], np.arange(50) % 2)
    stream = task.stream(0, 5000)
    assert stream.steps == 50
    assert np.unique(stream.contexts).size == 50
    assert task.stream(0, 20).steps == 20
    assert not np.array_equal(stream.contexts, task.stream(1).contexts)


def test_constant_columns_are_kept_and_are_zero(csv: Path) -> None:
    csv.write_text("a,b,c,y\n1,7,same,u\n2,7,same,v\n")
    stream = ClassificationTask.from_csv(csv, "y").stream(0)
    assert stream.contexts.shape == (2, 3)
    assert (stream.contexts[:, 1:] == 0).all()


@pytest.mark.parametrize("value", ["", "?", "NA", "nan"])
@pytest.mark.parametrize("column", ["age", "color", "kind"])
def test_missing_values_are_an_error_or_dropped(csv: Path, column: str, value: str) -> None:
    at = ["age", "color", "flag", "kind"].index(column)
    row = ["50", "red", "1", "dog"]
    row[at] = value
    csv.write_text(ROWS + ",".join(row) + "\n")
    with pytest.raises(
        DataError, match=rf"missing in 1 rows, in the columns '{column}' \(1\).*missing=\"drop"
    ):
        ClassificationTask.from_csv(csv, "kind")
    task = ClassificationTask.from_csv(csv, "kind", missing="drop")
    assert task.stream(0).steps == 4
    assert task.features == 5


@pytest.mark.parametrize("library", ["pandas", "pandas nullable", "polars"])
def test_missing_values_of_frames_are_recognized(library: str) -> None:
    columns = {"n": [1, None, 3, 4], "c": ["a", "b", None, "a"], "y": ["u", "v", "u", "v"]}
    frame = pytest.importorskip(library.split()[0]).DataFrame(columns)
    if library == "pandas nullable":
        frame = frame.convert_dtypes()
    with pytest.raises(DataError, match=r"missing in 2 rows, in the columns 'n' \(1\), 'c' \(1\)"):
        ClassificationTask.from_frame(frame, "y")
    task = ClassificationTask.from_frame(frame, "y", missing="drop")
    assert task.stream(0).steps == 2
    assert task.feature_names == ("n", "c=a")


def test_missing_values_can_be_configured(csv: Path) -> None:
    csv.write_text("c,y\n?,u\nx,v\n")
    assert ClassificationTask.from_csv(csv, "y", missing_values=()).feature_names == ("c=?", "c=x")
    csv.write_text("n,y\n-1,u\n5,v\n6,v\n")
    with pytest.raises(DataError, match="no column 'z'"):
        ClassificationTask.from_csv(csv, "z")


def test_invalid_files_are_refused(csv: Path, tmp_path: Path) -> None:
    def refused(text: str, message: str, label: str = "y") -> None:
        csv.write_text(text)
        with pytest.raises(DataError, match=message):
            ClassificationTask.from_csv(csv, label)

    refused("a,y\n1,u\n2,u\n", "the label 'y' is always 'u'")
    refused("a,y\n1,u\n2,v\n", r"there is no column 'kind'; the columns are a, y", label="kind")
    refused("a,a,y\n1,1,u\n2,2,v\n", "column names must be unique; 'a' occurs more than once")
    refused("y\nu\nv\n", "at least one context column besides the label")
    refused("a,y\n", "there are no rows")
    refused("", "is empty")
    refused("a,y\n?,u\n?,v\n", "missing in 2 rows")
    refused("a,y\n1,u\n2,v,3\n", r"row 3 of .*pets\.csv has 3 columns instead of 2")
    refused("a,y\ninf,u\n2,v\n", "column 'a' holds an infinite number")
    refused("k,y\n" + "".join(f"k{i},{i % 2}\n" for i in range(1500)), "'k' has more than 1,000 distinct")
    refused('a,y\n1,u\n2,"v\n' + "3,u\n" * 50_000, r"cannot read .*pets\.csv: .*quote")
    refused('a,"y\n' + "3,u\n" * 50_000, r"cannot read .*pets\.csv: .*quote")
    csv.write_bytes(b"a,y\n\xff\xfe,u\n1,v\n")
    with pytest.raises(DataError, match="not UTF-8"):
        ClassificationTask.from_csv(csv, "y")
    csv.write_bytes(lzma.compress(ROWS.encode() * 99)[:-20])
    with pytest.raises(DataError, match="damaged"):
        ClassificationTask.from_csv(csv, "kind")
    with pytest.raises(DataError, match=r"cannot read .*: No such file"):
        ClassificationTask.from_csv(tmp_path / "nowhere.csv", "y")


def test_invalid_options_are_refused(csv: Path) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'ignored'"):
        ClassificationTask.from_csv(csv, "kind", ignored=["age"])  # type: ignore[call-arg]
    with pytest.raises(InvalidSettings, match='missing must be "error" or "drop"'):
        ClassificationTask.from_csv(csv, "kind", missing="keep")  # type: ignore[arg-type]
    with pytest.raises(InvalidSettings, match="'kind' is required and cannot be ignored"):
        ClassificationTask.from_csv(csv, "kind", ignore=["kind"])
    with pytest.raises(InvalidSettings, match="ignore must be a list of strings, got 'age'"):
        ClassificationTask.from_csv(csv, "kind", ignore="age")
    with pytest.raises(InvalidSettings, match="categories must be a list of strings, got 'age'"):
        ClassificationTask.from_csv(csv, "kind", categories="age")
    with pytest.raises(InvalidSettings, match="categories must be a list of strings, got 'age'"):
        RewardTableTask.from_csv(csv, ["age", "flag"], categories="age")
    for delimiter in ("::", "", "\n", '"', None):
        with pytest.raises(InvalidSettings, match="delimiter must be a single character"):
            ClassificationTask.from_csv(csv, "kind", delimiter=delimiter)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="no column 'colr'"):
        ClassificationTask.from_csv(csv, "kind", ignore=["colr"])


def test_invalid_arrays_are_refused() -> None:
    with pytest.raises(DataError, match=r"contexts must be a table.*\(3,\)"):
        ClassificationTask.from_arrays([1, 2, 3], [1, 2, 3])
    with pytest.raises(DataError, match="there are no rows"):
        ClassificationTask.from_arrays(np.empty((0, 3)), [])
    with pytest.raises(DataError, match="at least one context column besides the label"):
        ClassificationTask.from_arrays(np.empty((2, 0)), [1, 2])
    with pytest.raises(DataError, match="one label for each of 2 rows"):
        ClassificationTask.from_arrays([[1], [2]], [1, 2, 3])
    with pytest.raises(DataError, match="missing in 1 rows"):
        ClassificationTask.from_arrays([[1.0], [np.nan]], [1, 2])
    with pytest.raises(DataError, match="got a list; for arrays use from_arrays"):
        ClassificationTask.from_frame([[1, 2]], "y")


def test_invalid_frames_are_refused() -> None:
    pd = pytest.importorskip("pandas")
    with pytest.raises(DataError, match="column names must be unique; got x, x, y"):
        ClassificationTask.from_frame(pd.DataFrame([[1, 2, 3], [4, 5, 6]], columns=["x", "x", "y"]), "y")
    dates = pd.DataFrame({"day": pd.to_datetime(["2020-01-01", "2020-01-02"]), "y": [0, 1]})
    with pytest.raises(DataError, match="'day' holds datetime64"):
        ClassificationTask.from_frame(dates, "y")
    assert ClassificationTask.from_frame(dates.assign(n=[1, 2]), "y", ignore=["day"]).features == 1


def test_a_reward_table_can_come_from_a_file_a_frame_or_arrays(tmp_path: Path, frames: Any) -> None:
    path = tmp_path / "offers.csv"
    path.write_text("age,town,none,small,large\n20,A,0,1.5,-2\n30,B,0,0.5,4\n40,A,0,2,1\n")
    arms = ["none", "small", "large"]
    task = RewardTableTask.from_csv(path, arms)
    assert task.name == "offers"
    assert task.arms == ("none", "small", "large")
    assert task.rewards == (-2.0, 4.0)
    assert task.feature_names == ("age", "town=A", "town=B")
    assert in_order(task.stream(0)) == [[0, 1, 0, 0, 1.5, -2], [0.5, 0, 1, 0, 0.5, 4], [1, 1, 0, 0, 2, 1]]
    table = frames.read_csv(path)
    assert in_order(RewardTableTask.from_frame(table, arms).stream(0)) == in_order(task.stream(0))
    arrays = RewardTableTask.from_arrays(table[["age", "town"]].to_numpy(), table[arms].to_numpy(), arms=arms)
    assert in_order(arrays.stream(0)) == in_order(task.stream(0))
    assert RewardTableTask.from_csv(path, arms, rewards=(-5, 5)).rewards == (-5.0, 5.0)


def test_a_table_of_zeros_and_ones_is_binary() -> None:
    task = RewardTableTask.from_arrays([[1], [2]], [[0, 1], [1, 1]])
    assert task.rewards == "binary"
    assert task.arms == (0, 1)


def test_invalid_reward_tables_are_refused() -> None:
    contexts = [[1], [2]]
    with pytest.raises(DataError, match="every reward is 3"):
        RewardTableTask.from_arrays(contexts, [[3, 3], [3, 3]])
    with pytest.raises(DataError, match="rewards must be from 0 to 1, got 2"):
        RewardTableTask.from_arrays(contexts, [[0, 2], [1, 1]], rewards=(0, 1))
    with pytest.raises(DataError, match=r"rewards must be 0 or 1, got 0\.5"):
        RewardTableTask.from_arrays(contexts, [[0.0, 0.5], [1.0, 1.0]], rewards="binary")
    with pytest.raises(InvalidSettings, match="rewards must be"):
        RewardTableTask.from_arrays(contexts, [[0, 2], [1, 1]], rewards=(1, 0))
    with pytest.raises(DataError, match="at least two arms, got 1"):
        RewardTableTask.from_arrays(contexts, [[0], [2]])
    with pytest.raises(DataError, match="3 arms, but 2 columns"):
        RewardTableTask.from_arrays(contexts, [[0, 2], [1, 1]], arms=["a", "b", "c"])
    with pytest.raises(DataError, match="one column per arm"):
        RewardTableTask.from_arrays(contexts, [0, 2])
    with pytest.raises(DataError, match="missing in 1 rows"):
        RewardTableTask.from_arrays(contexts, [[0.0, np.nan], [1.0, 1.0]])


def test_invalid_frames_of_rewards_are_refused(frames: Any) -> None:
    frame = frames.DataFrame({"x": [1, 2], "a": [0, 1], "b": ["0", "many"]})
    with pytest.raises(DataError, match="column 'b' must hold rewards"):
        RewardTableTask.from_frame(frame, ["a", "b"])
    with pytest.raises(DataError, match="arm names must be unique; 'a' occurs"):
        RewardTableTask.from_frame(frame, ["a", "a"])
    with pytest.raises(DataError, match="no column 'c'"):
        RewardTableTask.from_frame(frame, ["a", "c"])
    with pytest.raises(DataError, match="at least one context column besides the rewards"):
        RewardTableTask.from_frame(frame[["a", "x"]], ["a", "x"])


def test_a_policy_learns_on_a_task_made_from_arrays() -> None:
    rng = np.random.default_rng(10_000)
    contexts = rng.random((600, 3))
    task = ClassificationTask.from_arrays(contexts, np.where(contexts[:, 0] > 0.5, "up", "down"))
    policy = LinUCB(arms=task.arms, features=task.features, rewards=task.rewards)
    assert simulate(policy, task.stream(10_000)).total > 500
