# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""A progress bar by rich: tasks, speed, checks, refusals, hosts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gpugoblin._records import Progress


class Show(Protocol):
    """Takes what is new."""

    def __call__(self, progress: Progress) -> None: ...


def words(progress: Progress) -> str:
    """Everything but the bar, in one line."""
    total = str(progress.tasks) if progress.planned else f"{progress.tasks}+"
    known = progress.tasks or progress.planned
    parts = [f"{progress.accepted}/{total} tasks" if known else "not planned yet"]
    if progress.gflops >= 0.05:
        parts.append(f"{progress.gflops:.1f} GFLOP/s")
    if known:
        parts.append(f"{progress.checked} checked")
    if progress.refused:
        parts.append(f"{progress.refused} refused")
    parts.append(f"{progress.hosts} host{'' if progress.hosts == 1 else 's'}")
    return " · ".join(parts)


@contextmanager
def bar(title: str, wanted: bool) -> Iterator[Show]:
    """Shows a job while it runs; nothing where nobody would see it."""
    if not wanted:
        yield lambda progress: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        yield lambda progress: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[words]}"),
        TimeElapsedColumn(),
    )
    with RichProgress(*columns, console=console) as display:
        task = display.add_task(title, total=1.0, words="waiting")

        def show(progress: Progress) -> None:
            note = progress.note if progress.note and not progress.accepted else words(progress)
            display.update(task, completed=progress.fraction, words=note)

        yield show
