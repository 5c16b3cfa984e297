# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Peak memory of a lab node during a product of files: prints JSON.

python _memory.py N HOST_MIB
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
from _cores import pin_to_two
from _products import expect_right, write_matrix

import gpugoblin as gg

INTERVAL = 0.01
KEYS = ("VmHWM", "VmRSS", "RssAnon", "RssFile", "RssShmem")


def family_of(pid: int) -> list[int]:
    """A process and those that it started."""
    family = [pid]
    for parent in family:
        try:
            for task in Path(f"/proc/{parent}/task").iterdir():
                family += map(int, (task / "children").read_text(encoding="utf-8").split())
        except OSError:
            continue  # it has ended
    return family


class Watch:
    """Samples /proc until it is told to stop."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.peaks: dict[int, dict[str, int]] = {}  # bytes, by process
        self.together = dict.fromkeys(KEYS, 0)  # at one time, the highest
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL):
            total = dict.fromkeys(KEYS, 0)
            for pid in family_of(self.pid):
                for key, value in memory_of(pid).items():
                    total[key] += value
                    peak = self.peaks.setdefault(pid, dict.fromkeys(KEYS, 0))
                    peak[key] = max(peak[key], value)
            for key, value in total.items():
                self.together[key] = max(self.together[key], value)


def memory_of(pid: int) -> dict[str, int]:
    """Bytes, as /proc says; empty for a process that has ended."""
    found = {}
    try:
        for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
            key, _, rest = line.partition(":")
            if key in KEYS:
                found[key] = int(rest.split()[0]) * 1024
    except OSError:
        pass
    return found


def main(words: list[str]) -> None:
    """Reads the command line."""
    pin_to_two()
    n, memory = int(words[0]), int(words[1])
    with (
        tempfile.TemporaryDirectory() as name,
        gg.local(hosts=2, threads=1, memory=f"{memory}MiB", cache="4GiB") as lab,
    ):
        folder = Path(name)
        a, b = (write_matrix(folder / f"{s}.npy", n, n, seed) for seed, s in enumerate("ab"))
        with Watch(lab.network.lab.pid) as watch:
            left, right = (np.load(file, mmap_mode="r") for file in (a, b))
            job = lab.submit("matmul", a=left, b=right, out=folder / "c.npy")
            job.result()
        expect_right(a, b, np.load(folder / "c.npy", mmap_mode="r"))
        cost = job.cost
    json.dump(
        {
            "together": watch.together,
            "lab": watch.peaks[watch.pid],
            "runners": [peak for pid, peak in watch.peaks.items() if pid != watch.pid],
            "seconds": cost.seconds,
            "check_seconds": cost.check_seconds,
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
