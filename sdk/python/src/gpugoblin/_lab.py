# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""A connection to a lab node."""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import threading
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gpugoblin import _core, _outputs, _places
from gpugoblin._arrays import Operand, is_number, operand, parameter
from gpugoblin._dtypes import NUMBERS
from gpugoblin._errors import (
    DTypeError,
    InvalidArgumentError,
    TimeoutError,
    UnavailableError,
)
from gpugoblin._job import Job
from gpugoblin._records import HostInfo, KindInfo

_STAGED, _FILE, _BLOB = 1, 2, 3
_POLICIES = {"default": 0, "algebraic": 1, "validator": 2, "replicate": 3}
# Below this, one submission that may fail is cheaper than asking for the shapes first.
_CHECK_FIRST = 1 << 20
_ATTEMPTS = 20

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
        out_dtype: str | None = None,
        progress: bool = True,
        timeout: float | None = None,
        weight: int = 1,
    ) -> Any:
        """The matrix product of `a` and `b` with NumPy's `matmul` semantics, every tile checked.

        Parameters
        ----------
        a, b : array_like, shapes (…, m, k) or (k,) and (…, k, n) or (k,), of one dtype
            NumPy arrays of any strides, memory maps, paths of .npy files, `RawFile`, torch tensors,
            DLPack. What lies in a file is not copied and may be larger than memory.
        out : ndarray, memmap, path of a .npy file to make, or RawFile, optional
            Where the result goes; a file is written by the lab node itself.
        policy : {"algebraic", "validator", "replicate"}, optional
            How every tile is checked; "algebraic" (Freivalds and exact entries) by default.
        replicas : int, optional
            How many independent hosts must agree, 2 to 16, with ``policy="replicate"``.
        out_dtype : str, optional
            "f32" for f16 and bf16 operands, "i8" for i8; else that of NumPy (i32 for i8).
        progress : bool
            Show a progress bar on a terminal or in a notebook.
        timeout : float, optional
            Seconds, after which the job is cancelled.
        weight : int
            Share beside other jobs, 1 to 1000.

        Returns
        -------
        ndarray, shape (…, m, n)
            The canonical result: the same bits whoever computed it. `out` itself if given.

        Raises
        ------
        InvalidArgumentError, DTypeError
            Names the argument and what to do; nothing was computed.
        JobFailedError, TimeoutError, UnavailableError
        KeyboardInterrupt
            The job was cancelled.
        """
        args: dict[str, Any] = {"a": a, "b": b}
        if out_dtype is not None:
            args["out_dtype"] = _out_dtype(out_dtype)
        job = self.submit(
            "matmul", policy=policy, replicas=replicas, weight=weight, out=out, args=args
        )
        try:
            result = job.result(timeout, progress=progress)
        except (KeyboardInterrupt, TimeoutError):
            self._end_quietly(job)
            raise
        with contextlib.suppress(Exception):  # the result is here; the node forgets by itself later
            job.forget()
        return result

    def submit(
        self,
        kind: str,
        *,
        policy: str | None = None,
        replicas: int | None = None,
        weight: int = 1,
        out: Any = None,
        args: Mapping[str, Any] | None = None,
        **arrays_and_numbers: Any,
    ) -> Job:
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
        **arrays_and_numbers
            The kind's arguments by name. Python's and NumPy's numbers are numbers; all else is an
            array.

        Returns
        -------
        Job
            Arrays in memory were copied; files are read while it runs, so leave them as they are.

        Raises
        ------
        InvalidArgumentError, DTypeError, NotFoundError
            Names the argument, its value and what to do. Sizes are checked before anything large
            is copied.
        """
        named = {**(args or {}), **arrays_and_numbers}
        operands = [operand(n, v) for n, v in named.items() if not is_number(v)]
        numbers = {n: parameter(n, v) for n, v in named.items() if is_number(v)}
        policy_number, count = check_policy(policy, replicas)
        request: dict[str, Any] = {
            "token": secrets.token_bytes(16),
            "kind": str(kind),
            "inputs": [wire_input(op, _STAGED if self._is_local else _BLOB) for op in operands],
            "params": numbers,
            "outputs": [],
            "policy": policy_number,
            "replicas": count,
            "weight": check_weight(weight),
            "dry_run": False,
        }
        targets: dict[str, _outputs.Target] = {}
        if out is not None or sum(op.copied_bytes for op in operands) > _CHECK_FIRST:
            estimate = self._client.submit({**request, "dry_run": True}, [], 0)
            targets = plan_outputs(estimate["outputs"], out, operands)
        status = self._send(request, operands, targets)
        return Job(self, status, targets)

    def job(self, number: int) -> Job:
        """A job of this lab node by its number, also one that another program submitted."""
        return Job(self, self._client.job(number))

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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Lab {self._address}{' (closed)' if self._closed else ''}>"

    # ---- inside ----

    def _send(
        self,
        request: dict[str, Any],
        operands: Sequence[Operand],
        targets: Mapping[str, _outputs.Target],
    ) -> dict[str, Any]:
        """Submits; again with the same token, thus the same job, when the lab node went away."""
        attempt = 0
        while True:
            try:
                if self._is_local:
                    return self._send_local(request, operands, targets)
                return self._send_remote(request, operands)
            except UnavailableError as error:
                attempt += 1
                if not error.lost or attempt == _ATTEMPTS:
                    raise

    def _send_local(
        self,
        request: dict[str, Any],
        operands: Sequence[Operand],
        targets: Mapping[str, _outputs.Target],
    ) -> dict[str, Any]:
        files = [(op.file.path, False) for op in operands if op.file is not None]
        places = [t for t in targets.values() if t.file is not None]
        inputs: list[dict[str, Any]] = []
        stages: dict[tuple[int, int, str], int] = {}
        epoch = 0
        fd_index = 0
        for op in operands:
            if op.file is not None:
                inputs.append(wire_input(op, _FILE, fd_index=fd_index))
                fd_index += 1
                continue
            source = op.source
            assert source is not None
            key = (source.__array_interface__["data"][0], op.copied_bytes, str(source.strides))
            if key not in stages:
                stages[key], fd, epoch = self._client.stage(op.copied_bytes)
                try:
                    op.write_to(fd)
                finally:
                    os.close(fd)
            inputs.append(wire_input(op, _STAGED, stage=stages[key]))
        outputs = [t.wire(fd_index + i) for i, t in enumerate(places)]
        wanted = files + [(t.file.path, True) for t in places if t.file is not None]
        with _outputs.opened(wanted) as fds:
            body = {**request, "inputs": inputs, "outputs": outputs}
            return self._client.submit(body, fds, epoch)

    def _send_remote(self, request: dict[str, Any], operands: Sequence[Operand]) -> dict[str, Any]:
        digests: list[bytes] = []
        inputs = []
        try:
            for op in operands:
                digests.append(self._client.serve(_bytes_of(op)))
                inputs.append(wire_input(op, _BLOB, digest=digests[-1]))
            return self._client.submit({**request, "inputs": inputs}, [], 0)
        finally:
            for digest in digests:
                self._client.unserve(digest)

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
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(job.result())
            except BaseException as error:
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


def _bytes_of(op: Operand) -> Any:
    import numpy as np

    return op.contiguous().reshape(-1).view(np.uint8)


def wire_input(
    op: Operand, storage: int, *, stage: int = 0, fd_index: int = 0, digest: bytes = b""
) -> dict[str, Any]:
    """An array argument for Client.submit."""
    return {
        "name": op.name,
        "dtype": op.dtype,
        "shape": list(op.shape),
        "strides": [] if storage == _BLOB else list(op.strides),
        "storage": storage,
        "stage": stage,
        "fd_index": fd_index,
        "path": str(op.file.path) if storage == _FILE and op.file is not None else "",
        "offset": op.file.offset if storage == _FILE and op.file is not None else 0,
        "digest": digest,
    }


def plan_outputs(
    infos: Sequence[dict[str, Any]], out: Any, operands: Sequence[Operand]
) -> dict[str, _outputs.Target]:
    """Checks `out` against what the kind computes."""
    expected = [_outputs.Expected(i["name"], NUMBERS[i["dtype"]], tuple(i["shape"])) for i in infos]
    names = [e.name for e in expected]
    if isinstance(out, Mapping):
        unknown = [name for name in out if name not in names]
        if unknown:
            raise InvalidArgumentError(
                f"out names '{unknown[0]}', but the outputs are: {', '.join(names)}"
            )
        places = dict(out)
    elif out is not None and len(expected) != 1:
        raise InvalidArgumentError(
            f"out is one place for {len(expected)} outputs: pass a mapping from {', '.join(names)}"
        )
    else:
        places = {names[0]: out} if names else {}
    return {e.name: _outputs.target(e, places.get(e.name), operands) for e in expected}


def check_policy(policy: str | None, replicas: int | None) -> tuple[int, int]:
    """The wire's numbers for a policy."""
    if policy == "none":
        raise InvalidArgumentError(
            "policy 'none' is refused: results come from strangers' computers, so nothing is used "
            "unchecked; the cheapest check is policy='algebraic', about 1 % of the work"
        )
    if policy is not None and policy not in _POLICIES:
        raise InvalidArgumentError(
            f"policy is {policy!r}; it is one of 'algebraic', 'validator', 'replicate'"
        )
    if policy == "replicate":
        count = 2 if replicas is None else replicas
        if isinstance(count, bool) or not isinstance(count, int) or not 2 <= count <= 16:
            raise InvalidArgumentError(f"replicas is {replicas!r}, but must lie between 2 and 16")
        return _POLICIES[policy], count
    if replicas is not None:
        raise InvalidArgumentError(
            f"replicas is {replicas!r}, which only policy='replicate' uses, not {policy!r}"
        )
    return _POLICIES[policy or "default"], 0


def check_weight(weight: int) -> int:
    """A job's share."""
    if isinstance(weight, bool) or not isinstance(weight, int) or not 1 <= weight <= 1000:
        raise InvalidArgumentError(f"weight is {weight!r}, but must lie between 1 and 1000")
    return weight


def _out_dtype(name: str) -> int:
    if name not in NUMBERS:
        raise DTypeError(f"out_dtype is {name!r}; it is one of {', '.join(NUMBERS)}")
    return NUMBERS[name]


def connect(
    address: str | os.PathLike[str] | None = None,
    *,
    timeout: float = 10.0,
    patience: float = 60.0,
    identity: str | os.PathLike[str] | None = None,
) -> Lab:
    """Connects to a lab node.

    Parameters
    ----------
    address : str or Path, optional
        Path of the lab node's Unix socket on this machine, or ``"host:port#pin"`` for TLS, where
        `pin` is the 64 digits that the lab node shows. By default the environment's
        ``GPUGOBLIN_ADDRESS``, else the socket in the default state directory.
    timeout : float
        Seconds for the first connection.
    patience : float
        Seconds that calls wait for a lab node that is being started again.
    identity : str or Path, optional
        TLS: directory of this user's key, made when missing; see `own_pin`.

    Returns
    -------
    Lab

    Raises
    ------
    UnavailableError
        Nobody answers there.
    UnsupportedError
        The versions do not fit; the message says which side to upgrade.
    InvalidArgumentError
        The address is malformed, or the lab node does not admit this user's key.
    CorruptError
        Another key than `pin` answers.
    """
    place = _places.parse(_places.default_address() if address is None else address)
    key = Path(identity) if identity is not None else _places.default_identity()
    client = _core.Client(
        place.socket, place.host, place.port, place.pin, str(key) if place.tls else "", patience
    )
    try:
        answered = client.connect(timeout)
    except UnavailableError as error:
        client.close()
        raise UnavailableError(_places.nobody(place, str(error))) from None
    except BaseException:
        client.close()
        raise
    if not answered:
        client.close()
        raise UnavailableError(_places.nobody(place, f"no answer within {timeout} s"))
    return Lab(client, place.text, is_local=not place.tls)


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
