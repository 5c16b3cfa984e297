# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""What a task costs besides its work."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from benchlib import Context, Record
from benchlib.context import interleave

NAME = "tiny-tasks"
DOC = """Tasks that do next to nothing, through lab node and two hosts.
Ours are checked and durable: planned by the kind's planner, leased over TLS, computed in a runner,
checked in another, merged, journalled with one commit a batch. A round trip is the time from
planning one task to planning the next when only one is in flight, with all of that in between.
Dask's, Ray's and Celery's tasks return their argument, and are neither checked nor written to disk
(Celery's broker is Redis in memory)."""
GOAL = "at least 50,000 tasks per second"

HERE = Path(__file__).resolve().parent


def run(ctx: Context) -> list[Record]:
    """Measures in turns."""
    plugin = ctx.build / "tests" / "plugins" / "tiny-tasks.so"
    many, few, trips = (5_000, 500, 200) if ctx.quick else (200_000, 2_000, 300)
    rounds = 1 if ctx.quick else 3
    python = Path(sys.executable)

    def ours(what: str, count: int) -> dict[str, float]:
        answer: dict[str, float] = ctx.run_program(
            python, str(HERE / "_ours.py"), what, str(count), str(plugin), threads=1
        )
        return answer

    def peer(name: str, what: str, count: int) -> dict[str, float]:
        answer: dict[str, float] = ctx.run_program(
            python, str(HERE / "_peers.py"), name, what, str(count), threads=1
        )
        return answer

    def value(key: str, call: partial[dict[str, float]]) -> float:
        return float(call()[key])

    runs = {
        "ours": partial(ours, "tiny-tasks", many),
        "dask": partial(peer, "dask", "tiny-tasks", few),
        "ray": partial(peer, "ray", "tiny-tasks", few),
        "celery": partial(peer, "celery", "tiny-tasks", few),
    }
    rates = interleave(
        {name: partial(value, "per_second", call) for name, call in runs.items()},
        rounds,
        higher_is_better=True,
    )
    records = [
        ctx.record(
            "throughput",
            rates.pop("ours"),
            "tasks/s",
            higher_is_better=True,
            threads=2,
            peers=rates,
        )
    ]
    calls = {
        "ours": partial(ours, "round-trips", trips),
        "dask": partial(peer, "dask", "round-trips", trips),
        "ray": partial(peer, "ray", "round-trips", trips),
        "celery": partial(peer, "celery", "round-trips", trips),
    }
    answers: dict[str, list[dict[str, float]]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            answers[name].append(call())
    for percent in ("p50", "p99"):
        best = {
            name: min(answer[f"{percent}_us"] for answer in found)
            for name, found in answers.items()
        }
        records.append(
            ctx.record(
                f"round trip, {percent}",
                best.pop("ours"),
                "µs",
                higher_is_better=False,
                threads=2,
                peers=best,
            )
        )
    return records
