# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""What benchmarks of products share: arrays as files, a look at a result, bytes on the wire."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import gpugoblin as gg

STRIPE = 1 << 24  # elements that are drawn at once


def write_matrix(file: Path, rows: int, columns: int, seed: int) -> Path:
    """A .npy file of standard normal f32; memory stays small, whatever its size."""
    rng = np.random.default_rng(seed)
    step = max(1, STRIPE // columns)
    array = np.lib.format.open_memmap(file, "w+", np.float32, (rows, columns))
    for begin in range(0, rows, step):
        part = array[begin : begin + step]
        part[:] = rng.standard_normal(part.shape, dtype=np.float32)
    array.flush()
    return file


def expect_right(a: Path, b: Path, c: np.ndarray, rows: int = 2) -> None:
    """Recomputes some rows; RuntimeError names one that is wrong."""
    left, right = np.load(a, mmap_mode="r"), np.load(b, mmap_mode="r")
    for row in np.linspace(0, len(left) - 1, rows + 2, dtype=int)[1:-1]:
        expected = left[row].astype(np.float64) @ right
        if not np.allclose(c[row], expected, rtol=1e-3, atol=1e-2):
            raise RuntimeError(f"row {row} of the product is wrong")


def on_the_wire(lab: gg.Lab) -> dict[str, int]:
    """Bytes that the lab node's connections to its hosts have carried, headers included, before
    TLS: what hosts got, and what they sent."""
    hosts = lab.hosts()
    return {
        "sent": sum(host.bytes_sent for host in hosts),
        "received": sum(host.bytes_received for host in hosts),
    }
