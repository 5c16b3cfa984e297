# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Bytes of a product whose inputs were sent before, but for a few tiles: prints JSON.

python _delta.py N TILES    # A is N × N, TILES × TILES tiles; one in a hundred of them changes
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path

import numpy as np
from _cores import pin_to_two
from _products import expect_right, on_the_wire, write_matrix

import gpugoblin as gg


def product(lab: gg.LocalLab, a: Path, b: Path) -> dict[str, int]:
    """Bytes that hosts were sent for it."""
    before = on_the_wire(lab)["sent"]
    job = lab.submit("matmul", a=a, b=b)
    c = job.result()
    expect_right(a, b, c)
    return {"wire": on_the_wire(lab)["sent"] - before, "payload": job.cost.bytes_sent}


def change(file: Path, tiles: int) -> int:
    """Draws other numbers for one tile in a hundred; how many bytes those are."""
    array = np.load(file, mmap_mode="r+")
    edges = np.linspace(0, len(array), tiles + 1, dtype=int)
    draw, rng = random.Random(1), np.random.default_rng(9)
    changed = 0
    for number in draw.sample(range(tiles * tiles), max(1, tiles * tiles // 100)):
        row, column = divmod(number, tiles)
        part = array[edges[row] : edges[row + 1], edges[column] : edges[column + 1]]
        part[:] = rng.standard_normal(part.shape, dtype=np.float32)
        changed += part.nbytes
    array.flush()
    return changed


def main(words: list[str]) -> None:
    """Reads the command line."""
    pin_to_two()
    n, tiles = map(int, words)
    with (
        tempfile.TemporaryDirectory() as name,
        gg.local(hosts=2, threads=1, memory="256MiB", cache="4GiB") as lab,
    ):
        folder = Path(name)
        a, b = (write_matrix(folder / f"{s}.npy", n, n, seed) for seed, s in enumerate("ab"))
        first = product(lab, a, b)
        again = product(lab, a, b)
        changed = change(a, tiles)
        delta = product(lab, a, b)
    json.dump({"first": first, "again": again, "delta": delta, "changed": changed}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
