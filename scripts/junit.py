# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""JUnit files: scripts/lint writes one, ctest and pytest write others, scripts/test adds them up.

Usage: junit.py [--broken STEM]... FILE... prints a line per file and closes with
"N passed, N failed, N skipped". Exits 1 if anything failed, if a file is missing or if nothing
passed.
"""

from __future__ import annotations

import argparse
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Case:
    """One test or check."""

    name: str
    state: str  # passed, failed or skipped
    seconds: float = 0.0
    text: str = ""


@dataclass
class Totals:
    """How many tests came to what."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, other: Totals) -> None:
        """Adds another count to this one."""
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def write(path: Path, suite: str, cases: Iterable[Case]) -> None:
    """Writes a JUnit file of one suite."""
    root = ET.Element("testsuite", name=suite)
    for case in cases:
        element = ET.SubElement(
            root, "testcase", name=case.name, classname=suite, time=f"{case.seconds:.3f}"
        )
        if case.state == "failed":
            ET.SubElement(element, "failure", message="failed").text = case.text
        elif case.state == "skipped":
            ET.SubElement(element, "skipped", message=case.text)
    path.parent.mkdir(parents=True, exist_ok=True)
    ET.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def read(path: Path) -> Totals:
    """Counts a file's tests. A test that did not run counts as skipped, an error as failed.

    Raises
    ------
    ValueError
        If the file is missing or is not XML: whatever should have written it did not finish.
    """
    try:
        root = ET.parse(path).getroot()
    except (OSError, ET.ParseError) as error:
        raise ValueError(f"{path}: no results ({error})") from error
    totals = Totals()
    for case in root.iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            totals.failed += 1
        elif case.find("skipped") is not None or case.get("status") in {"notrun", "disabled"}:
            totals.skipped += 1
        elif case.get("status") == "fail":
            totals.failed += 1
        else:
            totals.passed += 1
    return totals


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Adds up JUnit files.")
    parser.add_argument(
        "--broken",
        action="append",
        default=[],
        metavar="STEM",
        help="this file's program failed, whatever the file says",
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    total = Totals()
    for path in options.files:
        try:
            counted = read(path)
        except ValueError as error:
            print(error)
            counted = Totals(failed=1)
        if path.stem in options.broken and counted.failed == 0:
            print(f"{path.stem}: failed outside its tests")
            counted.failed = 1
        print(f"{path.stem}: {counted}")
        total.add(counted)
    print(total)
    return 1 if total.failed or total.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
