# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Arrays of other libraries through DLPack: NumPy's own, and producers made for the test."""

from __future__ import annotations

import ctypes
import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from test_sdk_arrays import sent

import gpugoblin as gg
from gpugoblin import _arrays, _dlpack, _dtypes


class Producer:
    """Something with DLPack and nothing else, over a NumPy array."""

    def __init__(self, array: npt.NDArray[Any], device: Any = (1, 0), code: Any = None) -> None:
        self.array, self.device, self.code = array, device, code

    def __dlpack_device__(self) -> Any:
        return self.device

    def __dlpack__(self, **options: Any) -> Any:
        if self.code is None:
            return self.array.__dlpack__(**options)
        capsule = self.array.__dlpack__()
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        tensor = _dlpack._Tensor.from_address(get(capsule, b"dltensor"))
        tensor.code, tensor.bits, tensor.lanes = self.code
        return capsule


BASE = np.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize(
    "array", [BASE, BASE.T, BASE[:, ::-1, ::2], BASE[:0], BASE[1, 1, 1], BASE[:, :1]]
)
def test_strides_are_kept(tmp_path: Path, array: npt.NDArray[Any]) -> None:
    op = _arrays.operand("a", Producer(np.asarray(array)))
    assert op.shape == np.shape(array)
    np.testing.assert_array_equal(sent(tmp_path, op), array)


def test_memory_is_viewed_not_copied() -> None:
    op = _arrays.operand("a", Producer(BASE))
    assert op.source is not None
    assert np.shares_memory(op.source, BASE)


@pytest.mark.parametrize("name", [n for n in _dtypes.NUMBERS if n != "bf16"])
def test_every_dtype(tmp_path: Path, name: str) -> None:
    array = np.ones((2, 3), _dtypes.numpy_dtype(_dtypes.NUMBERS[name]))
    op = _arrays.operand("a", Producer(array))
    assert op.dtype == _dtypes.NUMBERS[name]
    np.testing.assert_array_equal(sent(tmp_path, op), array)


def test_read_only_memory(tmp_path: Path) -> None:
    array = np.arange(6.0)
    array.flags.writeable = False
    np.testing.assert_array_equal(sent(tmp_path, _arrays.operand("a", Producer(array))), array)


def test_bfloat16_by_its_type_code(tmp_path: Path) -> None:
    bits = np.arange(6, dtype=np.uint16).reshape(2, 3)
    op = _arrays.operand("a", Producer(bits.T, code=(4, 16, 1)))
    assert (op.dtype, op.shape) == (_dtypes.BFLOAT16, (3, 2))
    np.testing.assert_array_equal(sent(tmp_path, op).view(np.uint16), bits.T)


def test_bfloat16_keeps_its_owner_alive_and_lets_it_go(tmp_path: Path) -> None:
    class Owner(np.ndarray[Any, Any]):
        pass

    bits = np.arange(6, dtype=np.uint16).view(Owner)
    gone = weakref.ref(bits)
    op = _arrays.operand("a", Producer(bits, code=(4, 16, 1)))
    del bits
    gc.collect()
    assert gone() is not None
    np.testing.assert_array_equal(sent(tmp_path, op).view(np.uint16), np.arange(6))
    del op
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("device", "named"),
    [((2, 1), "cuda:1"), ((10, 0), "rocm:0"), ((8, 0), "metal:0"), ((99, 3), "device type 99:3")],
)
def test_other_devices_are_named(device: tuple[int, int], named: str) -> None:
    with pytest.raises(gg.DTypeError, match=rf"'a' lies on another device .*\({named}\).*copy it"):
        _arrays.operand("a", Producer(BASE, device))


@pytest.mark.parametrize("device", [(3, 0), (11, 0)])  # pinned by CUDA and by ROCm
def test_pinned_memory_is_on_the_cpu(device: tuple[int, int], tmp_path: Path) -> None:
    np.testing.assert_array_equal(
        sent(tmp_path, _arrays.operand("a", Producer(BASE, device))), BASE
    )


@pytest.mark.parametrize(
    ("producer", "says"),
    [
        (Producer(BASE, device=None), "'a' does not say on which device"),
        (Producer(BASE, device=(1,)), "'a' does not say on which device"),
        (Producer(BASE, device=("cpu", 0)), "'a' does not say on which device"),
        (Producer(BASE, code=(2, 128, 1)), "'a' cannot be taken by DLPack: .*NumPy array"),
        (Producer(BASE.view(np.uint8), code=(7, 8, 1)), "'a' cannot be taken by DLPack"),
        (Producer(BASE, code=(2, 64, 4)), "'a' cannot be taken by DLPack"),
    ],
)
def test_what_cannot_be_taken_says_so(producer: Producer, says: str) -> None:
    with pytest.raises(gg.DTypeError, match=says):
        _arrays.operand("a", producer)


def test_a_producer_that_refuses() -> None:
    class Refuses(Producer):
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("it is lent out")

    class Lies(Producer):
        def __dlpack__(self, **options: Any) -> Any:
            return "no capsule"

    with pytest.raises(gg.DTypeError, match="'a' cannot be taken by DLPack: it is lent out"):
        _arrays.operand("a", Refuses(BASE))
    with pytest.raises(gg.DTypeError, match="'a' cannot be taken by DLPack"):
        _arrays.operand("a", Lies(BASE))
