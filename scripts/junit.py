# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""JUnit files: scripts/lint writes one, ctest and pytest write others, scripts/test adds them up.

Usage: junit.py FILE... prints a line per file and closes with "N passed, N failed, N skipped".
Exits 1 if anything failed, if a file is missing or if nothing ran.
"""

from __future__ import annotations

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
    sum_of_all = Totals()
    broken = False
    for argument in arguments:
        path = Path(argument)
        try:
            totals = read(path)
        except ValueError as error:
            print(error)
            broken = True
            sum_of_all.failed += 1
            continue
        print(f"{path.stem}: {totals}")
        sum_of_all.add(totals)
    print(sum_of_all)
    nothing_ran = sum_of_all.passed + sum_of_all.failed == 0
    return 1 if broken or sum_of_all.failed or nothing_ran else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
