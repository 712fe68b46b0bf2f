"""A scikit-learn estimator that learns from data frames and returns data frames.

Frames of pandas and Polars are recognized by their methods; neither has to be installed.
"""

from typing import Any, Literal, Self

import numpy as np

from glcb import Bandit
from glcb._errors import InvalidInput, InvalidSettings, MissingExtra, install_command
from glcb._validation import list_of_length
from glcb.bandit.encoding.values import to_contexts
from glcb.bandit.offline import OfflineBandit, Preview

try:
    from sklearn.base import BaseEstimator, clone
except ModuleNotFoundError as error:
    raise MissingExtra(f"the estimator needs {error.name}: {install_command('sklearn')}") from error

__all__ = ["BanditEstimator"]

Output = Literal["default", "pandas", "polars"]
_OUTPUTS = ("default", "pandas", "polars")


class BanditEstimator(BaseEstimator):
    """A bandit with the methods of a scikit-learn estimator.

    The arms are its classes. ``clone``, pipelines, ``set_params`` and pickling work as for any estimator. The
    given bandit does not change: the estimator trains a clone, ``bandit_``.

    Parameters
    ----------
    bandit : Bandit
        A bandit; only its parameters are used.
    arm_column : str, default "arm"
        Column of a data frame with the chosen arm. It is not a feature.
    reward_column : str, default "reward"
        Column of a data frame with the reward. It is not a feature.
    ignore_columns : tuple of str, default ("id", "propensity")
        Other columns that are not features.

    Attributes
    ----------
    bandit_ : Bandit
        The trained bandit, created by the first call that needs it.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).random((200, 2))
    >>> shown = np.tile(["sports", "news"], 100)
    >>> clicked = (X[:, 0] > 0.5) == (shown == "news")
    >>> estimator = BanditEstimator(Bandit(arms=["sports", "news"], policy="linucb"))
    >>> estimator.partial_fit(X, shown, clicked).predict([[0.9, 0.5], [0.1, 0.5]])
    array(['news', 'sports'], dtype='<U6')
    """

    def __init__(
        self,
        bandit: Bandit,
        *,
        arm_column: str = "arm",
        reward_column: str = "reward",
        ignore_columns: tuple[str, ...] = ("id", "propensity"),
    ) -> None:
        self.bandit = bandit
        self.arm_column = arm_column
        self.reward_column = reward_column
        self.ignore_columns = ignore_columns

    def set_output(self, *, transform: Output | None = None) -> Self:
        """Choose the type of the frames that :meth:`decide_many` returns.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, optional
            "default" returns the type of the input frame, or a dict of arrays for other input. None changes
            nothing.

        Returns
        -------
        BanditEstimator
            This estimator.

        Raises
        ------
        InvalidSettings
            If the value is not one of these.
        """
        if transform is not None:
            if transform not in _OUTPUTS:
                raise InvalidSettings(f"transform must be one of {', '.join(_OUTPUTS)}, got {transform!r}")
            self._output = transform
        return self

    # ---- learning -------------------------------------------------------------------------------

    def fit(self, X: Any, arms: Any = None, rewards: Any = None) -> Self:  # noqa: N803 (as in scikit-learn)
        """Forget everything and learn from decisions with known rewards, like :meth:`partial_fit`.

        Parameters
        ----------
        X, arms, rewards
            As for :meth:`partial_fit`.

        Returns
        -------
        BanditEstimator
            This estimator.
        """
        return self._learn(clone(self.bandit), X, arms, rewards)

    def partial_fit(self, X: Any, arms: Any = None, rewards: Any = None) -> Self:  # noqa: N803
        """Learn from decisions with known rewards, as if this bandit had made them.

        Parameters
        ----------
        X : pandas or Polars frame, 2-D array, or list of contexts
            One context per row.
        arms : list or array, optional
            The chosen arm of each row. Default: the column `arm_column` of `X`.
        rewards : list or array, optional
            The reward of each row. Default: the column `reward_column` of `X`.

        Returns
        -------
        BanditEstimator
            This estimator.

        Raises
        ------
        InvalidInput
            If a row is invalid; the message contains its row number, starting at 0. Nothing is learned.
        """
        return self._learn(self._trained(), X, arms, rewards)

    def _learn(self, bandit: Bandit, X: Any, arms: Any, rewards: Any) -> Self:  # noqa: N803
        contexts = self._contexts(X)
        names = list_of_length("arms", _column(X, arms, self.arm_column), len(contexts))
        values = list_of_length("rewards", _column(X, rewards, self.reward_column), len(contexts))
        learner = OfflineBandit(bandit)
        for row, (context, arm, value) in enumerate(zip(contexts, names, values, strict=True)):
            try:
                learner.learn(context, arm, float(value) if isinstance(value, bool) else value)
            except InvalidInput as error:
                raise type(error)(f"row {row}: {error}") from None
        trained = Bandit._from_snapshot(learner.snapshot())
        self.bandit_ = trained.set_params(clock=bandit.get_params()["clock"])
        return self

    # ---- decisions ------------------------------------------------------------------------------

    def decide_many(self, X: Any) -> Any:  # noqa: N803
        """Choose an arm for each row. The decisions are pending until their rewards arrive.

        Parameters
        ----------
        X : pandas or Polars frame, 2-D array, or list of contexts
            One context per row. Columns for arms and rewards are ignored.

        Returns
        -------
        frame, or dict of arrays
            The columns ``id``, ``arm`` and ``propensity``; a pandas frame has the index of `X`.

        Raises
        ------
        InvalidContext
            If a context is invalid; no decision is made.
        """
        decisions = self._trained().decide_many(self._contexts(X))
        columns = {
            name: [getattr(decision, name) for decision in decisions] for name in ("id", "arm", "propensity")
        }
        return _frame(columns, X, getattr(self, "_output", "default"))

    def reward_many(self, ids: Any, rewards: Any) -> Self:
        """Learn the rewards of decisions by :meth:`decide_many`, in order.

        Parameters
        ----------
        ids : list, array or column
            The ids of the decisions.
        rewards : list, array or column
            Their rewards.

        Returns
        -------
        BanditEstimator
            This estimator.

        Raises
        ------
        UnknownDecision, ClosedDecision, DuplicateReward, InvalidReward
            As for ``Bandit.reward``. The message contains the row number; earlier rows have been learned.
        """
        names = _plain(ids)
        for row, (name, value) in enumerate(
            zip(names, list_of_length("rewards", _plain(rewards), len(names)), strict=True)
        ):
            try:
                self._trained().reward(name, float(value))
            except InvalidInput as error:
                raise type(error)(f"row {row}: {error}") from None
        return self

    def predict(self, X: Any) -> Any:  # noqa: N803
        """Return the arm with the largest value for each row, without exploration. Nothing changes.

        Parameters
        ----------
        X : pandas or Polars frame, 2-D array, or list of contexts
            One context per row.

        Returns
        -------
        numpy.ndarray
            The arms.
        """
        arms = self.classes_
        return arms[[int(np.argmax(preview.values)) for preview in self._previews(X)]]

    def predict_proba(self, X: Any) -> Any:  # noqa: N803
        """Return the probability of each arm for each row, as used by :meth:`decide_many`.

        Parameters
        ----------
        X : pandas or Polars frame, 2-D array, or list of contexts
            One context per row.

        Returns
        -------
        numpy.ndarray, shape (rows, arms)
            The probabilities, in the order of ``classes_``.
        """
        rows = [preview.probabilities for preview in self._previews(X)]
        return np.array(rows).reshape(len(rows), len(self.classes_))

    @property
    def classes_(self) -> Any:
        """The arms."""
        return np.array(self._trained().arms)

    def _previews(self, X: Any) -> list[Preview]:  # noqa: N803
        previewer = OfflineBandit(self._trained())
        return [previewer.preview(context) for context in self._contexts(X)]

    def _trained(self) -> Bandit:
        if not hasattr(self, "bandit_"):
            self.bandit_ = clone(self.bandit)
        return self.bandit_

    def _contexts(self, X: Any) -> list[Any]:  # noqa: N803
        rows = to_contexts(X)
        if not hasattr(X, "columns"):
            return rows
        other = {self.arm_column, self.reward_column, *self.ignore_columns}
        return [{name: value for name, value in row.items() if name not in other} for row in rows]


def _plain(values: Any) -> Any:
    """Return a column as a list of Python objects."""
    listing = getattr(values, "tolist", None) or getattr(values, "to_list", None)
    return values if listing is None else listing()


def _column(frame: Any, values: Any, name: str) -> Any:
    """Return the passed values, or else the values of a column."""
    if values is not None:
        return _plain(values)
    if not hasattr(frame, "columns") or name not in frame.columns:
        raise InvalidInput(f"there is no column {name!r}: pass its values, or name another column")
    return _plain(frame[name])


def _frame(columns: dict[str, list[Any]], like: Any, output: str) -> Any:
    """Return columns as a frame."""
    is_frame = hasattr(like, "columns")
    if output == "default":
        output = "arrays" if not is_frame else "polars" if hasattr(like, "to_dicts") else "pandas"
    try:
        if output == "polars":
            import polars

            return polars.DataFrame(columns)
        if output == "pandas":
            import pandas

            return pandas.DataFrame(columns, index=getattr(like, "index", None) if is_frame else None)
    except ModuleNotFoundError as error:
        raise MissingExtra(f"a frame of {output} needs {error.name}: pip install {error.name}") from error
    return {name: np.array(values) for name, values in columns.items()}
