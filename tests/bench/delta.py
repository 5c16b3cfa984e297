# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Bytes that a product sends when little of its inputs has changed since the last."""

from __future__ import annotations

import sys
from pathlib import Path

from benchlib import Context, Record

NAME = "delta"
DOC = """Bytes sent to hosts by a second product of which one tile in a hundred has changed.
f32, n = 8192, files on the lab node, two one-thread hosts of 256 MiB with 4 GiB of cache on disk. A
is taken for 10 × 10 tiles, as a researcher would cut it; one of them gets other numbers between the
runs. "Sent" is what the connections to the hosts carried, headers included; results come back
either way and are not counted. "Unchanged" is a repetition of the whole product, in MiB.

The goal is missed: hosts keep what did not change, but the unit that they keep is a task's input, a
panel of some thousand rows with all of k, not a tile. Each panel with a changed element goes out
again, once to each host that needs it. What would mend it: names for pieces of a blob, which a host
compares with those of the blobs of the same size in its cache (docs/protocol.md has no such
frame), and panels whose pieces are tiles."""
GOAL = "at most 1.05 times the changed bytes"

HERE = Path(__file__).resolve().parent


def run(ctx: Context) -> list[Record]:
    """Three products on one network."""
    n, tiles = (1024, 10) if ctx.quick else (8192, 10)
    found = ctx.run_program(
        Path(sys.executable), str(HERE / "_delta.py"), str(n), str(tiles), threads=1
    )
    return [
        ctx.record(
            f"f32, n = {n}, 1 of {tiles * tiles} tiles of A changed",
            found["delta"]["wire"] / found["changed"],
            "times",
            higher_is_better=False,
            threads=2,
        ),
        ctx.record(
            f"f32, n = {n}, unchanged",
            found["again"]["wire"] / (1 << 20),
            "MiB",
            higher_is_better=False,
            threads=2,
        ),
    ]
