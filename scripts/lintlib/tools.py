# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Checks that hand files to a tool with a cache of its own: ruff, mypy, shellcheck."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from lintlib.tree import Report, Tree, under

# mypy looks at groups one by one: names such as `conftest` may appear in more than one of them.
MYPY_GROUPS = (("scripts/", "tests/bench/"), ("sdk/python/", "tests/python/", "examples/"))


def run_tool(report: Report, command: list[str], root: Path) -> Report:
    """Runs a tool; what it prints are the report's problems if it fails."""
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if done.returncode != 0:
        output = (done.stdout + done.stderr).strip()
        report.problems.extend(output.splitlines() or [f"{command[0]} exited {done.returncode}"])
    return report


def check_ruff(tree: Tree, *, fix: bool) -> Report:
    """ruff's rules, then its formatting."""
    report = Report("ruff", files=len(tree.python))
    if not tree.python:
        report.skipped = "no Python files"
        return report
    ruff = str(Path(sys.executable).parent / "ruff")
    run_tool(
        report,
        [
            ruff,
            "check",
            "--quiet",
            "--output-format=concise",
            *(["--fix"] if fix else []),
            *tree.python,
        ],
        tree.root,
    )
    return run_tool(
        report, [ruff, "format", "--quiet", *([] if fix else ["--check"]), *tree.python], tree.root
    )


def check_mypy(tree: Tree) -> Report:
    """mypy --strict, as mypy.ini says."""
    report = Report("mypy")
    for group in MYPY_GROUPS:
        names = [name for name in under(tree.python, group) if "/template/" not in name]
        report.files += len(names)
        if names:
            run_tool(
                report, [sys.executable, "-m", "mypy", "--no-error-summary", *names], tree.root
            )
    return report


def check_shell(tree: Tree) -> Report:
    """shellcheck, where it is installed."""
    report = Report("shellcheck", files=len(tree.shell))
    if shutil.which("shellcheck") is None:
        report.skipped = "shellcheck is not installed"
        return report
    command = [
        "shellcheck",
        "--external-sources",
        "--source-path=SCRIPTDIR",
        "--format=gcc",
        *tree.shell,
    ]
    return run_tool(report, command, tree.root) if tree.shell else report
