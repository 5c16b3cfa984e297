# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""One measurement of a local network, as a process of its own: prints JSON.

python _ours.py matmul N | tiny-tasks COUNT PLUGIN | round-trips COUNT PLUGIN | idle SECONDS |
                slow-loris CLIENTS:N:ROUNDS
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from _cores import pin_to_two

import gpugoblin as gg


def matmul(n: int) -> dict[str, Any]:
    """`lab.matmul` of two f32 matrices that the lab node holds as files, to the result in this
    process: A·B, then B·A, so that no input lies on a host already; the faster one counts."""
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((n, n), dtype=np.float32) for _ in "ab")
    with (
        tempfile.TemporaryDirectory() as folder,
        gg.local(hosts=2, threads=1, memory="1GiB") as lab,
    ):
        files = [Path(folder) / "a.npy", Path(folder) / "b.npy"]
        for file, matrix in zip(files, (a, b), strict=True):
            np.save(file, matrix)
        lab.matmul(a[:64], b[:, :64], progress=False)
        left, right = files
        runs = [product(lab, left, right, a, b), product(lab, right, left, b, a)]
    return min(runs, key=lambda run: run["seconds"])


def product(
    lab: gg.LocalLab, left: Path, right: Path, a: np.ndarray, b: np.ndarray
) -> dict[str, Any]:
    """One product of files, looked at in one row."""
    before = runners_of(lab)
    start = time.perf_counter()
    job = lab.submit("matmul", a=left, b=right)
    c = job.result()
    seconds = time.perf_counter() - start
    row = len(a) // 3
    expected = a[row].astype(np.float64) @ b
    if not np.allclose(c[row], expected, rtol=1e-3, atol=1e-3):
        raise RuntimeError(f"row {row} of the product is wrong")
    cost = job.cost
    return {
        "seconds": seconds,
        "runner_seconds": sum(used - before.get(pid, 0.0) for pid, used in runners_of(lab).items()),
        "check_seconds": cost.check_seconds,
        "checks": cost.checks,
        "bytes_sent": cost.bytes_sent,
        "plan": job.explain().plan,
    }


def runners_of(lab: gg.LocalLab) -> dict[int, float]:
    """Processor seconds of the hosts' runners so far, by process number."""
    used = {}
    parents = [host.pid for host in lab.network.hosts]
    for parent in parents:
        for task in Path(f"/proc/{parent}/task").iterdir():
            for child in (task / "children").read_text(encoding="utf-8").split():
                fields = Path(f"/proc/{child}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1]
                ticks = sum(map(int, fields.split()[11:13]))
                used[int(child)] = ticks / os.sysconf("SC_CLK_TCK")
                parents.append(int(child))  # a host's child is a spawner, its child the runner
    return used


def tiny_tasks(count: int, plugin: str) -> dict[str, Any]:
    """Tasks per second, from submission to the result."""
    with gg.local(hosts=2, threads=1, memory="128MiB", plugins=[plugin]) as lab:
        lab.submit("tiny-tasks", tasks=100).result()
        start = time.perf_counter()
        job = lab.submit("tiny-tasks", tasks=count)
        values = job.result()["values"]
        seconds = time.perf_counter() - start
        if len(np.unique(values)) != count or job.cost.checks < count:
            raise RuntimeError("tasks are missing or were not checked")
        return {"seconds": seconds, "per_second": count / seconds}


def round_trips(count: int, plugin: str) -> dict[str, Any]:
    """Microseconds from planning one task to planning the next, with one in flight: planned,
    leased, computed, checked, journalled."""
    with gg.local(hosts=2, threads=1, memory="128MiB", plugins=[plugin]) as lab:
        stamps = lab.submit("tiny-tasks", tasks=count, in_flight=1).result()["stamps"]
        times = np.diff(stamps[count // 10 :])
        return {
            "p50_us": float(np.percentile(times, 50)),
            "p99_us": float(np.percentile(times, 99)),
        }


def idle(seconds: float) -> dict[str, Any]:
    """Memory of a host that has nothing to do, before any work and once its runners are gone."""
    quick_end = {"set": {"runner.idle": "1s"}}
    with gg.local(hosts=1, threads=1, host_options=[quick_end]) as lab:
        time.sleep(seconds)
        host = lab.network.hosts[0]
        fresh = memory_of(host.pid)
        a = np.ones((512, 512), np.float32)
        lab.matmul(a, a, progress=False)
        time.sleep(seconds + 2)
        return {"fresh": fresh, "after_work": memory_of(host.pid)}


def slow_loris(clients: int, n: int, rounds: int) -> dict[str, float]:
    """Seconds of a product beside hostile clients, over those without them."""
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((n, n), dtype=np.float32) for _ in "ab")
    with gg.local(hosts=2, threads=1, memory="1GiB") as lab:
        lab.matmul(a, b, progress=False)
        alone, beside = [], []
        ports = [str(daemon.port) for daemon in (lab.network.lab, lab.network.coordinator)]
        for _ in range(rounds):
            alone.append(seconds_of(lab, a, b))
            script = str(Path(__file__).with_name("_slow_loris.py"))
            command = [sys.executable, script, str(clients)]
            with subprocess.Popen(
                [*command, *ports], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            ) as flood:
                assert flood.stdin is not None
                assert flood.stdout is not None
                if flood.stdout.readline() != "connected\n":
                    raise RuntimeError("the hostile clients did not connect")
                beside.append(seconds_of(lab, a, b))
                flood.stdin.close()
                flood.terminate()
    return {"ratio": min(beside) / min(alone), "alone": min(alone), "beside": min(beside)}


def seconds_of(lab: gg.LocalLab, a: np.ndarray, b: np.ndarray) -> float:
    """Of one product."""
    start = time.perf_counter()
    lab.matmul(a, b, progress=False)
    return time.perf_counter() - start


def memory_of(pid: int) -> dict[str, float]:
    """Resident and proportional MiB of a process."""
    found = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines():
        key, _, rest = line.partition(":")
        if key in ("Rss", "Pss", "Pss_Anon"):
            found[key.lower()] = int(rest.split()[0]) / 1024
    return found


def main(words: list[str]) -> None:
    """Reads the command line."""
    pin_to_two()
    what, amount = words[0], words[1]
    if what == "matmul":
        answer = matmul(int(amount))
    elif what == "tiny-tasks":
        answer = tiny_tasks(int(amount), words[2])
    elif what == "round-trips":
        answer = round_trips(int(amount), words[2])
    elif what == "idle":
        answer = idle(float(amount))
    elif what == "slow-loris":
        clients, n, rounds = map(int, amount.split(":"))
        answer = slow_loris(clients, n, rounds)
    else:
        sys.exit(f"_ours.py: no measurement {what!r}")
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
