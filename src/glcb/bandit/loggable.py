"""How a bandit writes its decisions and rewards to a log, and learns from one."""

from collections.abc import Collection
from os import PathLike
from pathlib import Path

from glcb._errors import InvalidInput
from glcb.bandit._slates import Slates
from glcb.bandit.logs.format import LogColumns
from glcb.bandit.logs.replay import LogReplay, LogReport, Progress
from glcb.bandit.logs.writer import LogWriter
from glcb.bandit.parameters import Parameters


class Loggable(Parameters):
    """An object that writes its events to a log and learns from logs."""

    _slates: Slates

    def log_to(self, path: str | PathLike[str] | None) -> None:
        """Start writing every decision and reward to a log; None stops.

        The log is a file of JSON lines; new lines are appended, and :meth:`learn_from` reads it. A line is
        passed to the operating system before its event takes effect, so it survives a crash of the process,
        but not necessarily a crash of the machine. If a line cannot be written, the call raises ``LogError``,
        and neither the log nor the bandit changes. Changes to the arms are not logged. Copies and saved
        bandits do not write to the log.

        If Ctrl-C interrupts a call between the line and its effect, the log is one event ahead: continue with
        a bandit that has replayed the log.

        Parameters
        ----------
        path : str, path or None
            The file to append to. It is created if it does not exist.

        Raises
        ------
        LogError
            If the file cannot be opened, is not a log of this format, or is in use by another bandit.
        """
        with self._lock:
            core = self._core
            if path is not None and core.log is not None and core.log.is_at(path):
                return
            before, core.log = core.log, None if path is None else LogWriter(path)
            self._slates.log_arms()
            if before is not None:
                before.close()

    def learn_from(
        self,
        log: str | PathLike[str],
        *,
        format: str | None = None,  # noqa: A002 (the built-in is not used here)
        context_column: str = LogColumns.context,
        arm_column: str = LogColumns.arm,
        reward_column: str = LogColumns.reward,
        propensity_column: str = LogColumns.propensity,
        ignore_columns: Collection[str] = (),
        progress: Progress | None = None,
    ) -> LogReport:
        """Learn from a log as if this bandit had made its decisions. No random numbers are drawn.

        The log is either a file written by :meth:`log_to` or a table with one row per decision. It is read
        row by row. Rows that cannot be used are counted by reason and skipped.

        Decisions without a reward in the log are pending here. They have the same ids, unless this bandit
        already has decisions with these ids. After a crash, :meth:`load` the model and replay the log started
        when it was saved; this restores everything.

        Parameters
        ----------
        log : str or path
            JSON lines, CSV or Parquet. In CSV files, numbers are recognized and empty cells are missing.
        format : {"jsonl", "csv", "parquet"}, optional
            The format of the file. Default: inferred from its suffix.
        context_column : str, default "context"
            Column with the context as a JSON object. Without it, all remaining columns are features, except
            those called like fields of a log, such as ``id``, ``time`` and ``propensity``.
        arm_column : str, default "arm"
            Column with the chosen arm.
        reward_column : str, default "reward"
            Column with the reward.
        propensity_column : str, default "propensity"
            Column with the probability of the chosen arm; optional.
        ignore_columns : collection of str
            Columns that are not features.
        progress : callable, optional
            Called with the report so far, every 1,000 rows and at the end.

        Returns
        -------
        LogReport
            What was learned, and which rows were refused.

        Raises
        ------
        LogError
            If the log cannot be read or has an old format. Rows before the failure have been learned; the
            ``report`` of the error says how many.
        InvalidSettings
            If the format is unknown.
        InvalidInput
            If this bandit is writing to the log.
        MissingExtra
            If the log is a Parquet file and pyarrow is not installed.
        """
        columns = LogColumns(
            context_column, arm_column, reward_column, propensity_column, tuple(ignore_columns)
        )
        with self._lock:
            core = self._core
            if core.log is not None and core.log.is_at(log):
                raise InvalidInput(f"this bandit is writing to {log}: stop it first with log_to(None)")
            replay = LogReplay(self._slates, self._lock, columns, core.config.max_pending)
        return replay.run(Path(log), format, progress)
