# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""One measurement of a lab node with a crowd of simulated hosts: prints JSON.

python _crowd.py PROGRAM PLUGIN many-hosts HOSTS TASKS | churn HOSTS TASKS SEED
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from _cores import pin_to_two

import gpugoblin as gg

JOIN_SECONDS = 60.0
TASK_MS = 500  # mean time of a task of churn
ODD = np.uint64(0x9E3779B97F4A7C15)


def right_values(count: int) -> np.ndarray:
    """What tasks of the kind tiny-tasks map their numbers to."""
    x = np.arange(count, dtype=np.uint64) * ODD
    return (x ^ (x >> np.uint64(32))).view(np.int64)


def network(program: str, plugin: str, hosts: int, **told: Any) -> gg.LocalLab:
    """A lab node and a coordinator, and so many hosts in one process, all connected."""
    crowd = {f"crowd.{key}": value for key, value in {"hosts": hosts, **told}.items() if value}
    lab = gg.local(
        hosts=1,
        threads=1,
        memory="128MiB",
        plugins=[plugin],
        host_options=[{"program": program, "set": crowd}],
    )
    until = time.monotonic() + JOIN_SECONDS
    while sum(host.connected for host in lab.hosts()) < hosts:
        if time.monotonic() > until:
            lab.close()
            raise RuntimeError(f"not all of {hosts} hosts connected within {JOIN_SECONDS:.0f} s")
        time.sleep(0.05)
    return lab


def processor_seconds(pid: int) -> float:
    """Of all threads of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def many_hosts(program: str, plugin: str, hosts: int, tasks: int) -> dict[str, float]:
    """Microseconds per task, of the wall clock and of the daemons' processor time."""
    with network(program, plugin, hosts) as lab:
        daemons = [lab.network.lab.pid, lab.network.coordinator.pid]
        lab.submit("tiny-tasks", tasks=10 * hosts).result()
        before = sum(map(processor_seconds, daemons))
        start = time.perf_counter()
        job = lab.submit("tiny-tasks", tasks=tasks)
        values = job.result()["values"]
        seconds = time.perf_counter() - start
        used = sum(map(processor_seconds, daemons)) - before
        if not np.array_equal(values, right_values(tasks)) or job.cost.checks < tasks:
            raise RuntimeError("results are wrong or were not checked")
        took_part = sum(host.accepted > 0 for host in job.explain().hosts)
        if took_part < hosts:
            raise RuntimeError(f"{took_part} of {hosts} hosts took part")
    return {"wall_us": 1e6 * seconds / tasks, "processor_us": 1e6 * used / tasks}


@dataclass
class Fate:
    """What becomes of the hosts of a churn, by number."""

    leave: dict[int, int] = field(default_factory=dict)  # milliseconds
    silent: dict[int, int] = field(default_factory=dict)
    slow: dict[int, int] = field(default_factory=dict)  # times
    liars: list[int] = field(default_factory=list)

    @classmethod
    def drawn(cls, hosts: int, around_ms: float, seed: int) -> Fate:
        """A tenth vanishes at any time, half of them without a word; a twentieth is slow, and one
        in a hundred lies."""
        draw = random.Random(seed)
        order = draw.sample(range(hosts), hosts)
        vanish, slow, lie = (max(1, round(share * hosts)) for share in (0.1, 0.05, 0.01))
        fate = cls(
            slow=dict.fromkeys(order[vanish : vanish + slow], 10),
            liars=order[vanish + slow : vanish + slow + lie],
        )
        for number, host in enumerate(order[:vanish]):
            when = round(draw.uniform(0.05, 0.95) * around_ms)
            (fate.leave if number % 2 else fate.silent)[host] = when
        return fate

    def least_ms(self, hosts: int, work_ms: float) -> float:
        """No schedule that uses only right results ends earlier, whatever it knows: until then the
        hosts that are still there have the time for the work."""
        gone = {**self.leave, **self.silent}
        honest = [host for host in range(hosts) if host not in self.liars]

        def done_by(t: float) -> float:
            return sum(min(t, gone.get(host, t)) / self.slow.get(host, 1) for host in honest)

        low, high = 0.0, work_ms
        while high - low > 1e-6 * work_ms / hosts:
            middle = (low + high) / 2
            low, high = (middle, high) if done_by(middle) < work_ms else (low, middle)
        return high


def pairs(by_host: dict[int, int]) -> list[str]:
    """As the crowd reads them."""
    return [f"{host}:{number}" for host, number in by_host.items()]


def churn(program: str, plugin: str, hosts: int, tasks: int, seed: int) -> dict[str, float]:
    """A job's time over the least that any schedule needs; how many of its results are wrong."""
    draw = random.Random(seed + 1)
    durations = [round(TASK_MS * draw.uniform(0.5, 1.5)) for _ in range(tasks)]
    work = float(sum(durations))
    fate = Fate.drawn(hosts, work / hosts, seed)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "durations"
        file.write_text("\n".join(map(str, durations)), encoding="utf-8")
        told = {
            "durations": file,
            "leave": pairs(fate.leave),
            "silent": pairs(fate.silent),
            "slow": pairs(fate.slow),
            "liars": fate.liars,
        }
        with network(program, plugin, hosts, **told) as lab:
            start = time.perf_counter()
            job = lab.submit("tiny-tasks", tasks=tasks)
            values = job.result()["values"]
            seconds = time.perf_counter() - start
            report = job.explain()
    least = fate.least_ms(hosts, work) / 1000
    return {
        "ratio": seconds / least,
        "seconds": seconds,
        "least": least,
        "wrong": int(np.count_nonzero(values != right_values(tasks))),
        "refused": job.cost.refused,
        "liars_caught": len(report.liars),
        "liars": len(fate.liars),
    }


def main(words: list[str]) -> None:
    """Reads the command line."""
    pin_to_two()
    program, plugin, what, *numbers = words
    amounts = [int(number) for number in numbers]
    if what == "many-hosts":
        answer = many_hosts(program, plugin, amounts[0], amounts[1])
    elif what == "churn":
        answer = churn(program, plugin, amounts[0], amounts[1], amounts[2])
    else:
        sys.exit(f"_crowd.py: no measurement {what!r}")
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
