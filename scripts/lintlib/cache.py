# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Remembers what has passed, by content, so that a check of an unchanged file costs nothing.

The cache lies outside the tree, as ccache's does: a fresh clone on the same machine profits too.
Only passes are remembered; a failure is always shown again.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable
from pathlib import Path

KEEP_SECONDS = 30 * 24 * 3600


def cache_folder() -> Path:
    """`$GOBLIN_LINT_CACHE`, else gpugoblin-lint in the user's cache folder."""
    named = os.environ.get("GOBLIN_LINT_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "gpugoblin-lint"


class PassCache:
    """A set of keys on disk. Safe for several processes at once: an entry is one empty file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    @staticmethod
    def key(parts: Iterable[str | bytes]) -> str:
        """One key of everything that the verdict depends on; parts cannot run into each other."""
        digest = hashlib.sha256()
        for part in parts:
            data = part.encode() if isinstance(part, str) else part
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)
        return digest.hexdigest()

    def has_passed(self, key: str) -> bool:
        """Whether `remember(key)` was called; keeps the entry young."""
        try:
            os.utime(self.folder / key)
        except FileNotFoundError:
            return False
        return True

    def remember(self, key: str) -> None:
        """Notes a pass."""
        (self.folder / key).touch()

    def prune(self) -> None:
        """Drops what nobody asked for in a month."""
        oldest = time.time() - KEEP_SECONDS
        for entry in self.folder.iterdir():
            try:
                if entry.stat().st_mtime < oldest:
                    entry.unlink()
            except FileNotFoundError:
                continue  # another process dropped it
