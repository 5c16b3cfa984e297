# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""The `goblin` command beside running daemons."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpugoblin as gg
from gpugoblin import _programs


@pytest.fixture(scope="module")
def lab() -> Iterator[gg.LocalLab]:
    with gg.local(hosts=1, threads=1, memory="128MiB") as lab:
        yield lab


def goblin(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [_programs.find(), *map(str, words)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_daemon_of_another_role_is_no_answer(lab: gg.LocalLab) -> None:
    sockets = {"lab": lab.network.lab.socket, "host": lab.network.hosts[0].socket}
    for role, other in (("host", "lab"), ("lab", "host"), ("coordinator", "lab")):
        answer = goblin(role, "status", "--socket", sockets[other])
        assert answer.returncode == 2
        names = {"lab": "lab node"}
        expected = f"a {names.get(other, other)}, not a {names.get(role, role)}, answers at"
        assert expected in answer.stderr
        assert f"`goblin {other}`" in answer.stderr
        assert not answer.stdout
    for role, socket in sockets.items():
        answer = goblin(role, "status", "--socket", socket)
        assert answer.returncode == 0, answer.stderr
        assert answer.stdout


def test_stopping_needs_the_right_role(lab: gg.LocalLab) -> None:
    host = lab.network.hosts[0]
    assert goblin("coordinator", "stop", "--socket", host.socket).returncode == 2
    assert goblin("host", "status", "--socket", host.socket).returncode == 0


def test_a_coordinator_without_a_name_is_refused_before_anything_starts(tmp_path: Path) -> None:
    answer = goblin(
        "host", "run", "--state-dir", tmp_path / "state",
        "--set", "coordinator.address=:7420", "--set", "coordinator.pin=" + "a" * 64,
    )  # fmt: skip
    assert answer.returncode == 2
    assert "coordinator.address = ':7420' has no name before the port" in answer.stderr
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    "words",
    [
        "",
        "nothing",
        "lab",
        "lab status --nope",
        "lab status --socket",
        "lab explain",
        "lab explain seven",
        "lab explain 7 8",
        "lab run --ready-fd x",
        "plugin info",
        "plugin check",
        "plugin check --seed x",
        "pin",
    ],
)
def test_a_wrong_command_line_ends_with_2(words: str) -> None:
    answer = goblin(*words.split())
    assert answer.returncode == 2
    assert answer.stderr
    assert not answer.stdout


@pytest.mark.parametrize("words", ["--help", "--version", "lab --help", "plugin check --help"])
def test_help_is_no_mistake(words: str) -> None:
    answer = goblin(*words.split())
    assert answer.returncode == 0
    assert answer.stdout
    assert not answer.stderr
