# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Arguments of a job: whatever holds numbers becomes bytes in memory or a window on a file."""

from __future__ import annotations

import math
import mmap
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpugoblin import _check, _core, _dlpack, _dtypes, _files
from gpugoblin._errors import DTypeError, InvalidArgumentError

# Written in pieces, so that Ctrl-C is noticed between them.
_PIECE = 64 << 20


@dataclass(frozen=True)
class Operand:
    """An array argument, ready to be sent.

    Either `file` says where it lies, or `source` holds its bytes: an array whose row-major elements
    are what is sent, seen through `strides`.
    """

    name: str
    dtype: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    source: npt.NDArray[Any] | None = None
    file: _files.FileView | None = None

    @property
    def copied_bytes(self) -> int:
        """Bytes that have to be copied to the lab node."""
        return 0 if self.source is None else self.source.size * _dtypes.itemsize(self.dtype)

    def write_to(self, fd: int) -> None:
        """Copies the source into the file behind a descriptor."""
        assert self.source is not None
        source = self.source
        if source.size == 0:
            return
        native = source.dtype.newbyteorder("=")
        if source.flags.c_contiguous and source.dtype == native:
            data = source.reshape(-1).view(np.uint8).data
            done = 0
            while done < len(data):
                done += os.pwrite(fd, data[done : done + _PIECE], done)
            return
        with mmap.mmap(fd, self.copied_bytes) as shared:
            target = np.ndarray(source.shape, native, shared)
            np.copyto(target, source)
            del target

    def contiguous(self) -> npt.NDArray[Any]:
        """Its elements as one row-major array, for a lab node on another machine."""
        if self.file is not None:
            return np.ascontiguousarray(self.file.array())
        assert self.source is not None
        native = self.source.astype(self.source.dtype.newbyteorder("="), copy=False)
        source = np.ascontiguousarray(native)
        seen = np.ndarray(self.shape, source.dtype, source.reshape(-1), 0, self.strides)
        return np.ascontiguousarray(seen)


def operand(name: str, value: Any) -> Operand:
    """Makes an argument ready.

    Parameters
    ----------
    name : str
        As the kind calls it; for messages.
    value : array_like
        NumPy array, memory map, path of a .npy file, RawFile, torch tensor, anything with
        ``__dlpack__`` on the CPU or ``__array__``, or nested lists of numbers.

    Raises
    ------
    DTypeError
        For elements that are no numbers the network knows, or that lie on another device.
    InvalidArgumentError, NotFoundError
        For files that are not what they should be.
    """
    if isinstance(value, _files.RawFile):
        return _of_file(name, _files.raw_view(f"argument '{name}'", value))
    if isinstance(value, (str, os.PathLike)):
        view = _files.npy_view(name, _check.path(f"argument '{name}'", value))
        return _of_file(name, view) if isinstance(view, _files.FileView) else _of_array(name, view)
    array, dtype = as_numpy(name, value)
    return _of_array(name, array, dtype)


def is_number(value: Any) -> bool:
    """Whether a value is a parameter rather than an array."""
    return isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating))


def parameter(name: str, value: Any) -> int | float:
    """A number as the wire has it: a 64-bit integer or a double."""
    if isinstance(value, (float, np.floating)):
        return float(value)
    number = int(value)
    if not -(2**63) <= number < 2**63:
        raise InvalidArgumentError(
            f"argument '{name}' is {_check.shown(number)}, which does not fit a 64-bit integer: "
            "pass a smaller one, or a float"
        )
    return number


def as_numpy(name: str, value: Any) -> tuple[npt.NDArray[Any], int | None]:
    """A view of the value's memory where there is one, and its wire dtype where NumPy has none."""
    what = f"argument '{name}'"
    if isinstance(value, (bytes, bytearray)):
        raise DTypeError(
            f"{what} is {type(value).__name__}: pass a path as text, os.fsdecode(path), and data "
            "as numbers, for instance np.frombuffer(data, np.uint8)"
        )
    if isinstance(value, np.ma.MaskedArray):
        raise DTypeError(f"{what} is masked: fill it first, for instance a.filled(0)")
    if isinstance(value, np.ndarray):
        return np.asarray(value) if not isinstance(value, np.memmap) else value, None
    if type(value).__module__.split(".")[0] == "torch" and hasattr(value, "is_sparse"):
        return _torch(what, value)
    if _dlpack.speaks(value):
        return _dlpack.take(what, value)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError, OverflowError) as error:
        raise DTypeError(f"{what} is no array of numbers: {error}") from error
    if array.dtype.kind == "O" and not hasattr(value, "__array__"):
        why = (
            ": it holds something else than numbers of at most 64 bits"
            if isinstance(value, (list, tuple))
            else ""
        )
        raise DTypeError(f"{what} is {type(value).__name__}, which is no array of numbers{why}")
    return array, None


def _torch(what: str, tensor: Any) -> tuple[npt.NDArray[Any], int | None]:
    if tensor.device.type != "cpu":
        raise DTypeError(f"{what} lies on {tensor.device}: pass it as tensor.cpu()")
    if tensor.requires_grad:
        raise DTypeError(f"{what} requires a gradient, which would be lost: pass tensor.detach()")
    if tensor.is_sparse or getattr(tensor, "is_quantized", False):
        raise DTypeError(f"{what} is sparse or quantized: pass it as tensor.to_dense()")
    tensor = tensor.resolve_conj().resolve_neg()
    if str(tensor.dtype) == "torch.bfloat16":
        return tensor.view(getattr(_module(tensor), "int16")).numpy(), _dtypes.BFLOAT16  # noqa: B009
    try:
        return tensor.numpy(), None
    except TypeError as error:
        raise DTypeError(f"{what} has dtype {tensor.dtype}: {error}") from error


def _module(tensor: Any) -> Any:
    import sys

    return sys.modules["torch"]


def _of_file(name: str, view: _files.FileView) -> Operand:
    check_shape(f"argument '{name}'", view.shape, view.dtype)
    return Operand(name, view.dtype, view.shape, view.strides, file=view)


def _of_array(name: str, array: npt.NDArray[Any], dtype: int | None = None) -> Operand:
    number = _dtypes.number_of(array.dtype, f"argument '{name}'") if dtype is None else dtype
    check_shape(f"argument '{name}'", array.shape, number)
    if dtype is None:
        file = _files.file_of(array)
        if file is not None:
            return _of_file(name, file)
    source, strides = dense(array)
    return Operand(name, number, array.shape, strides, source=source)


def check_shape(what: str, shape: tuple[int, ...], dtype: int) -> None:
    """Whether a shape is one that the network computes with.

    Raises
    ------
    InvalidArgumentError
        For too many dimensions, or more bytes than can be counted.
    """
    most = _core.BOUNDS["rank"]
    if len(shape) > most:
        raise InvalidArgumentError(
            f"{what} has {len(shape)} dimensions, but may have {most} at most: join some of them, "
            "for instance a.reshape(…)"
        )
    if math.prod(max(n, 1) for n in shape) * _dtypes.itemsize(dtype) > _files.LARGEST_BYTES:
        raise InvalidArgumentError(
            f"{what} has shape {_check.shown(shape)} of {_dtypes.NAMES[dtype]}, which is more than "
            "2^62 bytes: pass a smaller one"
        )


def dense(array: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], tuple[int, ...]]:
    """The fewest bytes that show an array.

    Returns
    -------
    source : ndarray
        A view of `array` that, copied in row-major order, holds each element once: repeated
        (stride 0) axes are left out, the others stand in the order that memory has them.
    strides : tuple of int
        Bytes, through which the copy looks like `array`.
    """
    item = array.dtype.itemsize
    if array.size == 0:
        return array.reshape(-1), _files.row_major(array.shape, item)
    once = array[tuple(slice(0, 1 if s == 0 else None) for s in array.strides)]
    axes = sorted(range(array.ndim), key=lambda d: (once.shape[d] != 1, -abs(once.strides[d])))
    source = once.transpose(axes)
    packed = _files.row_major(source.shape, item)
    strides = [0] * array.ndim
    for place, axis in enumerate(axes):
        strides[axis] = packed[place] if once.shape[axis] == array.shape[axis] else 0
    return source, tuple(strides)
