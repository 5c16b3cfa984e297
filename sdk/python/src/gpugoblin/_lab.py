# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""A connection to a lab node."""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import threading
import weakref
from collections.abc import Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Literal, NoReturn, Self, overload

import numpy.typing as npt

from gpugoblin import _check, _core, _dtypes, _outputs, _overlap, _sending, _submission
from gpugoblin._arrays import is_number, operand, parameter
from gpugoblin._errors import (
    ArgumentTypeError,
    DTypeError,
    GoblinError,
    InvalidArgumentError,
    JobCancelledError,
    NotFoundError,
    TimeoutError,
    UnavailableError,
)
from gpugoblin._estimate import Estimate, own_seconds
from gpugoblin._job import Job
from gpugoblin._records import HostInfo, KindInfo

# Below this, one submission that may fail is cheaper than asking for the shapes first.
_CHECK_FIRST = 1 << 20

_open_labs: weakref.WeakSet[Lab] = weakref.WeakSet()
# What a forked child inherits of its parent's connections: never used, never destroyed.
_inherited: list[object] = []


class Lab:
    """A lab node that this program submits to; any thread may use it.

    Made by `connect` or `local`. A context manager: leaving it closes the connection. Jobs go on in
    the lab node.
    """

    def __init__(self, client: _core.Client, address: str, *, is_local: bool) -> None:
        self._client = client
        self._address = address
        self._is_local = is_local
        self._lock = threading.Lock()
        self._futures: dict[int, list[tuple[Job, Future[Any]]]] = {}
        self._teller: threading.Thread | None = None
        self._closed = False
        _open_labs.add(self)

    @property
    def address(self) -> str:
        """As given to `connect`."""
        return self._address

    @property
    def is_local(self) -> bool:
        """Whether the lab node is on this machine, so that arrays pass as shared memory."""
        return self._is_local

    # ---- jobs ----

    def matmul(
        self,
        a: Any,
        b: Any,
        out: Any = None,
        *,
        policy: str | None = None,
        replicas: int | None = None,
        out_dtype: npt.DTypeLike | None = None,
        progress: bool = True,
        timeout: float | None = None,
        weight: int = 1,
        dry_run: bool = False,
    ) -> Any:
        """The matrix product of `a` and `b` with NumPy's `matmul` semantics, every tile checked.

        Parameters
        ----------
        a, b : array_like, shapes (…, m, k) or (k,) and (…, k, n) or (k,), of one dtype
            bool, integers of 8 to 64 bits, f16, bf16, f32, f64, c64 or c128. NumPy arrays of any
            strides and byte order, memory maps, paths of .npy files, `RawFile`, torch tensors,
            DLPack. What lies in a file is not copied and may be larger than memory.
        out : ndarray, memmap, path of a .npy file to make, or RawFile, optional
            Where the result goes, of its shape and dtype and apart from `a` and `b`; a file is
            written by the lab node itself.
        policy : {"algebraic", "validator", "replicate", "adaptive"}, optional
            How every tile is checked. "algebraic", the default, is Freivalds' check and exact
            entries: what escapes lies below the bound of rounding, in few entries. "validator" and
            "replicate" compare every bit of what others computed. "adaptive" needs a validator,
            which recomputes at least 2 % of the results; hosts that it has found right often
            enough are believed in between (docs/validation.md).
        replicas : int, optional
            How many independent hosts must agree, 2 to 16, with ``policy="replicate"``;
            ``policy="replicate=3"`` says both.
        out_dtype : str or dtype, optional
            "f32" (or np.float32) for f16 and bf16 operands, "i8" (np.int8) for i8. By default that
            of the operands, as in NumPy; but i32 for i8.
        progress : bool
            Show a progress bar on a terminal or in a notebook.
        timeout : float, optional
            Seconds after which the job is cancelled; for ever by default.
        weight : int
            Share beside other jobs, 1 to 1000: twice the weight gets twice the hosts' time.
        dry_run : bool
            Compute nothing, and say how long it would take: an `Estimate`.

        Returns
        -------
        ndarray, shape (…, m, n)
            The canonical result: the same bits from every honest host. `out` itself if given.

        Raises
        ------
        InvalidArgumentError, DTypeError, NotFoundError
            Names the argument and what to do; nothing was computed.
        JobFailedError
            The hosts could not compute it; says why.
        TimeoutError
            After `timeout`; says why it took so long.
        UnavailableError
            The lab node stays away.
        ExhaustedError
            The lab node's disk is too small for the arrays.
        KeyboardInterrupt
            The job was cancelled.

        Examples
        --------
        >>> c = lab.matmul(a, b)
        >>> lab.matmul("a.npy", "b.npy", out="c.npy", policy="replicate", replicas=3)
        """
        _check.flag("progress", progress)
        timeout = _check.optional_seconds("timeout", timeout)
        args: dict[str, Any] = {"a": a, "b": b}
        if out_dtype is not None:
            args["out_dtype"] = _submission.dtype_number("out_dtype", out_dtype)
        how: dict[str, Any] = {"policy": policy, "replicas": replicas, "weight": weight}
        if _check.flag("dry_run", dry_run):
            return self.submit("matmul", out=out, args=args, dry_run=True, **how)
        job = self.submit("matmul", out=out, args=args, **how)
        try:
            result = job.result(timeout, progress=progress)
        except KeyboardInterrupt:
            self._end_quietly(job)
            raise
        except TimeoutError:
            why = job._why()
            self._end_quietly(job)
            raise TimeoutError(
                f"matmul has not ended within {timeout:g} s ({why}); job {job.number} was "
                "cancelled: allow more time, or submit() a job and wait for it"
            ) from None
        with contextlib.suppress(Exception):  # the result is here; the node forgets by itself later
            job.forget()
        return result

    @overload
    def submit(
        self,
        kind: str,
        *,
        policy: str | None = None,
        replicas: int | None = None,
        weight: int = 1,
        out: Any = None,
        args: Mapping[str, Any] | None = None,
        dry_run: Literal[False] = False,
        **arrays_and_numbers: Any,
    ) -> Job: ...

    @overload
    def submit(
        self,
        kind: str,
        *,
        policy: str | None = None,
        replicas: int | None = None,
        weight: int = 1,
        out: Any = None,
        args: Mapping[str, Any] | None = None,
        dry_run: Literal[True],
        **arrays_and_numbers: Any,
    ) -> Estimate: ...

    def submit(
        self,
        kind: str,
        *,
        policy: str | None = None,
        replicas: int | None = None,
        weight: int = 1,
        out: Any = None,
        args: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        **arrays_and_numbers: Any,
    ) -> Job | Estimate:
        """Submits a computation and answers at once.

        Parameters
        ----------
        kind : str
            "matmul" (the newest version) or "matmul/1"; see `kinds`.
        policy, replicas, weight
            As in `matmul`; the kind's own policy by default.
        out : optional
            As in `matmul`; a mapping from names to places for kinds with several outputs.
        args : mapping, optional
            Arguments whose names are taken here, such as "policy".
        dry_run : bool
            Check the arguments, compute nothing, send no data, and say how long it would take.
            Measures the links to the hosts, with some MiB each, unless that was done a minute ago.
        **arrays_and_numbers
            The kind's arguments by name. Python's and NumPy's numbers are numbers; a dtype or its
            name is one for an argument whose name ends so (``out_dtype="f32"``); all else is an
            array.

        Returns
        -------
        Job, or Estimate with ``dry_run=True``
            Arrays in memory were copied; files are read while it runs, so leave them as they are.

        Raises
        ------
        InvalidArgumentError, DTypeError, NotFoundError
            Names the argument, its value and what to do. Sizes are checked before anything large
            is copied.
        UnavailableError
            With ``dry_run=True`` where no connected host can compute it; says why.

        Examples
        --------
        >>> print(lab.submit("matmul", a=a, b=b, dry_run=True))
        >>> job = lab.submit("matmul", a=a, b=b, out_dtype="f32", out="c.npy")
        >>> c = job.result(timeout=3600, progress=True)
        """
        _check.text("kind", kind, 'its name, such as "matmul" or "matmul/1"')
        policy_number, count = _submission.check_policy(policy, replicas)
        share = _submission.check_weight(weight)
        dry = _check.flag("dry_run", dry_run)
        named = _submission.arguments(args, arrays_and_numbers)
        try:
            return self._submit(kind, named, (policy_number, count, share), out, dry_run=dry)
        except (InvalidArgumentError, NotFoundError):
            # A misspelt name explains more than what its value, taken for an array, is refused for.
            known = self._kind_of(kind)
            if known is not None:
                if why := _submission.misspelt(named, known):
                    raise InvalidArgumentError(why) from None
                if why := _submission.wrong_dtype(named, known):
                    raise DTypeError(why) from None
            raise

    def _submit(
        self,
        kind: str,
        given: Mapping[str, Any],
        how: tuple[int, int, int],
        out: Any,
        *,
        dry_run: bool,
    ) -> Job | Estimate:
        named = _submission.with_dtypes(given)
        policy_number, count, share = how
        operands = [operand(n, v) for n, v in named.items() if not is_number(v)]
        numbers = {n: parameter(n, v) for n, v in named.items() if is_number(v)}
        if self._is_local:
            _submission.check_files(operands, ())
        request: dict[str, Any] = {
            "token": secrets.token_bytes(16),
            "kind": kind,
            "inputs": [
                _submission.wire_input(
                    op, _submission.STAGED if self._is_local else _submission.BLOB
                )
                for op in operands
            ],
            "params": numbers,
            "outputs": [],
            "policy": policy_number,
            "replicas": count,
            "weight": share,
            "dry_run": False,
            "forecast": False,
        }
        if dry_run:
            told = self._client.submit({**request, "dry_run": True, "forecast": True}, [], 0)
            _submission.plan_outputs(told["outputs"], out, operands)
            wide = any(op.dtype in _dtypes.WIDE for op in operands)
            return Estimate.of(told, own_seconds(told["flops"], wide=wide))
        targets: dict[str, _outputs.Target] = {}
        if out is not None or sum(op.copied_bytes for op in operands) > _CHECK_FIRST:
            estimate = self._client.submit({**request, "dry_run": True}, [], 0)
            targets = _submission.plan_outputs(estimate["outputs"], out, operands)
            if self._is_local:
                _submission.check_files(operands, list(targets.values()))
        claim = _overlap.claim(p for t in targets.values() if (p := t.place()) is not None)
        try:
            for target in targets.values():
                target.make()
            status = _sending.send(
                self._client, request, operands, targets, is_local=self._is_local
            )
            for target in targets.values():
                target.settle()
            return Job(self, status, targets, claim)
        except BaseException:
            # Ctrl-C may strike after the lab node's answer: then only the token names the job.
            self._client.cancel_submission(request["token"])
            for target in targets.values():
                target.undo()
            _overlap.release(claim)
            raise

    def job(self, number: int) -> Job:
        """A job of this lab node by its number, also one that another program submitted.

        Raises
        ------
        NotFoundError
            There is none of that number, or it was forgotten.
        """
        return Job(self, self._client.job(_check.integer("number", number, 1)))

    def jobs(self) -> list[Job]:
        """All jobs that the lab node remembers, oldest first."""
        return [Job(self, status) for status in self._client.jobs()]

    # ---- the network ----

    def hosts(self) -> list[HostInfo]:
        """The hosts that serve this lab node, with what they did for it."""
        return [HostInfo.of(host) for host in self._client.hosts()]

    def kinds(self) -> list[KindInfo]:
        """The kinds of computation that can be submitted."""
        return [KindInfo.of(kind) for kind in self._client.kinds()]

    def status(self) -> dict[str, str]:
        """How the lab node is, in words."""
        return dict(self._client.status())

    def close(self) -> None:
        """Ends the connection; jobs go on. Calling it again does nothing."""
        if self._closed:
            return
        self._closed = True
        self._client.close()
        if self._teller is not None and self._teller is not threading.current_thread():
            self._teller.join(5)
        with self._lock:
            pending, self._futures = self._futures, {}
        for number, waiting in pending.items():
            for _, future in waiting:
                if future.set_running_or_notify_cancel():
                    future.set_exception(
                        JobCancelledError(f"the connection was closed before job {number} ended")
                    )

    def __enter__(self) -> Self:
        if self._closed:
            raise UnavailableError(
                f"{self!r} cannot be used any more: call gpugoblin.connect() or local() again"
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise ArgumentTypeError(
            "a connection cannot be pickled: pass its address, and call gpugoblin.connect() there"
        )

    def __repr__(self) -> str:
        return f"<Lab {self._address}{' (closed)' if self._closed else ''}>"

    # ---- inside ----

    def _kind_of(self, kind: str) -> KindInfo | None:
        """What a kind takes; None if there is none of that name, or nobody can tell."""
        name, _, version = kind.partition("/")
        try:
            found = [k for k in self.kinds() if k.name == name]
        except GoblinError:
            return None
        if version:
            found = [k for k in found if str(k.version) == version]
        return max(found, key=lambda k: k.version, default=None)

    def _words_of_hosts(self, job: int, said: str) -> str:
        """What hosts say of a job that failed, to be added to what the lab node `said`."""
        del job, said
        return ""  # hosts report closed codes only: their words stay in their logs

    def _end_quietly(self, job: Job) -> None:
        with contextlib.suppress(Exception):
            job.cancel()

    def _future_of(self, job: Job) -> Future[Any]:
        future: Future[Any] = _JobFuture(job)
        with self._lock:
            self._futures.setdefault(job.number, []).append((job, future))
            if self._teller is None:
                self._teller = threading.Thread(
                    target=_tell, args=(weakref.ref(self), self._client), daemon=True
                )
                self._teller.start()
        self._client.watch(job.number)
        self._client.notify_end(job.number)
        return future

    def _settle(self, number: int) -> None:
        with self._lock:
            waiting = self._futures.pop(number, [])
        for job, future in waiting:
            result, error = None, None
            if not future.cancelled():
                try:
                    result = job.result()
                except BaseException as caught:
                    error = caught
            if isinstance(error, JobCancelledError) and error.job == number:
                Future.cancel(future)  # not _JobFuture's, which would cancel the job once more
            if not future.set_running_or_notify_cancel():
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)


class _JobFuture(Future[Any]):
    """Cancelling it cancels the job."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self._job = job

    def cancel(self) -> bool:
        if not super().cancel():
            return False
        self._job.cancel()
        return True


def _tell(lab_ref: weakref.ref[Lab], client: _core.Client) -> None:
    """Settles futures as their jobs end, until the connection is closed."""
    while (number := client.next_ended()) is not None:
        lab = lab_ref()
        if lab is None:
            return
        lab._settle(number)
        del lab


@atexit.register
def _close_all() -> None:
    for lab in list(_open_labs):
        with contextlib.suppress(Exception):
            lab.close()
    # Threads that waited for these must be back before the interpreter ends.
    _core.see_out(2.0)


def _after_fork() -> None:
    for lab in list(_open_labs):
        _inherited.append(lab._client)
        lab._closed = True
    _open_labs.clear()


os.register_at_fork(after_in_child=_after_fork)
