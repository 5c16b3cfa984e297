# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""A product through the whole network, beside the same product elsewhere."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from benchlib import Context, Record
from benchlib.context import interleave

NAME = "network-matmul"
DOC = """`lab.matmul` of f32 matrices on two one-thread hosts, beside NumPy, dask.array and Ray.
Ours: coordinator, lab node and two hosts are processes of their own, inputs lie on the lab node,
everything passes through TLS and every tile is checked before it is used. NumPy computes in one
process on two threads. dask.array and Ray have two worker processes of one thread, operands and
result in the caller's process, and check nothing. All have the same two cores.

Ours reads its inputs from files on the lab node; all take the faster of two products.

Both goals are missed on these two cores. Where the time goes at n = 8192 (processor seconds by
/proc and perf: 6.3 of 6.6 in 3.3 s of both cores; NumPy takes 4.4 in 2.2 s): the hosts' runners
4.65, of which the product itself is 4.5; the two host daemons 0.8 (0.8 GB received, decrypted,
hashed and written to the cache, 0.27 GB of results hashed, encrypted and sent); the lab node 0.75
(0.5 GB of inputs hashed, 0.8 GB read, encrypted and sent, 0.27 GB received, decrypted, hashed and
stored); checks 0.09; the planner 0.05. Of the 1.55 of both daemons AES-GCM takes 0.44 (2.1 GB at
5 GB/s: OpenSSL 3.0 has no wider kernel), BLAKE3 0.3 (1.9 GB), the kernel 0.55 (loopback TCP, the
page cache), copies 0.15. 0.3 are idle: while the first inputs come, 0.3 s for 0.3 GB, and while
the last tiles are judged. 0.75 of NumPy leaves 1.1 for all that is not product, Ray's rate 0.6:
Ray's workers read the caller's memory, and nothing is encrypted, hashed or checked. Hosts on cores
of their own, as in a real network, leave the product its cores.

Memory counts: a virtual machine whose pages are given by its hypervisor when they are first touched
(0.5 GB/s here) spends 0.5 s more on a second product whose cache files lie on fresh pages."""
GOAL = "at n = 8192 at least 0.85 of NumPy, and faster than dask.array and Ray"

HERE = Path(__file__).resolve().parent


def run(ctx: Context) -> list[Record]:
    """Measures in turns and reports GFLOP/s."""
    records = []
    for n in (1024, 2048) if ctx.quick else (4096, 8192):

        def measure(script: str, *words: str, n: int = n, threads: int = 1) -> float:
            python = Path(sys.executable)
            answer = ctx.run_program(python, str(HERE / script), *words, str(n), threads=threads)
            return float(answer["seconds"])

        runs = {
            "ours": partial(measure, "_ours.py", "matmul"),
            "numpy": partial(measure, "_peers.py", "numpy", "matmul", threads=2),
            "dask": partial(measure, "_peers.py", "dask", "matmul"),
            "ray": partial(measure, "_peers.py", "ray", "matmul"),
        }
        best = interleave(runs, 1 if ctx.quick else 2, higher_is_better=False)
        rates = {name: 2e-9 * n**3 / seconds for name, seconds in best.items()}
        records.append(
            ctx.record(
                f"f32, n = {n}",
                rates.pop("ours"),
                "GFLOP/s",
                higher_is_better=True,
                threads=2,
                peers=rates,
            )
        )
    return records
