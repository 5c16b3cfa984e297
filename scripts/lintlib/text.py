# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Checks that only read text: licence lines, sizes, traces of one machine."""

from __future__ import annotations

import re
from pathlib import Path

from lintlib.tree import CXX_SUFFIXES, Report, Tree

LICENCE = "SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0"
SOURCE_SUFFIXES = CXX_SUFFIXES | {".capnp", ".cmake", ".py", ".pyi", ".sh"}
BINARY_SUFFIXES = frozenset({".so", ".png", ".jpg", ".npy", ".npz", ".bin"})
MOST_LINES = 500

# A folder that only one machine has, where a literal may begin, and the addresses of registries.
# /home/u and /home/user are nobody's.
MACHINE_PATH = re.compile(
    r"""["'\s=(:]/(?:(?:work|root|tmp)/[A-Za-z0-9_]|home/(?!u(?:ser)?\b)[A-Za-z0-9_])"""
)
REGISTRY = re.compile(
    r"(?:pypi\.(?:org|io)|python[h]osted|(?:deb|security|ftp|archive)\.[a-z.]*debian\.org"
    r"|registry\.npmjs|conda\.anaconda|ghcr\.io|docker\.io)"
)


def is_source(tree: Tree, name: str) -> bool:
    """Whether a file is code, so that it carries the licence line."""
    path = Path(name)
    return (
        path.suffix in SOURCE_SUFFIXES
        or path.name == "CMakeLists.txt"
        or (path.suffix == "" and tree.first_line(name).startswith("#!"))
    )


def check_licence(tree: Tree) -> Report:
    """Every source names its licence in its first two lines."""
    report = Report("licence")
    for name in tree.files:
        if not is_source(tree, name):
            continue
        report.files += 1
        if not any(LICENCE in line for line in tree.read(name).splitlines()[:2]):
            report.problems.append(f"{name}:1: lacks the line '{LICENCE}'")
    return report


def check_size(tree: Tree) -> Report:
    """Warns of long files."""
    report = Report("size")
    for name in tree.files:
        if not is_source(tree, name):
            continue
        report.files += 1
        lines = len(tree.read(name).splitlines())
        if lines > MOST_LINES:
            report.warnings.append(f"{name}: {lines} lines; past {MOST_LINES}, split it")
    return report


def check_traces(tree: Tree) -> Report:
    """No file names a folder of one machine or the address of a package registry."""
    report = Report("traces")
    for name in tree.files:
        if Path(name).suffix in BINARY_SUFFIXES:
            continue
        report.files += 1
        for number, line in enumerate(tree.read(name).splitlines(), start=1):
            for pattern, what in ((MACHINE_PATH, "a machine's path"), (REGISTRY, "a registry")):
                if found := pattern.search(line):
                    report.problems.append(f"{name}:{number}: names {what}: {found[0].strip()}")
    return report
