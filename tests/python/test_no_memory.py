# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""A program that finds no memory says so and ends; it is no crash of the language's runtime."""

from __future__ import annotations

import resource
import subprocess

import e2e

STEP = 4 << 10
TRIES = 100


def run(bytes_: int) -> subprocess.CompletedProcess[bytes]:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (bytes_, bytes_))

    return subprocess.run(
        [e2e.goblin(), "--help"], preexec_fn=limit, capture_output=True, timeout=20, check=False
    )


def test_no_memory_is_said() -> None:
    low, high = 1 << 20, 1 << 32
    while high - low > STEP:
        middle = (low + high) // 2
        if run(middle).returncode == 0:
            high = middle
        else:
            low = middle
    # Just below what it needs, its own allocations fail; below that those of libraries that are set
    # up before main, then those of the loader.
    said = 0
    for step in range(TRIES):
        done = run(high - step * STEP)
        assert b"bad_alloc" not in done.stderr, done.stderr
        said += b"goblin: out of memory: this process ends at once" in done.stderr
    assert said
