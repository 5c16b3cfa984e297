# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""What checking costs."""

from __future__ import annotations

import sys
from pathlib import Path

from benchlib import Context, Record

NAME = "check-cost"
DOC = """Processor time of the lab node's checks, in percent of that of the hosts' runners.
The jobs of network-matmul: f32, two one-thread hosts, policy "algebraic". A check reads both
operands of a tile and the tile, once, and is bound by memory.

Why 4096 misses the goal: 16 tiles of 1024 by 1024 are 576 MB to read, which takes 66 ms at the 8.7
GB/s that one core gets beside two busy hosts, while the product takes the runners 0.65 s (210
GFLOP/s a core, AVX-512). One tile of the whole, 192 MB, would still be 22 ms or 3.4 %, and leave
one of two hosts idle. The share falls with the size of tiles."""
GOAL = "at most 2 % at n = 4096"

HERE = Path(__file__).resolve().parent


def run(ctx: Context) -> list[Record]:
    """The least disturbed of some runs."""
    records = []
    for n in (1024,) if ctx.quick else (4096, 8192):
        shares = []
        for _ in range(1 if ctx.quick else 3):
            found = ctx.run_program(
                Path(sys.executable), str(HERE / "_ours.py"), "matmul", str(n), threads=1
            )
            shares.append(100 * found["check_seconds"] / found["runner_seconds"])
        records.append(
            ctx.record(f"f32, n = {n}", min(shares), "%", higher_is_better=False, threads=2)
        )
    return records
