# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""A job: its result, how far it is, what it took."""

from __future__ import annotations

import contextlib
import html
import os
import time
import weakref
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np

from gpugoblin import _check, _dtypes, _files, _outputs, _overlap
from gpugoblin._errors import (
    ArgumentTypeError,
    GoblinError,
    JobCancelledError,
    NotFoundError,
    TimeoutError,
    UnavailableError,
    failed,
)
from gpugoblin._estimate import Estimate, own_seconds
from gpugoblin._progress import Show, bar, words
from gpugoblin._records import STATES, Cost, Explanation, Progress

if TYPE_CHECKING:
    from gpugoblin._lab import Lab

_ENDED = (4, 5, 6)
_SOON = 0.5  # seconds that a message may wait for what it wants to tell
_AT_ONCE = 0.2  # the same for a picture of the job, which notebooks and debuggers ask for often


class Job:
    """A submitted computation. `Lab.submit` and `Lab.job` make it; any thread may use it.

    `status`, `done`, `message`, `progress` and `cost` ask the lab node until the job has ended.
    While it is being started again they wait for it, for the connection's `patience`, and raise
    `UnavailableError` after that. `repr` and `print` never wait nor fail: what a lab node does not
    answer at once is shown as last known.
    """

    def __init__(
        self,
        lab: Lab,
        status: dict[str, Any],
        targets: dict[str, _outputs.Target] | None = None,
        claim: _overlap.Claim | None = None,
    ) -> None:
        self._lab = lab
        self._client = lab._client
        self._status = status
        self._targets = targets or {}
        self._result: Any = None
        self._has_result = False
        self._claim = claim
        if claim is not None:
            claim.job = self.number
            known = weakref.ref(self)
            claim.ended = lambda: (job := known()) is None or job._has_ended()

    @property
    def number(self) -> int:
        """Its number on the lab node: `lab.job(number)` finds it again, also after a restart."""
        return int(self._status["job"])

    @property
    def kind(self) -> str:
        """Such as "matmul/1"."""
        return str(self._status["kind"])

    @property
    def status(self) -> str:
        """ "queued", "running", "finishing", "done", "failed" or "cancelled"."""
        return STATES[self._refresh()["state"]]

    @property
    def done(self) -> bool:
        """Whether it has ended, in any way."""
        return self._refresh()["state"] in _ENDED

    @property
    def message(self) -> str:
        """Why it failed, or why it waits."""
        return str(self._refresh()["message"])

    @property
    def progress(self) -> Progress:
        """How far it is."""
        return Progress.of(self._refresh())

    @property
    def cost(self) -> Cost:
        """Bytes, operations, seconds and checks so far; `print` shows them with their units."""
        return Cost.of(self._refresh())

    def explain(self) -> Explanation:
        """Which hosts computed it, how it was checked, what was refused and why; why it waits."""
        return Explanation.of(self._client.explain(self.number))

    def estimate(self) -> Estimate:
        """How long what is left of it will take, with the hosts and links of now.

        Raises
        ------
        InvalidArgumentError
            It has ended.
        UnavailableError
            No host is connected that could compute it.
        """
        told = self._client.estimate(self.number)
        wide = any(_dtypes.NUMBERS[output["dtype"]] in _dtypes.WIDE for output in told["outputs"])
        left = told["flops"] * told["remaining"]
        return Estimate.of(told, own_seconds(left, wide=wide))

    def cancel(self) -> None:
        """Ends it; nothing happens when it has ended already."""
        if not self.done:
            self._client.cancel(self.number)
            with contextlib.suppress(GoblinError):  # so that it is known even once forgotten
                self._refresh()

    def forget(self) -> None:
        """Removes it and its files from the lab node; results that were fetched stay usable.

        Raises
        ------
        InvalidArgumentError
            While it runs: cancel it first.
        """
        tried = False
        while True:
            try:
                self._client.forget(self.number)
                return
            except UnavailableError as error:
                if not error.lost:
                    raise
                tried = True
            except NotFoundError:
                if not tried:
                    raise
                return

    def wait(self, timeout: float | None = None, *, progress: bool = False) -> bool:
        """Waits for its end.

        Parameters
        ----------
        timeout : float, optional
            Seconds; for ever by default.
        progress : bool
            Show a progress bar.

        Returns
        -------
        bool
            False when the time is over first.

        Raises
        ------
        UnavailableError
            When the lab node stays away; the job goes on once it runs again.
        """
        timeout = _check.optional_seconds("timeout", timeout)
        _check.flag("progress", progress)
        if self._status["state"] in _ENDED:
            return True
        with bar(self.kind, progress) as show:
            return self._follow(timeout, show)

    def result(self, timeout: float | None = None, *, progress: bool = False) -> Any:
        """Waits and answers the result.

        Ctrl-C ends the waiting, not the job; see `cancel`.

        Parameters
        ----------
        timeout : float, optional
            Seconds; for ever by default.
        progress : bool
            Show a progress bar.

        Returns
        -------
        ndarray or dict of str to ndarray
            The output, or several by their names. Arrays lie over the lab node's files without a
            copy and belong to the caller; what was passed as `out` comes back itself. A job of
            `Lab.job` gives a memory map of the file that its submission named as `out`.

        Raises
        ------
        TimeoutError
            The job goes on; the message says why it waits.
        JobFailedError, JobCancelledError
        NotFoundError
            The file that another program named as `out` is gone or was cut; names it.
        """
        if not self.wait(timeout, progress=progress):
            raise TimeoutError(
                f"job {self.number} ({self.kind}) has not ended within {timeout:g} s "
                f"({self._why()}); it goes on: wait longer, or cancel() it"
            )
        if not self._has_result:
            self._result = self._fetch()
            self._has_result = True
        return self._result

    def as_future(self) -> Future[Any]:
        """The result as a `concurrent.futures.Future`; cancelling that cancels the job."""
        return self._lab._future_of(self)

    # ---- inside ----

    def _refresh(self) -> dict[str, Any]:
        if self._status["state"] not in _ENDED:
            self._status = self._client.job(self.number)
        return self._status

    def _has_ended(self) -> bool:
        """Whether nothing more is written for it, as far as can be told at once."""
        if self._status["state"] in _ENDED:
            return True
        try:
            status = self._client.job_now(self.number, _SOON)
        except (NotFoundError, JobCancelledError):
            return True  # forgotten, or the connection was closed: nobody will fetch it
        except GoblinError:
            return False
        if status is not None:
            self._status = status
        return self._status["state"] in _ENDED

    def _why(self) -> str:
        """Why it has not ended yet, for a message; does not wait for a lab node that is away."""
        try:
            status = self._client.job_now(self.number, _SOON)
        except GoblinError as error:
            return str(error)
        if status is None:
            return "the lab node does not answer just now"
        self._status = status
        note = str(status["message"])
        state = STATES[status["state"]]
        return note if note and state != "done" else f"{state}: {words(Progress.of(status))}"

    def _follow(self, timeout: float | None, show: Show) -> bool:
        until = time.monotonic() + (_check.FOREVER if timeout is None else max(timeout, 0.0))
        seen = 0
        self._client.watch(self.number)
        while True:
            left = max(until - time.monotonic(), 0.0)
            version, status = self._client.wait_job(self.number, seen, left)
            if status is not None:
                self._status = status
                show(Progress.of(status))
                if status["state"] in _ENDED:
                    self._client.unwatch(self.number)
                    return True
            if version == seen and left == 0.0:
                return False
            seen = version

    def _fetch(self) -> Any:
        if STATES[self._status["state"]] != "done":
            said = str(self._status["message"])
            words = self._lab._words_of_hosts(self.number, said)
            raise failed(self.number, self.kind, self._status["status"], said + words)
        status, fds = self._client.result(self.number)
        try:
            results = {info["name"]: self._deliver(info, fds) for info in status["outputs"]}
        finally:
            for fd in fds:
                os.close(fd)
        return next(iter(results.values())) if len(results) == 1 else results

    def _deliver(self, info: dict[str, Any], fds: list[int]) -> Any:
        number = _dtypes.NUMBERS[info["dtype"]]
        expected = _outputs.Expected(info["name"], number, tuple(info["shape"]))
        target = self._targets.get(info["name"], _outputs.Target(expected))
        if self._lab.is_local:
            if not info["staged"]:
                return target.mapped() if target.file is not None else self._written(expected, info)
            fd = fds.pop(0)
            try:
                return target.deliver(_outputs.map_result(expected, fd))
            finally:
                os.close(fd)
        if target.file is not None:
            array = target.mapped()
            self._pull(info, array)
            return array
        array = np.empty(expected.shape, _dtypes.numpy_dtype(number))
        self._pull(info, array)
        return target.deliver(array)

    def _written(self, expected: _outputs.Expected, info: dict[str, Any]) -> Any:
        """The file that a submission, not known here, named as `out`, as it is now."""
        path = self.explain().plan.get(f"output '{expected.name}' is in")
        wrote = f"job {self.number} wrote its output '{expected.name}' ({expected.text()})"
        if path is None:
            raise NotFoundError(f"{wrote} to the file that its submission named: open that file")
        try:
            # Not only when mapped: to write, a file that was cut would be made long again.
            dtype = _dtypes.storage_dtype(expected.dtype)
            file = _files.RawFile(path, expected.shape, dtype, info["offset"])
            _files.raw_view("out", file)
            return file.map("r+")
        except GoblinError as error:
            raise NotFoundError(
                f"{wrote} to {path}, at byte {info['offset']}, but that is not as it was left "
                f"({error}): open what became of it, or submit the job again"
            ) from error

    def _pull(self, info: dict[str, Any], array: Any) -> None:
        if array.size == 0:
            return
        buffer = array.reshape(-1).view(np.uint8)
        while True:
            try:
                self._client.pull(info["digest"], buffer)
                return
            except UnavailableError as error:
                if not error.lost:
                    raise
                self._client.result(self.number)  # waits for the lab node, offers the bytes again

    def _look(self) -> str:
        """Refreshes what is known if that is possible at once; else answers how old it is."""
        if self._status["state"] in _ENDED:
            return ""
        try:
            status = self._client.job_now(self.number, _AT_ONCE)
        except NotFoundError:
            return ", when last seen; the lab node has forgotten it"
        except JobCancelledError:
            return ", when last seen; the connection was closed"
        except GoblinError:
            status = None
        if status is None:
            return ", when last seen; the lab node does not answer just now"
        self._status = status
        return ""

    def __copy__(self) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise ArgumentTypeError(
            f"a job cannot be pickled: pass the lab node's address and the number {self.number}, "
            f"and call gpugoblin.connect(address).job({self.number}) there"
        )

    def __repr__(self) -> str:
        old = self._look()
        state = STATES[self._status["state"]]
        progress = Progress.of(self._status)
        why = f"; {progress.note}" if progress.note and state not in ("done", "cancelled") else ""
        return f"<Job {self.number} {self.kind} {state}: {words(progress)}{why}{old}>"

    def _repr_html_(self) -> str:
        old = self._look()
        progress = Progress.of(self._status)
        state = STATES[self._status["state"]]
        shapes = ", ".join(
            f"{info['name']} {tuple(info['shape'])} {info['dtype']}"
            for info in self._status["outputs"]
        )
        note = f"<br>{html.escape(progress.note)}" if progress.note else ""
        return (
            f"<div><b>Job {self.number}</b> {html.escape(self.kind)} — {state}{old}<br>"
            f"<progress max='1' value='{progress.fraction:.4f}'></progress> "
            f"{html.escape(words(progress))}<br>{html.escape(shapes)}{note}</div>"
        )
