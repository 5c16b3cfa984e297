# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Arrays of other libraries through DLPack (https://dmlc.github.io/dlpack), without a copy."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from gpugoblin import _dtypes
from gpugoblin._errors import DTypeError

_ON_THE_CPU = (1, 3, 11)  # kDLCPU, kDLCUDAHost, kDLROCMHost
_DEVICES = {
    2: "cuda",
    4: "opencl",
    7: "vulkan",
    8: "metal",
    9: "vpi",
    10: "rocm",
    12: "ext_dev",
    13: "cuda_managed",
    14: "oneapi",
    15: "webgpu",
    16: "hexagon",
    17: "maia",
}
_UINT, _BFLOAT = 1, 4
_NAME = b"dltensor"


class _Tensor(ctypes.Structure):
    """The beginning of DLManagedTensor, up to the element type."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    )


class _Again:
    """A producer that hands out a capsule which somebody else made."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def speaks(value: Any) -> bool:
    """Whether a value can be asked for its memory."""
    return hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__")


def take(what: str, value: Any) -> tuple[npt.NDArray[Any], int | None]:
    """A view of the producer's memory, and its wire dtype where NumPy has none (bf16).

    Raises
    ------
    DTypeError
        For memory of another device than the CPU, and for what NumPy cannot view.
    """
    try:
        device, index = (int(part) for part in value.__dlpack_device__())
    except (TypeError, ValueError) as error:
        raise DTypeError(f"{what} does not say on which device it lies: {error}") from error
    if device not in _ON_THE_CPU:
        name = _DEVICES.get(device, f"device type {device}")
        raise DTypeError(
            f"{what} lies on another device than the CPU ({name}:{index}): copy it to the CPU first"
        )
    try:
        return np.from_dlpack(value), None
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        bits = _bfloat16_bits(value)
        if bits is not None:
            return bits, _dtypes.BFLOAT16
        raise DTypeError(
            f"{what} cannot be taken by DLPack: {error}; pass it as a NumPy array"
        ) from error


def _bfloat16_bits(value: Any) -> npt.NDArray[Any] | None:
    """The 16 bits of each bf16, which NumPy refuses to view under their own name."""
    try:
        capsule = value.__dlpack__()
    except Exception:
        return None  # the first error says why
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    try:
        tensor = _Tensor.from_address(get_pointer(capsule, _NAME))
    except ValueError:
        return None
    if (tensor.code, tensor.bits, tensor.lanes) != (_BFLOAT, 16, 1):
        return None
    # The structure was made for us alone: its owner does not look at the type again.
    tensor.code = _UINT
    return np.from_dlpack(_Again(capsule))
