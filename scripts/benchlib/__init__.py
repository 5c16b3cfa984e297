# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""scripts/bench: what a record is, how benchmarks are found, run and shown.

A benchmark is a module in tests/bench with `NAME`, `DOC` (its first line stands alone), `GOAL` if
there is one, and `run(ctx: Context) -> list[Record]`. It makes its records with `ctx.record`.
"""

from benchlib.context import Context
from benchlib.record import Record

__all__ = ["Context", "Record"]
