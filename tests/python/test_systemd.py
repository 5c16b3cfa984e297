# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""The units of hosts/systemd start the programs as they are."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from pathlib import Path

import e2e
import pytest

UNITS = sorted((e2e.ROOT / "hosts/systemd").glob("*.service"))
SETTINGS = '[coordinator]\naddress = "science.example"\npin = "' + "0" * 64 + '"\n'


def read(unit: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment]
    parser.read(unit)
    return parser


def test_there_is_one_for_each_daemon() -> None:
    assert [unit.stem for unit in UNITS] == [
        "gpugoblin-coordinator",
        "gpugoblin-host",
        "gpugoblin-lab",
    ]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_its_command_is_one_that_the_program_takes(unit: Path, tmp_path: Path) -> None:
    service = read(unit)["Service"]
    program, role, run, *options = service["ExecStart"].split()
    assert (Path(program).name, run) == ("goblin", "run")
    assert unit.stem == f"gpugoblin-{role}" == service["User"] == service["StateDirectory"]
    given = dict(zip(options[::2], options[1::2], strict=True))
    assert given["--config"] == f"/etc/gpugoblin/{role}.toml"
    assert given["--state-dir"] == f"/var/lib/gpugoblin-{role}"
    config = tmp_path / "settings.toml"
    root = tmp_path / "root.signed"
    root.write_bytes(b"")
    config.write_text("" if role == "coordinator" else f'{SETTINGS}[trust]\nroot = "{root}"\n')
    command = [e2e.goblin(), role, "config-check", "--config", str(config)]
    done = subprocess.run(
        [*command, "--state-dir", str(tmp_path / "state")],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_understands_it(unit: Path, tmp_path: Path) -> None:
    text = unit.read_text().replace("/usr/local/bin/goblin", e2e.goblin())
    copy = tmp_path / unit.name
    copy.write_text("\n".join(line for line in text.splitlines() if not line.startswith("User=")))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(copy)],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert unit.name not in done.stderr
