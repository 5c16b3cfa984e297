# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""What the jail of a runner costs."""

from __future__ import annotations

from benchlib import Context, Record

NAME = "jail-start"
DOC = """A runner from its start until its plugin is loaded: in a jail, and as the peer without.
The bare runner is the same program with core/jail left out, built for this benchmark only. Both are
started in turns by one process; medians. "Per task" is the time of one task of the kind tiny-tasks
in batches of 256, the best batch of 40, medians over the runners: what the filter of system calls
costs later. "Amortised" is the jail's part of the start, spread over the 10,000 tasks that a runner
computes in a job of that kind."""
GOAL = "at most 15 ms more to start"

TASKS = 10_000


def run(ctx: Context) -> list[Record]:
    """Measures in turns."""
    found = ctx.run_program(
        "goblin-bench-jail",
        str(ctx.build / "bin" / "goblin-runner"),
        str(ctx.build / "bin" / "goblin-bench-bare-runner"),
        str(ctx.build / "lib" / "libgoblin_backend_cpu.so"),
        str(ctx.build / "tests" / "plugins" / "tiny-tasks.so"),
        "5" if ctx.quick else "101",
        threads=1,
    )
    jailed, bare = found["jailed"], found["bare"]

    def record(case: str, value: float, unit: str, **peers: float) -> Record:
        return ctx.record(case, value, unit, higher_is_better=False, threads=1, peers=peers)

    records = [
        record("start", jailed["start_ms"], "ms", bare=bare["start_ms"]),
        record("end", jailed["end_ms"], "ms", bare=bare["end_ms"]),
        record("per task", jailed["task_us"], "µs", bare=bare["task_us"]),
        record(
            f"start, amortised over {TASKS:,} tasks",
            max(0.0, 1000 * (jailed["start_ms"] - bare["start_ms"])) / TASKS,
            "µs",
        ),
    ]
    if found["groups"]:
        grouped = found["grouped"]
        records.append(
            record("start, with a control group", grouped["start_ms"], "ms", bare=bare["start_ms"])
        )
    return records
