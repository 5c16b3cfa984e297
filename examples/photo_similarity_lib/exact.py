# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""The canonical definition of a product's elements, in Python's integers.

It shares nothing with the C++ that it judges. For f32 and k <= 4096: blocks of 256 terms, each
summed from +0 by one fused multiply-add per term with k ascending; block sums added in ascending
order; every step rounded to nearest, ties to even.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_BLOCK = 256
_CHUNK = 4096
# Every f32 is a whole multiple of 2^-149, and every product of two of 2^-298.
_UNIT = 149


def canonical_dot(a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]) -> int:
    """The 32 bits of the canonical dot product of two finite vectors.

    Parameters
    ----------
    a, b : ndarray of float32, shape (k,), k <= 4096
    """
    if a.size > _CHUNK:
        raise ValueError(f"{a.size} terms are more than one chunk of {_CHUNK}")
    products = [x * y for x, y in zip(_whole(a), _whole(b), strict=True)]
    total = 0
    for start in range(0, len(products), _BLOCK):
        block = 0
        for product in products[start : start + _BLOCK]:
            block = _rounded((block << _UNIT) + product)
        total = block if start == 0 else _rounded((total + block) << _UNIT)
    return _bits(total)


def _whole(values: npt.NDArray[np.float32]) -> list[int]:
    """Finite f32 as multiples of 2^-149."""
    wholes = []
    for bits in np.ascontiguousarray(values).view(np.uint32).tolist():
        exponent, fraction = bits >> 23 & 0xFF, bits & 0x7FFFFF
        if exponent == 0xFF:
            raise ValueError("infinity or NaN among the values")
        whole = fraction | 0x800000 if exponent else fraction
        whole <<= max(exponent - 1, 0)
        wholes.append(-whole if bits >> 31 else whole)
    return wholes


def _rounded(value: int) -> int:
    """A multiple of 2^-298 rounded to f32, as a multiple of 2^-149."""
    size = abs(value)
    # 24 bits are kept, fewer where that would be finer than the finest f32.
    shift = max(size.bit_length() - 24, _UNIT)
    kept, rest = size >> shift, size & ((1 << shift) - 1)
    half = 1 << (shift - 1)
    kept += rest > half or (rest == half and kept & 1)
    whole = kept << (shift - _UNIT)
    if whole.bit_length() > 128 + _UNIT:
        raise ValueError("the sum is too large for f32")
    return -whole if value < 0 else whole


def _bits(whole: int) -> int:
    """The encoding of a multiple of 2^-149 that is an f32; zero is +0: nothing underflows."""
    size = abs(whole)
    exponent = max(size.bit_length() - 23, 0)
    fraction = size >> max(exponent - 1, 0)
    return (int(whole < 0) << 31) | (exponent << 23) | (fraction & 0x7FFFFF)
