# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Memory that a lab node takes for a product of large files."""

from __future__ import annotations

import sys
from pathlib import Path

from benchlib import Context, Record

NAME = "lab-memory"
DOC = """Peak resident memory of a lab node during a product of two memory-mapped .npy files.
f32, n = 16384: two inputs and a result of 1 GiB each, in files; two one-thread hosts of 256 MiB.
"Resident" is VmRSS, page cache that is mapped included: "with its runners" is the highest sum, at
one time, over the lab node and the processes of planner and check, sampled every 10 ms; "alone" is
the daemon's own VmHWM. "Private" is that sum without pages of files (RssAnon)."""
GOAL = "at most 512 MiB with its runners"

HERE = Path(__file__).resolve().parent


def run(ctx: Context) -> list[Record]:
    """One product."""
    n, memory = (2048, 128) if ctx.quick else (16384, 256)
    found = ctx.run_program(
        Path(sys.executable), str(HERE / "_memory.py"), str(n), str(memory), threads=1
    )
    figures = {
        "with its runners, resident": found["together"]["VmRSS"],
        "with its runners, private": found["together"]["RssAnon"],
        "alone, resident": found["lab"]["VmHWM"],
    }
    return [
        ctx.record(
            f"f32, n = {n}, {case}", value / (1 << 20), "MiB", higher_is_better=False, threads=2
        )
        for case, value in figures.items()
    ]
