# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Which files there are, and what a check reports about them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

CXX_SUFFIXES = frozenset({".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hip", ".hpp", ".inc"})
PROJECT_FOLDERS = ("sdk/", "core/", "backends/", "plugins/", "hosts/", "tests/", "examples/")


@dataclass
class Report:
    """What one check came to."""

    name: str
    files: int = 0
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    skipped: str = ""  # why it could not run; empty if it ran
    seconds: float = 0.0

    @property
    def state(self) -> str:
        """`failed`, `skipped` or `passed`."""
        if self.problems:
            return "failed"
        return "skipped" if self.skipped else "passed"


class Tree:
    """The repository's files, committed or about to be; what git ignores is not seen."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @cached_property
    def files(self) -> list[str]:
        """Paths relative to the root, sorted."""
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=self.root,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        names = {name for name in listed.split("\0") if name}
        return sorted(name for name in names if (self.root / name).is_file())

    @property
    def cxx(self) -> list[str]:
        """C, C++, CUDA and HIP sources and headers."""
        return [name for name in self.files if Path(name).suffix in CXX_SUFFIXES]

    @property
    def python(self) -> list[str]:
        """Python sources and stubs."""
        return [name for name in self.files if Path(name).suffix in {".py", ".pyi"}]

    @property
    def shell(self) -> list[str]:
        """Shell scripts, known by their first line or by their ending."""
        return [
            name
            for name in self.files
            if name.endswith(".sh")
            or (
                Path(name).suffix == ""
                and self.first_line(name).startswith(("#!/bin/sh", "#!/usr/bin/env bash"))
            )
        ]

    def read(self, name: str) -> str:
        """The file's text; bytes that are not UTF-8 are replaced."""
        return (self.root / name).read_text(encoding="utf-8", errors="replace")

    def first_line(self, name: str) -> str:
        """The file's first line, at most 200 characters."""
        with (self.root / name).open(encoding="utf-8", errors="replace") as stream:
            return stream.readline(200)


def under(names: Iterable[str], prefixes: tuple[str, ...]) -> list[str]:
    """Those names that lie in one of the folders."""
    return [name for name in names if name.startswith(prefixes)]
