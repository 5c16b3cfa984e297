# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Finds the benchmarks: every module in tests/bench is one; no list names them."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchlib.context import Context
from benchlib.record import NAME, Record


class Run(Protocol):
    """What a benchmark's module calls `run`."""

    def __call__(self, ctx: Context) -> list[Record]: ...


@dataclass(frozen=True)
class Benchmark:
    """A benchmark as its module describes it."""

    name: str
    doc: str
    goal: str
    run: Run


def load(path: Path) -> Benchmark:
    """Imports one module; raises ValueError naming the file and what it lacks."""
    # Registered while it loads: dataclasses look their module up.
    module_name = f"goblin_bench_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    spec.loader.exec_module(module)
    name, doc, run = (getattr(module, key, None) for key in ("NAME", "DOC", "run"))
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ValueError(f"{path}: NAME is {name!r}, expected lower-case words joined by '-'")
    if not isinstance(doc, str) or not doc.strip():
        raise ValueError(f"{path}: DOC is missing")
    if not callable(run):
        raise ValueError(f"{path}: run(ctx) is missing")
    return Benchmark(name, doc.strip(), str(getattr(module, "GOAL", "")).strip(), run)


def discover(folder: Path) -> dict[str, Benchmark]:
    """Name → benchmark, in the order of names; files that begin with `_` are helpers."""
    found: dict[str, Benchmark] = {}
    for path in sorted(folder.glob("[!_]*.py")):
        benchmark = load(path)
        if benchmark.name in found:
            raise ValueError(f"{path}: NAME {benchmark.name!r} is taken by another module")
        found[benchmark.name] = benchmark
    return dict(sorted(found.items()))
