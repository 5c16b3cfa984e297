# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""What checking costs."""

from __future__ import annotations

import sys
from pathlib import Path

from benchlib import Context, Record

NAME = "check-cost"
DOC = """Time that the lab node spends on checks, in percent of the time that hosts compute.
The job of network-matmul at n = 4096: f32, two one-thread hosts, policy "algebraic"."""
GOAL = "at most 2 % at n = 4096"

HERE = Path(__file__).resolve().parent


def run(ctx: Context) -> list[Record]:
    """The least disturbed of some runs."""
    n, rounds = (1024, 1) if ctx.quick else (4096, 5)
    shares = []
    for _ in range(rounds):
        found = ctx.run_program(
            Path(sys.executable), str(HERE / "_ours.py"), "matmul", str(n), threads=1
        )
        shares.append(100 * found["check_seconds"] / found["compute_seconds"])
    return [ctx.record(f"f32, n = {n}", min(shares), "%", higher_is_better=False, threads=2)]
