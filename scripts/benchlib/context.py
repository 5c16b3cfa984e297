# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""What a benchmark gets: the machine, the build, clean environments, interleaved measuring."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from benchlib.record import Record, best_ratio

# They make OpenBLAS slower where they are set, so a peer never sees them.
SLOWING_VARIABLES = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
THREAD_VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "GOTO_NUM_THREADS",
)


def cpu_name(cpuinfo: str, cores: int) -> str:
    """The processor as a person would name it; family and model, because some names say little."""
    found: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        found.setdefault(key.strip(), value.strip())
    name = found.get("model name") or found.get("CPU part") or platform.machine()
    if "cpu family" in found:
        name += f", family {found['cpu family']} model {found.get('model', '?')}"
    return f"{name}, {cores} cores"


# Of other programs: this one has not begun yet.
LOAD_BEFORE = os.getloadavg()[0]


def company(load: float, niceness: int) -> str:
    """What a reader has to know of a machine that was not idle; empty for one that was."""
    text = f", not idle: load average {load:.1f} before the run" if load >= 0.5 else ""
    return text + (f", all contenders at niceness {niceness}" if niceness else "")


def interleave(
    runs: Mapping[str, Callable[[], float]], rounds: int, *, higher_is_better: bool
) -> dict[str, float]:
    """Runs every measurement once a round, in turn, and returns each one's best.

    What disturbs the machine then disturbs all alike, and the best is the least disturbed. Each
    round begins with another one, so nobody is always first.
    """
    if rounds < 1:
        raise ValueError(f"rounds is {rounds}, expected 1 or more")
    names = list(runs)
    measured: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            measured[name].append(runs[name]())
    best = max if higher_is_better else min
    return {name: best(values) for name, values in measured.items()}


@dataclass
class Context:
    """Handed to a benchmark's `run`."""

    root: Path
    build: Path
    quick: bool = False
    name: str = ""
    date: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    @cached_property
    def cores(self) -> int:
        """Cores that this process may use."""
        return len(os.sched_getaffinity(0))

    @cached_property
    def cpu(self) -> str:
        """The processor's name, and what else it had to do."""
        name = cpu_name(Path("/proc/cpuinfo").read_text(encoding="utf-8"), self.cores)
        return name + company(LOAD_BEFORE, os.nice(0))

    @cached_property
    def commit(self) -> str:
        """What was measured: the commit, and whether the tree differs from it."""

        def git(*arguments: str) -> str:
            return subprocess.run(
                ["git", *arguments], cwd=self.root, check=True, capture_output=True, text=True
            ).stdout.strip()

        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "--short=12", "HEAD") + ("+changes" if changed else "")

    def environment(self, threads: int | None = None) -> dict[str, str]:
        """An environment for a child process, without what slows peers; `threads` limits BLAS."""
        names = {*SLOWING_VARIABLES, *THREAD_VARIABLES}
        clean = {key: value for key, value in os.environ.items() if key not in names}
        if threads is not None:
            clean |= dict.fromkeys(THREAD_VARIABLES, str(threads))
        return clean

    def run_program(self, program: Path | str, *arguments: str, threads: int | None = None) -> Any:
        """Runs a program, by its name in the build or by its path; returns the JSON it prints.

        Raises
        ------
        RuntimeError
            If it fails or prints something else; with what it said.
        """
        path = program if isinstance(program, Path) else self.build / "bin" / program
        done = subprocess.run(
            [str(path), *arguments],
            env=self.environment(threads),
            text=True,
            stdout=subprocess.PIPE,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{path.name} {' '.join(arguments)} exited {done.returncode}")
        try:
            return json.loads(done.stdout)
        except json.JSONDecodeError as error:
            raise RuntimeError(f"{path.name} printed no JSON: {done.stdout[:200]!r}") from error

    def record(
        self,
        case: str,
        value: float,
        unit: str,
        *,
        higher_is_better: bool,
        threads: int,
        peers: Mapping[str, float] | None = None,
        limit: float | None = None,
        limit_name: str | None = None,
    ) -> Record:
        """A record of this benchmark on this machine; the ratio to the best peer is worked out."""
        others = dict(peers or {})
        return Record(
            name=self.name,
            case=case,
            value=value,
            unit=unit,
            higher_is_better=higher_is_better,
            cpu=self.cpu,
            threads=threads,
            date=self.date,
            commit=self.commit,
            peers=others,
            ratio_to_best_peer=best_ratio(value, others, higher_is_better=higher_is_better),
            limit=limit,
            limit_name=limit_name,
        )
