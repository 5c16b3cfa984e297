# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Bytes that products move on one local network: prints JSON.

python _bytes.py HOSTS MEMORY_MIB ROWSxTERMSxCOLUMNS…
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from _cores import pin_to_two
from _products import expect_right, on_the_wire, write_matrix

import gpugoblin as gg


def least_bytes(m: int, k: int, n: int, hosts: int, item: int = 4) -> float:
    """No way to share an m × k by k × n product among so many hosts moves less, where each computes
    as much and keeps whatever it once received.

    A host that computes V = mnk/P terms touches at least x elements of A, y of B and z of C with
    x·y·z ≥ V² (Loomis and Whitney 1949; Irony, Toledo and Tiskin 2004). None is touched beyond
    its size, nor for fewer than V terms over the extent that it lacks: the least x + y + z within
    these limits, P times. And each operand and the result travel once at least.
    """
    volume = m * n * k / hosts
    most = (m * k, k * n, m * n)
    least = (volume / n, volume / m, volume / k)

    def faces(level: float) -> list[float]:
        return [min(max(level, low), high) for low, high in zip(least, most, strict=True)]

    low, high = 0.0, float(max(most))
    for _ in range(200):
        middle = (low + high) / 2
        x, y, z = faces(middle)
        low, high = (middle, high) if x * y * z < volume**2 else (low, middle)
    return item * max(sum(most), hosts * sum(faces(high)))


def moved(lab: gg.LocalLab, folder: Path, m: int, k: int, n: int) -> dict[str, Any]:
    """One product of files; nothing of it is in a cache."""
    a = write_matrix(folder / "a.npy", m, k, seed=m + k)
    b = write_matrix(folder / "b.npy", k, n, seed=k + n + 1)
    before = on_the_wire(lab)
    job = lab.submit("matmul", a=a, b=b)
    c = job.result()
    after = on_the_wire(lab)
    expect_right(a, b, c)
    cost = job.cost
    return {
        "wire": sum(after.values()) - sum(before.values()),
        "payload": cost.bytes_sent + cost.bytes_received,
        "plan": job.explain().plan,
        "seconds": cost.seconds,
    }


def main(words: list[str]) -> None:
    """Reads the command line."""
    pin_to_two()
    hosts, memory = int(words[0]), int(words[1])
    answers = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        gg.local(hosts=hosts, threads=1, memory=f"{memory}MiB", cache="2GiB") as lab,
    ):
        for shape in words[2:]:
            m, k, n = map(int, shape.split("x"))
            found = moved(lab, Path(folder), m, k, n)
            answers[shape] = {**found, "least": least_bytes(m, k, n, hosts)}
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
