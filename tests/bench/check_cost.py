# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""What checking costs."""

from __future__ import annotations

import sys
from pathlib import Path

from benchlib import Context, Record

NAME = "check-cost"
DOC = """Processor time of the lab node's checks, in percent of that of the hosts' runners.
The jobs of network-matmul: f32, two one-thread hosts, policy "algebraic". A check reads both
operands of a tile and the tile, once, and is bound by memory."""
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
