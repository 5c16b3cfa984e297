# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""What a host takes while it has nothing to do."""

from __future__ import annotations

import sys
from pathlib import Path

from benchlib import Context, Record

NAME = "idle-host"
DOC = """Resident memory of an idle `goblin host run`, shared libraries included.
Connected to a coordinator and a lab node; before any work, and after work once its runner has
ended."""
GOAL = "at most 25 MiB"

HERE = Path(__file__).resolve().parent


def run(ctx: Context) -> list[Record]:
    """Starts a network and looks."""
    found = ctx.run_program(
        Path(sys.executable), str(HERE / "_ours.py"), "idle", "1" if ctx.quick else "5", threads=1
    )
    return [
        ctx.record(case, found[key]["rss"], "MiB", higher_is_better=False, threads=1)
        for key, case in (("fresh", "before any work"), ("after_work", "after a job"))
    ]
