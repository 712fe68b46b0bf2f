"""Everything that decisions need is compiled at the start, in a thread that can be told to give up."""

import asyncio
import ctypes
import threading

from glcb.bandit import Bandit

_ASK_SECONDS = 0.05
_INSIST_SECONDS = 1.0


async def warm_up() -> None:
    """Compile what decisions need, so that the first one need not wait; cancelled, it ends soon."""
    failures: list[Exception] = []

    def run() -> None:
        try:
            _decide()
        except SystemExit:
            return
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=run, name="glcb-warm-up", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            await asyncio.sleep(_ASK_SECONDS)
    finally:
        # A process that ends in the middle of a compilation may crash: it is ended first, again if need be.
        while thread.is_alive():
            _end(thread)
            thread.join(_INSIST_SECONDS)
    if failures:
        raise failures[0]


def _decide() -> None:
    for rewards in ("binary", (0.0, 1.0)):
        bandit = Bandit(["a", "b"], rewards=rewards)
        for value in (0.0, 1.0):
            decision = bandit.decide({"number": 0.5, "text": "a", "truth": True})
            bandit.reward(decision.id, value)
        bandit.explain({"number": 0.5})
        bandit.add_arm("c", like="a")
        bandit.remove_arm("c")


def _end(thread: threading.Thread) -> None:
    """Let a thread raise SystemExit, which few hold back, as soon as it is in Python code."""
    number = ctypes.c_ulong(thread.ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(number, ctypes.py_object(SystemExit))
