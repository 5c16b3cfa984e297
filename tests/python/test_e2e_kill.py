# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""kill -9 of any process at random points, with a liar among the hosts: the job completes, with
the same bits; nothing that was accepted is lost or computed again, nothing of the liar's accepted.

Twenty seeded runs; GOBLIN_SEED names the first, GOBLIN_KILL_RUNS says how many.
"""

from __future__ import annotations

import functools
import os
import random
import select
import shutil
import signal
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Any

import e2e
import numpy as np
import numpy.typing as npt
import pytest

import gpugoblin as gg

pytestmark = pytest.mark.timeout(120)

FIRST = int(os.environ.get("GOBLIN_SEED", "1"))
RUNS = range(FIRST, FIRST + int(os.environ.get("GOBLIN_KILL_RUNS", "20")))
# Lies that the check finds in every tile of this size.
LIES = ("zeros", "tile", "nan", "swap", "shape")
# A judge is a runner of the lab node: a job's planner, or its check.
VICTIMS = ("host", "runner", "lab", "coordinator", "judge")
MEMORY = "64MiB"

Array = npt.NDArray[Any]


@pytest.fixture(scope="module")
def operands() -> tuple[Array, Array]:
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((3600, 1500)), rng.standard_normal((1500, 3600))
    return a.astype(np.float32), b.astype(np.float32)


@pytest.fixture(scope="module")
def undisturbed(operands: tuple[Array, Array]) -> str:
    with gg.local(hosts=2, memory=MEMORY) as lab:
        return e2e.sha256(lab.matmul(*operands))


def children(pid: int) -> list[int]:
    found = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(word) for word in thread.read_text().split()]
    return sorted(found)


def reached(job: gg.Job, part: float) -> bool:
    return job.done or job.progress.fraction >= part


def went_on(job: gg.Job, accepted: int) -> bool:
    return job.done or job.progress.accepted > accepted


def accepted_in_journal(lab_directory: Path) -> dict[int, tuple[int, bytes, bytes]]:
    """Task → (number of its record, host, digest), from a copy: the lab node holds the original."""
    with tempfile.TemporaryDirectory() as copy:
        for part in lab_directory.glob("journal*"):
            shutil.copy(part, copy)
        (base,) = [p for p in Path(copy).iterdir() if not p.name.endswith(("-wal", "-shm", "lock"))]
        with sqlite3.connect(base) as journal:
            rows = journal.execute("SELECT task, seq, host, digest FROM accepted").fetchall()
        return {task: (seq, host, digest) for task, seq, host, digest in rows}


class Run:
    """One job, and the kills that befall it."""

    def __init__(self, lab: gg.LocalLab, job: gg.Job, seed: int) -> None:
        self.lab, self.job, self.random = lab, job, random.Random(seed)
        self.story: list[str] = []
        self.journalled: dict[int, tuple[int, bytes, bytes]] = {}

    def await_progress(self) -> bool:
        """Waits for a random part of the job and some ms more; False when it has ended."""
        part, more = self.random.uniform(0.0, 0.85), self.random.uniform(0.0, 0.03)
        e2e.until(f"{part:.0%} of the job", functools.partial(reached, self.job, part))
        end = time.monotonic() + more
        e2e.until("some milliseconds", lambda: time.monotonic() >= end)
        self.story.append(f"at {part:.0%} + {more * 1000:.0f} ms")
        return not self.job.done

    def strike(self, victim: str) -> None:
        network = self.lab.network
        self.story.append(f"kill {victim}")
        if victim in ("runner", "judge"):
            owner = self.random.choice(network.hosts) if victim == "runner" else network.lab
            runners = children(owner.pid)
            if runners:
                os.kill(self.random.choice(runners), signal.SIGKILL)
            return
        daemon = self.random.choice(network.hosts) if victim == "host" else network.lab
        if victim == "coordinator":
            daemon = network.coordinator
        daemon.kill()
        if victim == "lab":
            self.journalled.update(accepted_in_journal(daemon.directory))
        end = time.monotonic() + self.random.uniform(0.0, 0.2)
        e2e.until("it stays away a moment", lambda: time.monotonic() >= end)
        daemon.restart()


@pytest.mark.parametrize("seed", RUNS)
def test_kill_9(seed: int, operands: tuple[Array, Array], undisturbed: str) -> None:
    a, b = operands
    liar = e2e.liar(LIES[seed % len(LIES)])
    with gg.local(hosts=3, memory=MEMORY, host_options=[liar]) as lab:
        liar_pin = lab.network.hosts[0].pin
        run = Run(lab, lab.submit("matmul", a=a, b=b), seed)
        # Each victim is the first of some runs; then others.
        order = [VICTIMS[seed % len(VICTIMS)], *run.random.choices(VICTIMS, k=2)]
        try:
            for victim in order:
                if run.await_progress():
                    run.strike(victim)
            digest = e2e.sha256(run.job.result(60))
            explained = run.job.explain()
            tasks = run.job.progress.tasks
            lab.network.lab.kill()
            final = accepted_in_journal(lab.network.lab.directory)
        except BaseException:
            print(f"seed {seed}: {'; '.join(run.story)}")
            raise
    story = f"seed {seed}: {'; '.join(run.story)}\n{explained}"
    assert digest == undisturbed, story
    assert explained.state == "done"
    assert tasks >= 9, story
    assert len(final) == tasks, story
    # A record keeps its number: what was accepted before a crash was not computed again.
    for task, record in run.journalled.items():
        assert final[task] == record, story
    assert not any(host.hex() == liar_pin for _, host, _ in final.values()), story
    # An honest host is not accused for having died.
    assert {host.host for host in explained.liars} <= {liar_pin}, story
    for host in explained.hosts:
        assert host.host == liar_pin or not (host.quarantined or host.refused), story


def test_the_lab_node_again_and_again(operands: tuple[Array, Array], undisturbed: str) -> None:
    """The client survives it, and so does all that was accepted."""
    a, b = operands
    with gg.local(hosts=2, memory=MEMORY) as lab:
        job = lab.submit("matmul", a=a, b=b)
        known: dict[int, tuple[int, bytes, bytes]] = {}
        for part in (0.01, 0.3, 0.6):
            e2e.until(f"{part:.0%}", functools.partial(reached, job, part))
            lab.network.lab.kill()
            now = accepted_in_journal(lab.network.lab.directory)
            assert known.items() <= now.items()
            known = now
            lab.network.lab.restart()
        assert known
        assert e2e.sha256(job.result(60)) == undisturbed
        # And after its end: the result stays, as does the explanation.
        explained = str(job.explain())
        lab.network.lab.restart()
        again = lab.job(job.number)
        assert e2e.sha256(again.result(20)) == undisturbed
        assert str(again.explain()) == explained


def test_everything_dies_at_once(operands: tuple[Array, Array], undisturbed: str) -> None:
    a, b = operands
    with gg.local(hosts=2, memory=MEMORY) as lab:
        job = lab.submit("matmul", a=a, b=b)
        e2e.until("some of it", lambda: job.progress.accepted >= 3)
        for daemon in lab.network.daemons():
            daemon.signal(signal.SIGKILL)
        for daemon in reversed(lab.network.daemons()):
            daemon.restart()
        assert e2e.sha256(job.result(60)) == undisturbed
        assert job.explain().cost.refused == 0


def test_a_killed_host_leaves_no_runner(operands: tuple[Array, Array]) -> None:
    a, b = operands
    with gg.local(hosts=1, memory=MEMORY) as lab:
        job = lab.submit("matmul", a=a, b=b)
        (host,) = lab.network.hosts
        (runner,) = e2e.until("its runner is up", lambda: children(host.pid))
        watch = os.pidfd_open(runner)
        host.kill()
        assert select.select([watch], [], [], 10)[0], "the runner outlived its daemon"
        os.close(watch)
        job.cancel()
        assert job.wait(10)


def test_the_runners_of_the_lab_node_die(operands: tuple[Array, Array], undisturbed: str) -> None:
    """Planner and check, each as often as its job may start it anew; with one host, so that no
    second result can stand in for a check."""
    a, b = operands
    with gg.local(hosts=1, memory=MEMORY) as lab:
        node = lab.network.lab.pid
        job = lab.submit("matmul", a=a, b=b)
        for which in (0, -1, 0, -1):
            accepted = job.progress.accepted
            e2e.until("it goes on", functools.partial(went_on, job, accepted))
            runners = children(node)
            if runners:
                os.kill(runners[which], signal.SIGKILL)
        assert e2e.sha256(job.result(40)) == undisturbed
        assert lab.network.lab.pid == node
        assert job.explain().cost.refused == 0
