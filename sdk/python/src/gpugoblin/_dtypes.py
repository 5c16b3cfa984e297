# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Element types: NumPy's, and their numbers on the wire (sdk/include/goblin/abi/types.h)."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import numpy.typing as npt

from gpugoblin._errors import DTypeError, UnsupportedError

BFLOAT16 = 11
NAMES = {
    1: "bool",
    2: "i8",
    3: "i16",
    4: "i32",
    5: "i64",
    6: "u8",
    7: "u16",
    8: "u32",
    9: "u64",
    10: "f16",
    BFLOAT16: "bf16",
    12: "f32",
    13: "f64",
    14: "c64",
    15: "c128",
}
NUMBERS = {name: number for number, name in NAMES.items()}
WIDE = frozenset({13, 15})  # computed with f64
_NUMPY: dict[int, np.dtype[Any]] = {
    number: np.dtype(name)
    for number, name in {
        1: "bool",
        2: "int8",
        3: "int16",
        4: "int32",
        5: "int64",
        6: "uint8",
        7: "uint16",
        8: "uint32",
        9: "uint64",
        10: "float16",
        12: "float32",
        13: "float64",
        14: "complex64",
        15: "complex128",
    }.items()
}
_WIRE = {dtype: number for number, dtype in _NUMPY.items()}
_REMEDIES = {
    "O": "it holds Python objects; convert it to numbers, for instance a.astype(np.float64)",
    "U": "text has to become numbers first, for instance tokens",
    "S": "bytes have to become numbers first, for instance np.frombuffer(data, np.uint8)",
    "M": "convert it, for instance a.astype('datetime64[s]').astype(np.int64)",
    "m": "convert it, for instance a.astype('timedelta64[s]').astype(np.int64)",
    "V": "pass its fields one by one, for instance a['x'].copy()",
    "f": "convert it, for instance a.astype(np.float64)",
    "c": "convert it, for instance a.astype(np.complex128)",
}


def bfloat16() -> np.dtype[Any] | None:
    """The dtype of the package ml_dtypes, if that is installed."""
    try:
        module = importlib.import_module("ml_dtypes")
    except ImportError:
        return None
    dtype: np.dtype[Any] = np.dtype(module.bfloat16)
    return dtype


def number_of(dtype: np.dtype[Any], what: str) -> int:
    """The wire's number of a dtype, in either byte order.

    Raises
    ------
    DTypeError
        For a dtype that the network does not compute with; names `what` and a remedy.
    """
    if dtype.name == "bfloat16":
        return BFLOAT16
    number = _WIRE.get(dtype.newbyteorder("="))
    if number is None:
        remedy = _REMEDIES.get(dtype.kind, "convert it first")
        raise DTypeError(
            f"{what} has dtype {dtype}, which the network does not compute with: {remedy}"
        )
    return number


def numpy_dtype(number: int) -> np.dtype[Any]:
    """NumPy's dtype of a wire's number.

    Raises
    ------
    UnsupportedError
        For bf16 without the package ml_dtypes.
    """
    if number != BFLOAT16:
        return _NUMPY[number]
    dtype = bfloat16()
    if dtype is None:
        raise UnsupportedError(
            "NumPy has no bfloat16 of its own: pip install ml_dtypes, then ask for the result again"
        )
    return dtype


def storage_dtype(number: int) -> np.dtype[Any]:
    """As numpy_dtype, but the 16 bits of a bf16 where there is no such dtype."""
    return np.dtype(np.uint16) if number == BFLOAT16 and bfloat16() is None else numpy_dtype(number)


def parse(dtype: npt.DTypeLike | str, what: str) -> int:
    """The wire's number of what a user calls a dtype: NumPy's words, "bf16" or "bfloat16".

    Raises
    ------
    DTypeError
        For what is no dtype of NumPy, one that the network does not compute with, and one of
        another byte order than this machine's: nothing but the elements goes to the lab node.
    """
    if isinstance(dtype, str) and dtype in ("bf16", "bfloat16"):
        return BFLOAT16
    ours = NUMBERS.get(dtype) if isinstance(dtype, str) else None
    try:
        named = np.dtype(dtype)
        if not named.isnative:
            raise DTypeError(
                f"{what} has dtype {named.str!r}, which is of the other byte order: pass "
                f"np.memmap(path, {named.str!r}, 'r', offset, shape) instead, which is converted"
            )
        if ours is None or named in _WIRE:
            return number_of(named, what)
    except TypeError as error:
        if isinstance(error, DTypeError):
            raise
        if ours is None:
            raise DTypeError(f"{what}: {dtype!r} is no dtype: write it as NumPy does") from error
    assert ours is not None
    raise DTypeError(
        f"{what}: {dtype!r} is not what NumPy calls this dtype: write {_NUMPY[ours].name!r}"
    )


def itemsize(number: int) -> int:
    """Bytes of one element."""
    return 2 if number == BFLOAT16 else _NUMPY[number].itemsize
