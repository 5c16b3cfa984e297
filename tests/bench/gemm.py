# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Canonical matrix products on one machine; the C++ program goblin-bench-gemm does the work."""

from __future__ import annotations

from benchlib import Context, Record

NAME = "gemm"
DOC = """Canonical sgemm and dgemm beside OpenBLAS, oneDNN and BLIS.
The canonical product fixes every bit of the result; the libraries are free to choose theirs. The
limit is the peak of the cores' fused multiply-adds, measured in the same run."""
GOAL = "at least 0.95 of the best peer for n ≥ 512"


def run(ctx: Context) -> list[Record]:
    """Runs the program, which takes turns with its peers, and records what it measured."""
    rows = ctx.run_program("goblin-bench-gemm", "--json", *(["--quick"] if ctx.quick else []))
    return [
        ctx.record(
            row["case"],
            row["value"],
            row["unit"],
            higher_is_better=row["higher_is_better"],
            threads=row["threads"],
            peers=row["peers"],
            limit=row.get("limit"),
            limit_name=row.get("limit_name"),
        )
        for row in rows
    ]
