# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""docs/configuration.md names every setting of every role, with the default that it has."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from gpugoblin import _programs

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "configuration.md"
ROLES = ("coordinator", "lab", "host")
REQUIRED = {
    "coordinator.address": "science.example:7420",
    "coordinator.pin": "00" * 32,
    "trust.root": "/etc/gpugoblin/root.signed",
}


def check(role: str, state: Path, settings: dict[str, str]) -> dict[str, str]:
    """Setting → value, as `goblin ROLE config-check` prints them."""
    arguments = [str(_programs.find()), role, "config-check", "--config", "/dev/null"]
    arguments += ["--state-dir", str(state)]
    if role != "coordinator":
        settings = {**REQUIRED, **settings}
    for key, value in settings.items():
        arguments += ["--set", f"{key}={value}"]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    lines = [line.rsplit("   # ", 1)[0] for line in done.stdout.splitlines()[1:]]
    return dict(line.split(" = ", 1) for line in lines)


def documented(role: str) -> dict[str, str]:
    """Setting → its cell for the default, of the tables "Every role" and that of the role."""
    found: dict[str, str] = {}
    heading = ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            heading = line[3:]
        elif (row := re.match(r"\| `([^`]+)` \| ([^|]*) \|", line)) and heading in {
            "Every role",
            role,
        }:
            assert row[1] not in found, f"{row[1]} stands twice"
            found[row[1]] = row[2].strip()
    return found


@pytest.mark.parametrize("role", ROLES)
def test_every_setting_is_documented(role: str, tmp_path: Path) -> None:
    assert sorted(documented(role)) == sorted(check(role, tmp_path, {}))


@pytest.mark.parametrize("role", ROLES)
def test_documented_defaults_are_the_defaults(role: str, tmp_path: Path) -> None:
    """A default that is written as code, given on the command line, changes nothing."""
    effective = check(role, tmp_path, {})
    given = {}
    for key, cell in documented(role).items():
        if cell == "`[]`":
            assert effective[key] == "[]", key
        elif cell == "required":
            assert key in REQUIRED
        elif cell.startswith("`"):
            value = cell.strip("`").strip('"')
            given[key] = value.replace("STATE", str(tmp_path)).replace("ROLE", role)
    assert len(given) > 8
    assert check(role, tmp_path, given) == effective
