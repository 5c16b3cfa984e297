# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""The cores that every contender gets."""

from __future__ import annotations

import os


def pin_to_two() -> None:
    """Keeps this process, and what it starts, on the first two cores that it may use."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
