# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""What checking costs."""

from __future__ import annotations

import sys
from pathlib import Path

from benchlib import Context, Record

NAME = "check-cost"
DOC = """Processor time of the lab node's checks, in percent of that of the hosts' runners.
The jobs of network-matmul: f32, two one-thread hosts, policy "algebraic". A check reads both
operands of a tile and the tile, once. Of 4096 there are 4 tiles of 2048 by 2048: 336 MB; of 8192 12
tiles of 2736 by 2048: 2.15 GB.

What it takes at 4096 (of 13.5 ms, operands mapped and touched before, by perf): C·r and B·r half,
at about 30 GB/s; A·(B·r) a third, at 30 GB/s; 256 exact entries a tile a sixth. One core streams 42
to 50 GB/s here: rows that are apart cost what is missing. In the network 16 ms were measured beside
other work on the same two cores: pages are touched for the first time, and hosts that compute share
the cache. The product takes the runners 0.6 s, so 2 % are 12 ms. The share falls with the size of
tiles; larger ones would leave each of two hosts a single task."""
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
