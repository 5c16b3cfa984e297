# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Which memory results go to: not twice to one place, not to what another job writes."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from gpugoblin import _files
from gpugoblin._errors import InvalidArgumentError

# Steps of the exact search; beyond them memory counts as shared, which errs on the safe side.
_MOST_WORK = 100_000
_MOST_ELEMENTS = 1 << 20


def shared(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    """Whether two arrays have an element's memory in common."""
    try:
        return np.shares_memory(a, b, max_work=_MOST_WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def repeats(array: npt.NDArray[Any]) -> bool:
    """Whether an array reaches some memory through more than one index."""
    axes = sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1)
    reach = array.itemsize
    for stride, n in axes:
        if stride < reach:
            break
        reach += stride * (n - 1)
    else:
        return False
    if array.size == 0:
        return False
    if any(stride == 0 for stride, _ in axes) or array.size > _MOST_ELEMENTS:
        return True
    offsets = np.zeros(1, np.int64)
    for stride, n in axes:
        offsets = (offsets[:, None] + stride * np.arange(n)).reshape(-1)
    offsets.sort()
    return bool((np.diff(offsets) < array.itemsize).any())


def meet(a: _files.FileView, b: _files.FileView) -> bool:
    """Whether two windows lie on the same bytes of one file, which may not be there yet."""
    try:
        same = a.path.samefile(b.path)
    except OSError:
        same = a.path == b.path
    (low, high), (start, end) = a.extent(), b.extent()
    return same and start < high and low < end


class Place:
    """Where one output goes: memory, a window on a file, or (a memory map) both."""

    def __init__(
        self, name: str, array: npt.NDArray[Any] | None, file: _files.FileView | None
    ) -> None:
        self.name = name
        self.array = array
        self.file = file

    def meets(self, other: Place) -> bool:
        """Whether both name the same memory or the same bytes of a file."""
        if self.array is not None and other.array is not None and shared(self.array, other.array):
            return True
        return self.file is not None and other.file is not None and meet(self.file, other.file)


class Claim:
    """The places that a job of this process will write to, for as long as it runs.

    `ended` says whether it has; `job` is its number once there is one. A claim goes with the object
    that holds it: nobody but the `Job` can deliver its result.
    """

    def __init__(self, places: Iterable[Place]) -> None:
        self.places = list(places)
        self.job = 0
        self.ended: Callable[[], bool] = lambda: False


_lock = threading.Lock()
_claims: weakref.WeakSet[Claim] = weakref.WeakSet()


def claim(places: Iterable[Place]) -> Claim:
    """Takes places for a job that is about to be submitted.

    Raises
    ------
    InvalidArgumentError
        When two of them, or one and that of a running job, are the same.
    """
    mine = Claim(places)
    for i, place in enumerate(mine.places):
        for other in mine.places[:i]:
            if place.meets(other):
                raise InvalidArgumentError(
                    f"out: the places of '{other.name}' and '{place.name}' overlap: name two"
                )
    with _lock:
        others = list(_claims)
        _claims.add(mine)
    for theirs in others:
        hit = next(((a, b) for a in mine.places for b in theirs.places if a.meets(b)), None)
        if hit is None:
            continue
        if theirs.ended():
            release(theirs)
            continue
        release(mine)
        who = f"job {theirs.job}" if theirs.job else "another job that is being submitted"
        where = "the same memory" if hit[1].file is None else str(hit[1].file.path)
        raise InvalidArgumentError(
            f"output '{hit[0].name}': {who} writes its output '{hit[1].name}' to {where}; "
            "wait for its end, cancel it, or name another place"
        )
    return mine


def release(claimed: Claim) -> None:
    """Gives places free."""
    with _lock:
        _claims.discard(claimed)
