# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""scripts/lint: runs the checks, prints what they found, writes build/lint/lint.xml."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import junit
from check_includes import check_tree
from lintlib import coroutines, cxx, text, tools
from lintlib.cache import PassCache, cache_folder
from lintlib.tree import Report, Tree

ROOT = Path(__file__).resolve().parent.parent.parent


def check_include_rules(tree: Tree) -> Report:
    """Who may include whom; see scripts/check_includes.py."""
    files, problems = check_tree(tree.root)
    return Report("includes", files=files, problems=[str(problem) for problem in problems])


def check_tidy(tree: Tree, cache: PassCache, *, fix: bool) -> Report:
    """clang-tidy needs a configured build for its compile commands and generated headers."""
    build = tree.root / "build" / "release"
    if not (build / "compile_commands.json").exists():
        return Report("clang-tidy", problems=["build/release is not there; run scripts/build"])
    return cxx.Tidy(tree, cache, build).check(len(os.sched_getaffinity(0)), fix=fix)


def checks(tree: Tree, cache: PassCache, *, fix: bool) -> dict[str, Callable[[], Report]]:
    """Name → check, the quick ones first."""
    return {
        "licence": lambda: text.check_licence(tree),
        "size": lambda: text.check_size(tree),
        "traces": lambda: text.check_traces(tree),
        "includes": lambda: check_include_rules(tree),
        "awaits": lambda: coroutines.check_awaits(tree),
        "format": lambda: cxx.check_format(tree, cache, fix=fix),
        "shell": lambda: tools.check_shell(tree),
        "ruff": lambda: tools.check_ruff(tree, fix=fix),
        "mypy": lambda: tools.check_mypy(tree),
        "tidy": lambda: check_tidy(tree, cache, fix=fix),
    }


def show(report: Report) -> None:
    """One line for the check, and one for each of its findings."""
    for line in report.problems:
        print(f"  {line}")
    for line in report.warnings:
        print(f"  warning: {line}")
    why = f" ({report.skipped})" if report.skipped else ""
    print(
        f"{report.state:8}{report.name}: {report.files} files, {report.seconds:.1f} s{why}",
        flush=True,
    )


def main() -> int:
    cache = PassCache(cache_folder())
    parser = argparse.ArgumentParser(prog="scripts/lint", description="Checks the source code.")
    parser.add_argument("--fix", action="store_true", help="mend what a tool can mend")
    parser.add_argument(
        "checks",
        nargs="*",
        metavar="CHECK",
        help="which: " + ", ".join(checks(Tree(ROOT), cache, fix=False)),
    )
    options = parser.parse_args()
    available = checks(Tree(ROOT), cache, fix=options.fix)
    unknown = [name for name in options.checks if name not in available]
    if unknown:
        parser.error(f"unknown check {unknown[0]!r}: expected one of {', '.join(available)}")

    reports = []
    for name in options.checks or available:
        started = time.monotonic()
        report = available[name]()
        report.seconds = time.monotonic() - started
        show(report)
        reports.append(report)
    cache.prune()
    junit.write(
        ROOT / "build" / "lint" / "lint.xml",
        "lint",
        [
            junit.Case(r.name, r.state, r.seconds, r.skipped or "\n".join(r.problems))
            for r in reports
        ],
    )
    return 1 if any(report.state == "failed" for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
