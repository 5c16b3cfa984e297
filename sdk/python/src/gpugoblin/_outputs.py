# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Where results go: new arrays over the lab node's files, arrays of the caller, or files."""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpugoblin import _dtypes, _files
from gpugoblin._arrays import Operand
from gpugoblin._errors import DTypeError, InvalidArgumentError


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

    def text(self) -> str:
        """For messages: "shape (2, 3) of f32"."""
        return f"shape {self.shape} of {_dtypes.NAMES[self.dtype]}"


@dataclass
class Target:
    """Where one output goes: a file that the lab node writes, an array to copy into, or both None.

    `given` is what the caller passed and gets back.
    """

    expected: Expected
    file: _files.FileView | None = None
    into: npt.NDArray[Any] | None = None
    given: Any = None

    def wire(self, fd_index: int) -> dict[str, Any]:
        """For Client.submit."""
        assert self.file is not None
        return {
            "name": self.expected.name,
            "fd_index": fd_index,
            "path": str(self.file.path),
            "offset": self.file.offset,
        }

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
    """Checks and opens what the caller passed as `out` for one output.

    Raises
    ------
    InvalidArgumentError
        When shape, dtype or layout differ from the result's, or it overlaps an input's file.
    """
    if out is None:
        return Target(expected)
    if isinstance(out, (str, os.PathLike)):
        found = Target(expected, file=_new_npy(expected, Path(out), inputs), given=out)
    elif isinstance(out, _files.RawFile):
        _same(expected, out.shape, out.dtype)
        out.path.touch()
        strides = _files.row_major(out.shape, _dtypes.itemsize(out.dtype))
        view = _files.FileView(out.path, out.dtype, out.shape, strides, out.offset)
        found = Target(expected, file=view, given=out)
    else:
        found = _array_target(expected, out)
    if found.file is not None:
        _apart(found.file, inputs)
    return found


def _same(expected: Expected, shape: tuple[int, ...], dtype: int) -> None:
    if shape != expected.shape or dtype != expected.dtype:
        raise InvalidArgumentError(
            f"out has shape {shape} of {_dtypes.NAMES[dtype]}, but the result '{expected.name}' "
            f"has {expected.text()}"
        )


def _array_target(expected: Expected, out: Any) -> Target:
    array = out
    number = None
    if type(out).__module__.split(".")[0] == "torch" and hasattr(out, "is_sparse"):
        from gpugoblin._arrays import as_numpy

        array, number = as_numpy("out", out)
    if not isinstance(array, np.ndarray):
        raise DTypeError(
            f"out is {type(out).__name__}; pass a NumPy array, a memory map, a path that ends in "
            ".npy, or gpugoblin.RawFile"
        )
    if number is None:
        number = _dtypes.number_of(array.dtype, "out")
    _same(expected, array.shape, number)
    if not array.flags.writeable:
        raise InvalidArgumentError("out is read-only: open the memory map with mode 'r+'")
    if array.flags.c_contiguous and number != _dtypes.BFLOAT16:
        file = _files.file_of(array)
        if file is not None:
            return Target(expected, file=file, given=out)
    return Target(expected, into=array, given=out)


def _new_npy(expected: Expected, path: Path, inputs: Sequence[Operand]) -> _files.FileView:
    path = path.absolute()
    if path.suffix != ".npy":
        raise InvalidArgumentError(
            f"out: {path} does not end in .npy; describe a file without a header with "
            "gpugoblin.RawFile(path, shape, dtype)"
        )
    if path.exists() and any(op.file and op.file.path.samefile(path) for op in inputs):
        raise InvalidArgumentError(f"out: {path} is an input of the same job: name another file")
    header = {
        "descr": np.lib.format.dtype_to_descr(_dtypes.numpy_dtype(expected.dtype)),
        "fortran_order": False,
        "shape": expected.shape,
    }
    # Whoever still maps an older file of this name keeps its contents.
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}.", suffix=".npy")
    try:
        with os.fdopen(handle, "wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            offset = file.tell()
            file.truncate(offset + expected.nbytes)
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise
    strides = _files.row_major(expected.shape, _dtypes.itemsize(expected.dtype))
    return _files.FileView(path, expected.dtype, expected.shape, strides, offset)


def _apart(file: _files.FileView, inputs: Sequence[Operand]) -> None:
    low, high = file.extent()
    for op in inputs:
        if op.file is None or not op.file.path.samefile(file.path):
            continue
        start, end = op.file.extent()
        if start < high and low < end:
            raise InvalidArgumentError(
                f"out overlaps argument '{op.name}' in {file.path}: the lab node reads the one "
                "while it writes the other; name another place"
            )


@contextlib.contextmanager
def opened(paths: Sequence[tuple[Path, bool]]) -> Iterator[list[int]]:
    """Descriptors of files, to write or only to read; closed afterwards."""
    fds: list[int] = []
    try:
        for path, writable in paths:
            fds.append(os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC))
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
