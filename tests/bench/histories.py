# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Simulated histories of whole networks per minute."""

from __future__ import annotations

from benchlib import Context, Record

NAME = "histories"
DOC = """Histories of tests/sim: whole networks under a virtual clock, with the real scheduler,
validation, matchmaker and journal (SQLite on simulated disks), and faults of all of them.
Two processes, seeds from 1 on. A history lasts about two virtual minutes and has some 3,000 events;
the coordinator's, lab nodes' and hosts' own loops and connections are simulated."""
GOAL = "at least 5,000 per minute on two cores"


def run(ctx: Context) -> list[Record]:
    """One run; a history that breaks an invariant fails the benchmark."""
    count = 1_000 if ctx.quick else 20_000
    found = ctx.run_program(
        ctx.build / "tests" / "goblin-sim",
        *("--first", "1", "--histories", str(count), "--jobs", "2", "--json"),
    )
    if found["failed"]:
        raise RuntimeError("a history failed: run build/release/tests/goblin-sim --first 1")
    return [
        ctx.record(
            f"{count} histories",
            60 * found["histories"] / found["seconds"],
            "histories/min",
            higher_is_better=True,
            threads=2,
        )
    ]
