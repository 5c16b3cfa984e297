# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Where results go: new arrays over the lab node's files, arrays of the caller, or files."""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpugoblin import _check, _dtypes, _files, _overlap
from gpugoblin._arrays import Operand, as_numpy
from gpugoblin._errors import DTypeError, InvalidArgumentError, NotFoundError


@dataclass(frozen=True)
class Expected:
    """An output as the kind computes it."""

    name: str
    dtype: int
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""
        return int(np.prod(self.shape, dtype=object)) * _dtypes.itemsize(self.dtype)

    def empty(self) -> str:
        """What makes room for it, for messages: "np.empty((2, 3), np.float32)"."""
        bf16 = self.dtype == _dtypes.BFLOAT16
        name = "ml_dtypes.bfloat16" if bf16 else f"np.{_dtypes.numpy_dtype(self.dtype).name}"
        return f"np.empty({self.shape}, {name})"

    def text(self) -> str:
        """For messages: "shape (2, 3) of f32"."""
        return f"shape {self.shape} of {_dtypes.NAMES[self.dtype]}"


@dataclass
class Target:
    """Where one output goes: a file that the lab node writes, an array to copy into, or both None.

    `given` is what the caller passed and gets back. A .npy file is made beside its place by `make`
    and moved there by `settle`: a submission that is refused leaves an older file alone.
    """

    expected: Expected
    file: _files.FileView | None = None
    into: npt.NDArray[Any] | None = None
    given: Any = None
    header: bytes = b""
    made: Path | None = None
    moved: bool = False

    def place(self) -> _overlap.Place | None:
        """What must not be written twice."""
        if self.file is None and self.into is None:
            return None
        file = self.file if self.into is None else _window(self.into)
        return _overlap.Place(self.expected.name, self.into, file)

    def wire(self, fd_index: int) -> dict[str, Any]:
        """For Client.submit."""
        assert self.file is not None
        return {
            "name": self.expected.name,
            "fd_index": fd_index,
            "path": os.fsencode(self.file.path),
            "offset": self.file.offset,
        }

    @property
    def path(self) -> Path:
        """The file to open."""
        assert self.file is not None
        return self.file.path if self.made is None or self.moved else self.made

    def make(self) -> None:
        """Makes the file if it is to be made."""
        if self.file is None or self.into is not None or isinstance(self.given, np.ndarray):
            return
        path = self.file.path
        try:
            if not self.header:
                if not path.exists():
                    path.touch()
                    self.made, self.moved = path, True
                return
            # Whoever still maps an older file of this name keeps its contents.
            stem = os.fsdecode(os.fsencode(path.stem)[:100])
            made = path.parent / f".{stem}.{secrets.token_hex(8)}.npy"
            # The kernel applies the umask, which only changing it would show: it is all threads'.
            handle = os.open(made, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            self.made = made
            with os.fdopen(handle, "wb") as file:
                file.write(self.header)
                file.truncate(len(self.header) + self.expected.nbytes)
        except OSError as error:
            self.undo()
            raise _cannot(path, error) from error

    def settle(self) -> None:
        """The job is there: its file takes its place."""
        if self.made is not None and not self.moved:
            assert self.file is not None
            try:
                self.made.replace(self.file.path)
            except OSError as error:
                raise _cannot(self.file.path, error) from error
            self.moved = True

    def undo(self) -> None:
        """There is no job: nothing is left of its file."""
        if self.made is not None:
            with contextlib.suppress(OSError):
                self.made.unlink()
            self.made = None

    def deliver(self, result: npt.NDArray[Any]) -> Any:
        """Hands a result that came in memory to the caller's place; answers that place."""
        if self.into is not None:
            np.copyto(self.into, result)
            return self.given
        return result

    def mapped(self) -> Any:
        """The caller's file as it is now."""
        if isinstance(self.given, np.ndarray):
            return self.given
        assert self.file is not None
        return _files.RawFile(
            self.file.path,
            self.file.shape,
            _dtypes.storage_dtype(self.file.dtype),
            self.file.offset,
        ).map("r+")


def target(expected: Expected, out: Any, inputs: Sequence[Operand]) -> Target:
    """Checks what the caller passed as `out` for one output; makes nothing yet.

    Raises
    ------
    InvalidArgumentError
        When shape, dtype or layout differ from the result's, or it overlaps an input or itself.
    """
    if out is None:
        return Target(expected)
    if isinstance(out, (str, os.PathLike)):
        found = _new_npy(expected, _check.path("out", out).absolute(), out, inputs)
    elif isinstance(out, _files.RawFile):
        _same(expected, out.shape, out.dtype)
        _can_hold(out.path)
        strides = _files.row_major(out.shape, _dtypes.itemsize(out.dtype))
        view = _files.FileView(out.path, out.dtype, out.shape, strides, out.offset)
        found = Target(expected, file=view, given=out)
    else:
        found = _array_target(expected, out)
    _apart(found, inputs)
    return found


def _same(expected: Expected, shape: tuple[int, ...], dtype: int) -> None:
    if shape != expected.shape or dtype != expected.dtype:
        raise InvalidArgumentError(
            f"out has shape {shape} of {_dtypes.NAMES[dtype]}, but the result '{expected.name}' "
            f"has {expected.text()}: pass a place of that shape and type, such as "
            f"{expected.empty()}"
        )


def _array_target(expected: Expected, out: Any) -> Target:
    array = out
    number = None
    if type(out).__module__.split(".")[0] == "torch" and hasattr(out, "is_sparse"):
        array, number = as_numpy("out", out)
    if isinstance(array, np.ma.MaskedArray):
        raise DTypeError("out is a masked array, whose mask no result has: pass out.data")
    if not isinstance(array, np.ndarray):
        raise DTypeError(
            f"out is {type(out).__name__}; pass a NumPy array, a memory map, a path that ends in "
            ".npy, or gpugoblin.RawFile"
        )
    if number is None:
        number = _dtypes.number_of(array.dtype, "out")
    _same(expected, array.shape, number)
    if not array.flags.writeable:
        remedy = (
            "open the memory map with mode 'r+'"
            if isinstance(array, np.memmap)
            else f"pass one that may be written, such as {expected.empty()}"
        )
        raise InvalidArgumentError(f"out is read-only: {remedy}")
    if _overlap.repeats(array):
        raise InvalidArgumentError(
            f"out overlaps itself: with strides {array.strides} several of its elements of shape "
            f"{array.shape} lie at one place; pass an array of its own, such as np.empty"
        )
    if array.flags.c_contiguous and number != _dtypes.BFLOAT16:
        file = _files.file_of(array)
        if file is not None:
            return Target(expected, file=file, given=out)
    return Target(expected, into=array, given=out)


def _new_npy(expected: Expected, path: Path, given: Any, inputs: Sequence[Operand]) -> Target:
    if path.suffix != ".npy":
        raise InvalidArgumentError(
            f"out: {path} does not end in .npy; describe a file without a header with "
            "gpugoblin.RawFile(path, shape, dtype)"
        )
    _can_hold(path)
    if path.exists() and any(op.file and op.file.path.samefile(path) for op in inputs):
        raise InvalidArgumentError(f"out: {path} is an input of the same job: name another file")
    text = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        text,
        {
            "descr": np.lib.format.dtype_to_descr(_dtypes.numpy_dtype(expected.dtype)),
            "fortran_order": False,
            "shape": expected.shape,
        },
    )
    header = text.getvalue()
    strides = _files.row_major(expected.shape, _dtypes.itemsize(expected.dtype))
    view = _files.FileView(path, expected.dtype, expected.shape, strides, len(header))
    return Target(expected, file=view, given=given, header=header)


def _can_hold(path: Path) -> None:
    """Whether a file can be at a path."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise NotFoundError(f"out: there is no folder {path.parent}: make it first") from None
        return
    except OSError as error:
        raise _cannot(path, error) from error
    if not stat.S_ISREG(mode):
        raise InvalidArgumentError(f"out: {path} is not a regular file: name another path")


def _cannot(path: Path, error: OSError) -> InvalidArgumentError:
    why = error.strerror or str(error)
    return InvalidArgumentError(f"out: {path} cannot be written: {why}; name another path")


def _window(array: npt.NDArray[Any]) -> _files.FileView | None:
    """The file behind a memory map that is no place for the lab node itself to write to."""
    if array.dtype.name == "bfloat16" or not array.dtype.isnative:
        return None
    return _files.file_of(array)


def _apart(found: Target, inputs: Sequence[Operand]) -> None:
    place = found.place()
    if place is None:
        return
    for op in inputs:
        if place.array is not None and op.source is not None:
            if _overlap.shared(place.array, op.source):
                raise InvalidArgumentError(
                    f"out overlaps argument '{op.name}' in memory: pass another array, such as "
                    "np.empty"
                )
        elif place.file is not None and op.file is not None and _overlap.meet(place.file, op.file):
            raise InvalidArgumentError(
                f"out overlaps argument '{op.name}' in {place.file.path}: the lab node reads the "
                "one while it writes the other; name another place"
            )


@contextlib.contextmanager
def opened(paths: Sequence[tuple[Path, bool]]) -> Iterator[list[int]]:
    """Descriptors of files, to write or only to read; closed afterwards."""
    fds: list[int] = []
    try:
        for path, writable in paths:
            mode = os.O_RDWR if writable else os.O_RDONLY
            try:
                fds.append(os.open(path, mode | os.O_CLOEXEC))
            except OSError as error:
                raise _files.unusable("out" if writable else "an argument", path, error) from error
        yield fds
    finally:
        for fd in fds:
            os.close(fd)


def map_result(expected: Expected, fd: int) -> npt.NDArray[Any]:
    """An array over a file of the lab node: no copy, private to the caller, writable."""
    dtype = _dtypes.numpy_dtype(expected.dtype)
    if expected.nbytes == 0:
        return np.empty(expected.shape, dtype)
    data = mmap.mmap(fd, expected.nbytes, access=mmap.ACCESS_COPY)
    return np.ndarray(expected.shape, dtype, data)
