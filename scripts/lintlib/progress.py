# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""How far a slow check is: one line that a terminal writes over, else a line now and then."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import TextIO

EVERY_FILES = 20
EVERY_SECONDS = 10.0


class Progress:
    """Counts files that are done; any thread may. Nothing is said of a check without files."""

    def __init__(
        self,
        name: str,
        total: int,
        out: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._total = total
        self._out = sys.stderr if out is None else out
        self._clock = clock
        self._lock = threading.Lock()
        self._done = 0
        self._told = 0
        self._told_at = clock()
        self._tell()

    def step(self) -> None:
        """One more file is done."""
        with self._lock:
            self._done += 1
            if (
                self._out.isatty()
                or self._done == self._total
                or self._done >= self._told + EVERY_FILES
                or self._clock() >= self._told_at + EVERY_SECONDS
            ):
                self._tell()

    def _tell(self) -> None:
        if self._total == 0:
            return
        self._told, self._told_at = self._done, self._clock()
        line = f"{self._name}: {self._done}/{self._total} files"
        if self._out.isatty():
            end = "\n" if self._done == self._total else ""
            self._out.write(f"\r{line}{end}")
        else:
            self._out.write(f"{line}\n")
        self._out.flush()
