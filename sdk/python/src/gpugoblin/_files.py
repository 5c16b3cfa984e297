# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Arrays that lie in files: raw ones, .npy, and memory maps."""

from __future__ import annotations

import math
import mmap
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from gpugoblin import _check, _core, _dtypes
from gpugoblin._errors import GoblinError, InvalidArgumentError, NotFoundError

_MOST_DIMENSIONS = 64  # of NumPy's arrays
_MOST_BYTES = 1 << 62  # of a tensor, wherever it is described

LARGEST_BYTES = 1 << 62  # as the lab node counts


@dataclass(frozen=True, init=False, repr=False)
class RawFile:
    """An array in a file without a header, row-major; the lab node reads or writes it in place.

    Parameters
    ----------
    path : str or Path
    shape : sequence of int
    dtype : NumPy's dtype or its name, or ``"bf16"``
        As NumPy reads it: ``"i8"`` has 8 bytes, ``"int8"`` one. In this machine's byte order; for
        the other one pass an `np.memmap`.
    offset : int
        Bytes before the first element.
    """

    path: Path
    shape: tuple[int, ...]
    dtype: int
    offset: int

    def __init__(
        self,
        path: str | os.PathLike[str],
        shape: int | Sequence[int],
        dtype: npt.DTypeLike | str,
        offset: int = 0,
    ) -> None:
        named = _check.path("RawFile: path", path)
        sizes = [shape] if isinstance(shape, (int, np.integer)) else shape
        lengths = tuple(
            _length(n) for n in _check.sequence("RawFile: shape", sizes, "whole numbers")
        )
        number = _dtypes.parse(dtype, "RawFile")
        item = _dtypes.itemsize(number)
        if len(lengths) > _core.BOUNDS["rank"]:
            raise InvalidArgumentError(
                f"RawFile: shape {_check.shown(lengths)} has {len(lengths)} dimensions, but may "
                f"have {_core.BOUNDS['rank']} at most: join some of them"
            )
        start = _check.integer("RawFile: offset", offset, 0)
        if start % item != 0:
            raise InvalidArgumentError(
                f"RawFile: offset {start} is no multiple of the item size "
                f"{item}: the lab node could not view it"
            )
        if start + math.prod(max(n, 1) for n in lengths) * item > LARGEST_BYTES:
            raise InvalidArgumentError(
                f"RawFile: shape {_check.shown(lengths)} at offset {start} ends beyond 2^62 bytes, "
                "where no file reaches"
            )
        object.__setattr__(self, "path", named.absolute())
        object.__setattr__(self, "shape", lengths)
        object.__setattr__(self, "dtype", number)
        object.__setattr__(self, "offset", start)

    def __repr__(self) -> str:
        bf16 = self.dtype == _dtypes.BFLOAT16
        name = "bf16" if bf16 else _dtypes.numpy_dtype(self.dtype).name
        return f"RawFile({str(self.path)!r}, {self.shape}, {name!r}, offset={self.offset})"

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""
        return math.prod(self.shape) * _dtypes.itemsize(self.dtype)

    def map(self, mode: str = "r") -> npt.NDArray[Any]:
        """The array as a memory map; bf16 as its bits where ml_dtypes is not installed.

        Parameters
        ----------
        mode : {"r", "r+", "c", "w+"}
            As of `numpy.memmap`: to read, to change the file, to change a private copy, to make
            the file anew.

        Raises
        ------
        NotFoundError, InvalidArgumentError
            When there is no such file, or it is too short or may not be opened.
        """
        _check.choice("mode", mode, ("r", "r+", "c", "w+"))
        dtype = _dtypes.storage_dtype(self.dtype)
        if mode in ("r", "c"):  # the others make it longer
            raw_view("RawFile", self)
        if self.nbytes == 0:
            return np.empty(self.shape, dtype)
        try:
            return np.memmap(self.path, dtype, mode, self.offset, self.shape)  # type: ignore[call-overload, no-any-return]
        except OSError as error:
            raise unusable("RawFile", self.path, error) from error


@dataclass(frozen=True)
class FileView:
    """A strided window on a file that the lab node can open, too."""

    path: Path
    dtype: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int  # bytes from the file's start to element (0, …, 0)

    def extent(self) -> tuple[int, int]:
        """First and last byte (exclusive) that it touches."""
        if 0 in self.shape:
            return self.offset, self.offset
        spans = [s * (n - 1) for s, n in zip(self.strides, self.shape, strict=True)]
        low = sum(span for span in spans if span < 0)
        high = sum(span for span in spans if span > 0) + _dtypes.itemsize(self.dtype)
        return self.offset + low, self.offset + high

    def array(self) -> npt.NDArray[Any]:
        """The window as an array over a memory map."""
        dtype = _dtypes.storage_dtype(self.dtype)
        if 0 in self.shape:
            return np.empty(self.shape, dtype)
        low, high = self.extent()
        start = low - low % mmap.ALLOCATIONGRANULARITY
        with self.path.open("rb") as file:
            data = mmap.mmap(file.fileno(), high - start, access=mmap.ACCESS_READ, offset=start)
        return np.ndarray(self.shape, dtype, data, self.offset - start, self.strides)


def row_major(shape: Sequence[int], item: int) -> tuple[int, ...]:
    """Strides in bytes of an array without gaps."""
    strides = []
    step = item
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def column_major(shape: Sequence[int], item: int) -> tuple[int, ...]:
    """Strides in bytes of an array in Fortran's order."""
    return tuple(reversed(row_major(tuple(reversed(shape)), item)))


def raw_view(name: str, file: RawFile) -> FileView:
    """A raw file as an argument."""
    size = _size(name, file.path)
    if size < file.offset + file.nbytes:
        raise InvalidArgumentError(
            f"{name}: {file.path} has {size} bytes, but shape {file.shape} of "
            f"{_dtypes.NAMES[file.dtype]} at offset {file.offset} needs "
            f"{file.offset + file.nbytes}"
        )
    strides = row_major(file.shape, _dtypes.itemsize(file.dtype))
    return FileView(file.path, file.dtype, file.shape, strides, file.offset)


def unusable(name: str, path: Path, error: OSError) -> GoblinError:
    """The exception for a file that the system does not hand out."""
    why = error.strerror or str(error)
    if isinstance(error, FileNotFoundError):
        return NotFoundError(f"{name}: there is no file {path}: check the path")
    return InvalidArgumentError(f"{name}: {path} cannot be opened: {why}")


def _size(name: str, path: Path) -> int:
    try:
        found = path.stat()
    except OSError as error:
        raise unusable(name, path, error) from error
    if not stat.S_ISREG(found.st_mode):
        raise InvalidArgumentError(f"{name}: {path} is no regular file: name one that holds data")
    return found.st_size


def _length(n: Any) -> int:
    if isinstance(n, int) and n < 0:
        raise InvalidArgumentError(f"RawFile: shape has the negative length {_check.shown(n)}")
    return _check.integer("RawFile: a length of the shape", n, 0)


def npy_view(name: str, path: Path) -> FileView | npt.NDArray[Any]:
    """A .npy file as an argument: in place, or mapped where its byte order is foreign."""
    what = f"argument '{name}'"
    path = path.absolute()
    if path.suffix == ".npz":
        raise InvalidArgumentError(
            f"{what}: {path} is an archive of several arrays: pass one of them, such as "
            "np.load(path)['name'], or save it by itself with np.save"
        )
    if path.is_dir():
        raise InvalidArgumentError(
            f"{what}: {path} is no regular file but a directory: name a file in it"
        )
    if path.suffix != ".npy":
        raise InvalidArgumentError(
            f"{what}: {path} does not end in .npy (text is taken for the path of a file); describe "
            "a file without a header with gpugoblin.RawFile(path, shape, dtype)"
        )
    size = _size(what, path)
    try:
        with path.open("rb") as file:
            shape, fortran, dtype = read_npy_header(f"{what}: {path}", file)
            offset = file.tell()
    except OSError as error:
        raise unusable(what, path, error) from error
    number = _dtypes.number_of(dtype, what)
    item = _dtypes.itemsize(number)
    # As an array could have it: True counts as a number, and a length of 0 hides any other.
    if (
        len(shape) > _MOST_DIMENSIONS
        or any(type(n) is not int or n < 0 for n in shape)
        or math.prod(max(n, 1) for n in shape) * item > _MOST_BYTES
    ):
        raise InvalidArgumentError(
            f"{what}: {path}: not a .npy file: its shape is {_check.shown(shape)}"
        )
    needed = offset + math.prod(shape) * item
    if size < needed:
        raise InvalidArgumentError(
            f"{what}: {path} is cut short: its header promises {_check.shown(needed)} bytes, "
            f"it has {size}"
        )
    if not dtype.isnative or offset % item != 0:
        return np.load(path, mmap_mode="r")  # type: ignore[no-any-return]
    strides = column_major(shape, item) if fortran else row_major(shape, item)
    return FileView(path, number, shape, strides, offset)


def read_npy_header(name: str, file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether in Fortran's order, dtype; the file stands at its data afterwards."""
    try:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            return np.lib.format.read_array_header_1_0(file)
        if version == (2, 0):
            return np.lib.format.read_array_header_2_0(file)
    except OSError:
        raise
    except Exception as error:
        # Of NumPy's, and those of Python's tokenizer and parser, which it lets through.
        raise InvalidArgumentError(f"{name}: not a .npy file: {error}") from error
    raise InvalidArgumentError(
        f"{name}: .npy version {version} holds named fields; save plain numbers"
    )


def file_of(array: npt.NDArray[Any]) -> FileView | None:
    """Where in a file a view of an np.memmap lies; None for memory of another kind.

    None, too, for private copies (mode "c"), for files that were replaced since they were mapped,
    and for elements that are not aligned as the lab node needs them.
    """
    mapped: Any = array
    while isinstance(mapped, np.ndarray) and not (
        isinstance(mapped, np.memmap) and getattr(mapped, "_mmap", None) is not None
    ):
        mapped = mapped.base
    if not isinstance(mapped, np.memmap) or mapped.mode == "c" or mapped.filename is None:
        return None
    if array.size == 0 or not array.dtype.isnative:
        return None
    number = _dtypes.number_of(array.dtype, "the memory map")
    item = _dtypes.itemsize(number)
    data = np.frombuffer(mapped._mmap, np.uint8)  # type: ignore[attr-defined]
    address = array.__array_interface__["data"][0]
    within = address - data.__array_interface__["data"][0]
    start = mapped.offset - mapped.offset % mmap.ALLOCATIONGRANULARITY
    view = FileView(Path(mapped.filename), number, array.shape, array.strides, start + within)
    low, high = view.extent()
    if low < start or high > start + data.size:
        return None
    if view.offset % item != 0 or any(stride % item != 0 for stride in view.strides):
        return None
    return view if _is_mapped_from(address, view.path) else None


def _is_mapped_from(address: int, path: Path) -> bool:
    """Whether the memory at an address belongs to the file that has this path now."""
    try:
        inode = path.stat().st_ino
        with Path("/proc/self/maps").open() as maps:
            for line in maps:
                span, _, _, _, number, *_ = line.split(maxsplit=5)
                low, high = (int(end, 16) for end in span.split("-"))
                if low <= address < high:
                    return int(number) == inode
    except OSError:
        return False
    return False
