# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Bytes that products move, beside the least that they could."""

from __future__ import annotations

import sys
from pathlib import Path

from benchlib import Context, Record

NAME = "bytes"
DOC = """Bytes between the lab node and its hosts, over the least that any plan moves.
f32 products of files on the lab node, four one-thread hosts with 2 GiB of cache on disk each, under
four caps of memory. Counted are the bytes of the lab node's connections to its hosts in both
directions during the job: inputs, results, leases, headers; not what TLS adds. The bound
(`least_bytes` in _bytes.py; docs/matmul.md derives it) is Loomis' and Whitney's for hosts that
compute equal shares and keep whatever they received. Memory does not appear in it: a host has its
inputs in a cache on disk, so a small cap makes tasks small but need not send anything twice. The
bound for hosts without a cache, 2mnk/√M, would be far higher.

Missed by the square product on hosts of 96 MiB (1.22, planned 1.05): four hosts that share two
cores leave their regions of the plan when the tasks that are planned ahead are others', and fetch
panels that another host has. With 16 instead of 4 planned ahead for each it was 1.19."""
GOAL = "at most 1.10"

HERE = Path(__file__).resolve().parent
HOSTS = 4
# Rows of A, terms, columns of B.
SHAPES = {
    "square": (8192, 8192, 8192),
    "tall": (32768, 2048, 1024),
    "wide": (1024, 2048, 32768),
    "inner": (1024, 65536, 1024),
    "outer": (8192, 256, 8192),
    "oblong": (4096, 8192, 1024),
}
QUICK = {"square": (2048, 2048, 2048), "tall": (8192, 512, 256)}


def run(ctx: Context) -> list[Record]:
    """A network for each cap, all shapes in it."""
    shapes = QUICK if ctx.quick else SHAPES
    records = []
    for memory in (96, 256) if ctx.quick else (96, 128, 256, 1024):
        words = ["x".join(map(str, shape)) for shape in shapes.values()]
        found = ctx.run_program(
            Path(sys.executable),
            str(HERE / "_bytes.py"),
            str(HOSTS),
            str(memory),
            *words,
            threads=1,
        )
        for (name, (m, k, n)), word in zip(shapes.items(), words, strict=True):
            ratio = found[word]["wire"] / found[word]["least"]
            case = f"{name}, {m} × {k} by {k} × {n}, hosts of {memory} MiB"
            records.append(ctx.record(case, ratio, "times", higher_is_better=False, threads=4))
    return records
