# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""The table of frames in docs/protocol.md says what core/wire says."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}
CONSTANTS = {"kKiB": 1 << 10, "kMiB": 1 << 20, "kBlobChunkBytes": 1 << 20}
GREETING = {"Hello": (4 << 10, 0), "Welcome": (4 << 10, 0)}


def numbers() -> dict[str, int]:
    """Frame → its number, of frame.hpp."""
    text = (ROOT / "core/wire/frame.hpp").read_text()
    body = text[text.index("enum class FrameType") : text.index("/// How far a connection is")]
    return {name: int(number) for name, number in re.findall(r"k(\w+) = (\d+),", body)}


def amount(expression: str) -> int:
    """ "4 * kMiB", "kMiB", "256"."""
    value = 1
    for factor in expression.split("*"):
        word = factor.strip()
        value *= CONSTANTS[word] if word in CONSTANTS else int(word)
    return value


def caps() -> dict[str, tuple[int, int]]:
    """Frame → most bytes of message and payload once a connection is open, of frame.cpp."""
    text = (ROOT / "core/wire/frame.cpp").read_text()
    body = text[text.index("FrameCaps open_caps") : text.index("FrameCaps frame_caps")]
    found: dict[str, tuple[int, int]] = {}
    group = re.compile(r"((?:case FrameType::k\w+:\s*)+)return \{([^,}]+), ([^,}]+), true\};")
    for cases, message, payload in group.findall(body):
        for name in re.findall(r"FrameType::k(\w+):", cases):
            found[name] = amount(message), amount(payload)
    return found


def page() -> dict[str, tuple[int, int, int]]:
    """Frame → number, most bytes of message and payload, of the page."""
    found = {}
    row = re.compile(r"^\| (\d+) \| (\w+) \| (\d+)(?: (\w+))? \| (\d+)(?: (\w+))? \|", re.MULTILINE)
    for number, name, message, unit, payload, other in row.findall(
        (ROOT / "docs/protocol.md").read_text()
    ):
        found[name] = (
            int(number),
            int(message) * UNITS[unit or "B"],
            int(payload) * UNITS[other or "B"],
        )
    return found


def test_the_page_says_what_the_code_does() -> None:
    limits = {**caps(), **GREETING}
    code = {name: (number, *limits[name]) for name, number in numbers().items()}
    assert len(code) > 40
    assert page() == code
