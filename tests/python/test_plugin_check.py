# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""`goblin plugin check`: verdicts, exit statuses, and what it says when it cannot begin."""

from __future__ import annotations

import subprocess
from pathlib import Path

import e2e
import pytest

from gpugoblin import _programs

TINY = e2e.TEST_PLUGINS / "tiny-tasks.so"
SLOPPY = e2e.TEST_PLUGINS / "sloppy.so"


def check(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [_programs.find(), "plugin", "check", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_good_plugin_passes() -> None:
    answer = check(TINY, "--job", "tiny-tasks/1 tasks=100", "--seed", "7")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "tiny-tasks/1 tasks=100 in_flight=0\n" in answer.stdout
    assert "  passed  restarts " in answer.stdout
    assert " 0 failed, 0 skipped; --seed 7 repeats this run\n" in answer.stdout


def test_a_job_is_guessed() -> None:
    answer = check(SLOPPY, "--test", "job", "--test", "restarts")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert answer.stdout.startswith("sloppy/1 x=f64[16] mode=0\n")
    assert "2 passed, 0 failed, 0 skipped" in answer.stdout


def test_a_fault_is_named_with_its_call() -> None:
    crashes_on_states = "6"  # kStateCrashes
    job = f"sloppy/1 x=f64[200] mode={crashes_on_states}"
    answer = check(SLOPPY, "--job", job, "--test", "states", "--test", "job")
    assert answer.returncode == 1
    assert "  FAILED  states " in answer.stdout
    assert "planner_create from a state that is zeros: the plugin crashed" in answer.stdout
    assert "1 passed, 1 failed, 0 skipped" in answer.stdout


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        ((), 2, "file"),
        (("/nowhere.so",), 1, "/nowhere.so"),
        ((e2e.TEST_PLUGINS / "garbage-note.so",), 1, "garbage-note.so"),
        ((TINY, "--test", "nothing"), 2, "there is no test 'nothing'"),
        ((TINY, "--job", "tiny-tasks/1 tasks=many"), 2, "'tasks=many' of the job"),
        ((TINY, "--job", "matmul/1"), 1, "it has tiny-tasks/1"),
        ((TINY, "--backend", "abacus"), 1, "abacus"),
    ],
)
def test_what_cannot_begin_is_said(words: tuple[str | Path, ...], status: int, says: str) -> None:
    answer = check(*words)
    assert answer.returncode == status, answer.stderr
    assert says in answer.stderr
    assert "passed" not in answer.stdout


def test_all_tests_are_listed() -> None:
    answer = check("--list")
    assert answer.returncode == 0
    for name in ("description", "validate-types", "restarts", "check-hostile"):
        assert f" {name} " in answer.stdout
