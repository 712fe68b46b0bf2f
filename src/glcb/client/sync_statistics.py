"""Statistics of an experiment of the blocking client."""

from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeVar

from glcb._api.statistics import ArmPage, Curves, SegmentList, Stats
from glcb.client import _requests
from glcb.client._requests import Request, parse

if TYPE_CHECKING:
    from glcb.client.sync import Client

T = TypeVar("T")


class Statistics:
    """What an experiment tells about its arms, its lift, its history and its segments."""

    def __init__(self, client: "Client", name: str) -> None:
        self.name = name
        self._client = client

    def list_arms(
        self,
        *,
        search: str = "",
        sort: Literal["decisions", "name", "share", "reward_mean", "predicted", "rewards"] = "decisions",
        order: Literal["desc", "asc"] = "desc",
        offset: int = 0,
        limit: int = 50,
    ) -> ArmPage:
        """Return a page of the list of arms, with their features and statistics.

        Parameters
        ----------
        search
            Only names that contain this text, in any case.
        sort
            The column to sort by. Arms without a value are always the last.
        order
            ``"desc"`` or ``"asc"``.
        offset
            Number of arms to skip.
        limit
            Number of arms to return, at most 1,000.

        Returns
        -------
        ArmPage
            The arms, and the number of all arms that match.

        Raises
        ------
        InvalidInput
            If an argument is invalid.
        """
        request = _requests.list_arms(
            self.name, search=search, sort=sort, order=order, offset=offset, limit=limit
        )
        return self._request(request, ArmPage)

    def stats(self) -> Stats:
        """Return lift, match rate, arms, history, features, refused requests, latency and health."""
        return self._request(_requests.stats(self.name), Stats)

    def curves(
        self,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        points: int = 200,
        arm: str | None = None,
    ) -> Curves:
        """Return the experiment over time: lift with its interval, rewards, shares and arms.

        Parameters
        ----------
        start
            Start of the range, with a time zone; None for the start of the experiment.
        end
            End of the range, with a time zone; None for now.
        points
            The largest number of points, at most 500.
        arm
            An arm whose decisions and rewards each point shows.

        Returns
        -------
        Curves
            The points, and the numbers of the whole range.

        Raises
        ------
        InvalidInput
            If an argument is invalid.
        UnknownArm
            If the arm does not exist.
        """
        return self._request(_requests.curves(self.name, start, end, points, arm), Curves)

    def segments(self) -> SegmentList:
        """Return lift and best arms by segment: values of categories and ranges of numbers.

        Returns
        -------
        SegmentList
            The segments of each feature. With 95% confidence, all intervals are right at all times.
        """
        return self._request(_requests.segments(self.name), SegmentList)

    def _request(self, request: Request, kind: type[T]) -> T:
        return parse(self._client._send(request), kind)
