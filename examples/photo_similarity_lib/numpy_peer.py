# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""NumPy's product of the same patches, timed, and every row of a result compared with it.

A program of its own, so that NumPy's threads and environment are as NumPy would have them:
numpy_peer.py A.npy B.npy C.npy prints what it found as one JSON object. C = A * transposed B.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

# Rows at a time: enough for NumPy's full speed, few enough for a small machine.
_ROWS = 2048
_PIECE = 32
# Far above the rounding of 768 terms of unit vectors, far below any wrong similarity.
_CLOSE = 2e-5
# They hold OpenBLAS back where they are set.
_UNFAIR = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


@dataclass(frozen=True)
class Comparison:
    """What NumPy says."""

    seconds: float  #: for the whole product
    rows: int  #: compared
    wrong_rows: int  #: with an entry that is not close
    largest: float  #: difference


def compare(a: Path, b: Path, c: Path) -> Comparison:
    """Runs this file as a program."""
    environment = {k: v for k, v in os.environ.items() if k not in _UNFAIR}
    command = [sys.executable, __file__, str(a), str(b), str(c)]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return Comparison(**json.loads(done.stdout))


def _compare_here(a: str, b: str, c: str) -> Comparison:
    left, right, result = np.load(a), np.load(b).T, np.load(c, mmap_mode="r")
    buffer = np.empty((min(_ROWS, len(left)), right.shape[1]), np.float32)
    np.matmul(left[:256], right[:, :256])  # starts NumPy's threads
    seconds, wrong, largest = 0.0, 0, 0.0
    for start in range(0, len(left), _ROWS):
        rows = left[start : start + _ROWS]
        product = buffer[: len(rows)]
        begin = time.perf_counter()
        np.matmul(rows, right, out=product)
        seconds += time.perf_counter() - begin
        # In small pieces, which stay in the processor's caches.
        for first in range(0, len(rows), _PIECE):
            apart = product[first : first + _PIECE]
            np.subtract(apart, result[start + first :][: len(apart)], out=apart)
            farthest = np.abs(apart, out=apart).max(axis=1)
            wrong += int((~(farthest <= _CLOSE)).sum())  # NaN is wrong
            largest = max(largest, float(farthest.max()))
    return Comparison(seconds, len(left), wrong, largest)


if __name__ == "__main__":
    print(json.dumps(asdict(_compare_here(*sys.argv[1:]))))
