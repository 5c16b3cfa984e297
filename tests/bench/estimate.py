# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""What an estimate says beside what then happens."""

from __future__ import annotations

import sys
from pathlib import Path

from benchlib import Context, Record

NAME = "estimate"
DOC = """`lab.matmul(..., dry_run=True)`, then the product: seconds it took over seconds told.
Local networks whose hosts reach the lab node through a relay, which gives each connection
50 Mbit/s each way and a round trip of 50 ms, and all of them together, in one case, 60 Mbit/s; and
one without it. The estimate is the first thing that the network is asked: links are measured then,
and speeds are what hosts measured of themselves. A ratio above 1 says that it took longer."""
GOAL = "within 20 % where links bound the job"

HERE = Path(__file__).resolve().parent
CASES = {
    "a host's link bounds, 2 hosts": "link",
    "the lab node's link bounds, 3 hosts": "lab",
    "hosts bound, 2 hosts": "hosts",
}


def run(ctx: Context) -> list[Record]:
    """One network for each case."""
    records = []
    for name, case in CASES.items():
        size = "small" if ctx.quick else "full"
        python = Path(sys.executable)
        answer = ctx.run_program(python, str(HERE / "_estimate.py"), case, size, threads=1)
        records.append(
            ctx.record(
                name,
                float(answer["took"]) / float(answer["told"]),
                "took over told",
                higher_is_better=False,
                threads=2,
            )
        )
    return records
