# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""The canonical product, without the network: the scalar reference backend through its C table, and
a dot product by hand in exact rationals."""

from __future__ import annotations

import ctypes
from fractions import Fraction
from typing import Any

import e2e
import numpy as np
import numpy.typing as npt

from gpugoblin import _dtypes

BFLOAT16 = _dtypes.BFLOAT16
_RANK = 16
_BLOCK = 256
_REFERENCE = e2e.BUILD / "lib/libgoblin_backend_reference.so"


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_uint32),
        ("rank", ctypes.c_uint32),
        ("shape", ctypes.c_int64 * _RANK),
        ("strides", ctypes.c_int64 * _RANK),
    )


class _Text(ctypes.Structure):
    _fields_ = (("data", ctypes.c_char_p), ("capacity", ctypes.c_uint64))


class _Operands(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_uint64),
        ("inputs", ctypes.POINTER(_Tensor)),
        ("input_count", ctypes.c_uint64),
        ("outputs", ctypes.POINTER(_Tensor)),
        ("output_count", ctypes.c_uint64),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint64),
    )


class _Exec(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_uint64),
        ("threads", ctypes.c_uint32),
        ("device", ctypes.c_uint32),
        ("numerics", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("scratch", ctypes.c_void_p),
        ("scratch_size", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("cancelled", ctypes.c_void_p),
    )


_Scratch = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.POINTER(_Operands),
    ctypes.POINTER(_Exec),
    ctypes.POINTER(ctypes.c_uint64),
    ctypes.POINTER(_Text),
)
_Run = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.POINTER(_Operands),
    ctypes.POINTER(_Exec),
    ctypes.POINTER(_Text),
)


class _Operator(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_uint64),
        ("name", ctypes.c_char_p),
        ("version", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("check", ctypes.c_void_p),
        ("scratch_bytes", _Scratch),
        ("run", _Run),
    )


_Find = ctypes.CFUNCTYPE(
    ctypes.POINTER(_Operator), ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32
)


class _Backend(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_uint64),
        ("abi_major", ctypes.c_uint32),
        ("abi_minor", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
        ("device_count", ctypes.c_void_p),
        ("describe_device", ctypes.c_void_p),
        ("operator_count", ctypes.c_void_p),
        ("operator_at", ctypes.c_void_p),
        ("find_operator", _Find),
    )


def _tensor(array: npt.NDArray[Any], number: int | None) -> _Tensor:
    known = number if number is not None else _dtypes.number_of(array.dtype, "an operand")
    tensor = _Tensor(array.ctypes.data, known, array.ndim)
    for d in range(array.ndim):
        tensor.shape[d], tensor.strides[d] = array.shape[d], array.strides[d]
    return tensor


def matmul(
    a: npt.NDArray[Any], b: npt.NDArray[Any], dtype: np.dtype[Any], number: int | None = None
) -> npt.NDArray[Any]:
    """Of two matrices, by backends/reference; `number` says what the bits of all three mean."""
    library = ctypes.CDLL(str(_REFERENCE))
    library.goblin_backend_entry_v1.restype = ctypes.POINTER(_Backend)
    table = library.goblin_backend_entry_v1()
    operator = table.contents.find_operator(ctypes.addressof(table.contents), b"matmul", 1)
    assert operator
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    c = np.empty((a.shape[0], b.shape[1]), dtype)
    inputs = (_Tensor * 2)(_tensor(a, number), _tensor(b, number))
    outputs = (_Tensor * 1)(_tensor(c, number))
    operands = _Operands(ctypes.sizeof(_Operands), inputs, 2, outputs, 1, None, 0)
    run = _Exec(ctypes.sizeof(_Exec), 1, 0, 0, 0, None, 0, None, None)
    words = ctypes.create_string_buffer(512)
    text = _Text(ctypes.cast(words, ctypes.c_char_p), 512)
    self = ctypes.addressof(operator.contents)
    size = ctypes.c_uint64()
    status = operator.contents.scratch_bytes(self, operands, run, size, text)
    assert status == 0, words.value
    scratch = np.empty(size.value + 64, np.uint8)
    run.scratch = (scratch.ctypes.data + 63) // 64 * 64
    run.scratch_size = size.value
    status = operator.contents.run(self, operands, run, text)
    assert status == 0, words.value
    return c


def _round32(exact: Fraction) -> np.float32:
    """The binary32 nearest to an exact number, ties to even; normal numbers only."""
    if exact == 0:
        return np.float32(0)
    guess = np.float32(float(exact))
    near = [
        np.nextafter(guess, np.float32(-np.inf)),
        guess,
        np.nextafter(guess, np.float32(np.inf)),
    ]
    return np.float32(
        min(near, key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view(np.uint32)) & 1))
    )


def by_hand(row: npt.NDArray[Any], column: npt.NDArray[Any]) -> np.float32:
    """A dot product of f32 as docs/matmul.md writes it: finite numbers."""
    total = np.float32(0)
    for start in range(0, len(row), _BLOCK):
        block = np.float32(0)
        stop = start + _BLOCK
        for x, y in zip(row[start:stop], column[start:stop], strict=True):
            block = _round32(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(block)))
        total = np.float32(total + block)
    return total
