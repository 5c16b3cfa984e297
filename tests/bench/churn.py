# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""A job on hosts that vanish, are slow, or lie."""

from __future__ import annotations

import sys
from pathlib import Path

from benchlib import Context, Record

NAME = "churn"
DOC = """Time of a job on unreliable hosts, over the least that any schedule could need.
200 hosts of goblin-crowd (real lab node and protocol, no runners): 20 vanish, at a time drawn from
the whole run, half of them without closing their connection; 10 are ten times slower; 2 lie in
every result. 8,000 tasks of the kind tiny-tasks, which take 0.25 to 0.75 s each; the lab node is
told nothing of all this. The least time is a bound that no schedule beats, whatever it knows: until
then the honest hosts that are still there have time for all tasks, cut as one likes. Seeds 1 to 3,
the worst of them counts; a single wrong result fails the benchmark."""
GOAL = "at most 1.15, and no wrong result"

HERE = Path(__file__).resolve().parent


def run(ctx: Context) -> list[Record]:
    """A run for each seed."""
    hosts, tasks, seeds = (30, 300, (1,)) if ctx.quick else (200, 8_000, (1, 2, 3))
    plugin = ctx.build / "tests" / "plugins" / "tiny-tasks.so"
    crowd = ctx.build / "bin" / "goblin-crowd"
    worst = 0.0
    for seed in seeds:
        words = (str(crowd), str(plugin), "churn", str(hosts), str(tasks), str(seed))
        found = ctx.run_program(Path(sys.executable), str(HERE / "_crowd.py"), *words, threads=1)
        if found["wrong"] or found["liars_caught"] != found["liars"]:
            raise RuntimeError(f"seed {seed}: wrong results or liars not caught: {found}")
        worst = max(worst, found["ratio"])
    return [
        ctx.record(
            f"{hosts} hosts, {tasks} tasks", worst, "times", higher_is_better=False, threads=2
        )
    ]
