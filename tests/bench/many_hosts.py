# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""What a task costs a lab node as its hosts become many."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from benchlib import Context, Record
from benchlib.context import interleave

NAME = "many-hosts"
DOC = """Time per task of one lab node and one coordinator with 10, 50 and 200 hosts.
The hosts are goblin-crowd: one process that holds a key and two connections for each, speaks the
real protocol and answers tasks of the kind tiny-tasks at once, so the lab node is what limits.
Every task is planned, leased, checked, merged and journalled. "Processor time" is that of the lab
node's and the coordinator's process for one task, "time" is by the clock, with the crowd and the
runners of planner and check on the same two cores. In turns, the best of each."""
GOAL = "at 200 hosts at most 1.10 times what it is at 10"

HERE = Path(__file__).resolve().parent


def run(ctx: Context) -> list[Record]:
    """In turns."""
    sizes, tasks, rounds = ((5, 20), 5_000, 1) if ctx.quick else ((10, 50, 200), 200_000, 3)
    plugin = ctx.build / "tests" / "plugins" / "tiny-tasks.so"
    crowd = ctx.build / "bin" / "goblin-crowd"

    found: dict[str, list[dict[str, float]]] = {str(hosts): [] for hosts in sizes}

    def measure(hosts: int) -> float:
        words = (str(crowd), str(plugin), "many-hosts", str(hosts), str(tasks))
        answer = ctx.run_program(Path(sys.executable), str(HERE / "_crowd.py"), *words, threads=1)
        found[str(hosts)].append(answer)
        return float(answer["wall_us"])

    interleave(
        {str(hosts): partial(measure, hosts) for hosts in sizes}, rounds, higher_is_better=False
    )
    records = []
    for key, what in (("processor_us", "processor time"), ("wall_us", "time")):
        best = {hosts: min(answer[key] for answer in found[str(hosts)]) for hosts in sizes}
        records += [
            ctx.record(
                f"{what}, {hosts} hosts", value, "µs per task", higher_is_better=False, threads=2
            )
            for hosts, value in best.items()
        ]
        records.append(
            ctx.record(
                f"{what}, {sizes[-1]} hosts over {sizes[0]}",
                best[sizes[-1]] / best[sizes[0]],
                "times",
                higher_is_better=False,
                threads=2,
            )
        )
    return records
