# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""`goblin doctor`: what it finds right, and what to do about the rest."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import e2e
import pytest

import gpugoblin as gg

PROTECTIONS = 11


@pytest.fixture(scope="module")
def lab() -> Iterator[gg.LocalLab]:
    with gg.local(hosts=1, threads=1, memory="128MiB") as lab:
        yield lab


def doctor(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [e2e.goblin(), "doctor", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def findings(role: str, state: Path, **settings: object) -> tuple[int, dict[str, dict[str, str]]]:
    """Exit status, and the findings by check; keyword names have _ for dots."""
    if role != "coordinator":
        settings = {"trust_root": e2e.some_root(), **settings}
    words: list[str | Path] = [role, "--json", "--config", os.devnull, "--state-dir", state]
    for key, value in settings.items():
        words += ["--set", f"{key.replace('_', '.')}={value}"]
    answer = doctor(*words)
    found = {item["check"]: item for item in json.loads(answer.stdout)}
    for item in found.values():
        assert item["role"] == role
        assert item["verdict"] in ("ok", "note", "FAILED")
        assert item["to_do"] or item["verdict"] != "FAILED", item
    assert answer.returncode == any(item["verdict"] == "FAILED" for item in found.values())
    return answer.returncode, found


def reach(lab: gg.LocalLab, pin: str | None = None) -> dict[str, object]:
    """Settings that name the coordinator of the local network."""
    network = lab.network
    return {
        "coordinator_address": f"127.0.0.1:{network.coordinator.port}",
        "coordinator_pin": pin or network.coordinator.pin,
    }


def test_a_sound_host_passes(lab: gg.LocalLab) -> None:
    host = lab.network.hosts[0]
    settings = {**reach(lab), "memory": "64MiB", "socket": host.socket}
    status, found = findings("host", host.directory, **settings)
    assert status == 0, found
    assert found["coordinator"]["found"].endswith("answers with the pinned key")
    assert found["daemon"]["found"].startswith("it answers")
    assert found["key"]["found"] == "mode 600"
    assert found["device"]["found"] in ("avx512", "avx2", "baseline")
    assert found["layer seccomp"]["verdict"] == "ok"
    assert sum(check.startswith("protects ") for check in found) == PROTECTIONS
    assert found["jail"]["verdict"] == "ok"


def test_text_says_what_to_do(lab: gg.LocalLab, tmp_path: Path) -> None:
    answer = doctor("lab", "--config", os.devnull, "--state-dir", tmp_path / "lab")
    assert answer.returncode == 1
    assert "FAILED  settings" in answer.stdout
    assert "coordinator.address" in answer.stdout
    assert "to do: correct them: `goblin lab config-check`" in answer.stdout
    assert answer.stdout.endswith("something must be mended\n")


def test_another_key_and_a_silent_address_are_told_apart(lab: gg.LocalLab, tmp_path: Path) -> None:
    status, found = findings("host", tmp_path / "host", **reach(lab, pin="00" * 32))
    assert status == 1
    assert found["coordinator"]["verdict"] == "FAILED"
    assert "ask its operator for its pin" in found["coordinator"]["to_do"]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        port = taken.getsockname()[1]
        settings = {**reach(lab), "coordinator_address": f"127.0.0.1:{port}"}
        status, found = findings("host", tmp_path / "host", **settings)
    assert status == 1
    assert "firewall" in found["coordinator"]["to_do"]


def test_a_port_that_is_taken_and_rights_that_are_too_wide(tmp_path: Path) -> None:
    state = tmp_path / "coordinator"
    (state / "identity").mkdir(parents=True)
    key = state / "identity" / "identity.key"
    key.write_text("")
    key.chmod(0o644)
    state.chmod(0o755)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        status, found = findings("coordinator", state, listen_address="127.0.0.1", listen_port=port)
    assert status == 1
    assert found["port"]["verdict"] == "FAILED"
    assert "listen.port" in found["port"]["to_do"]
    assert found["key"]["verdict"] == "FAILED"
    assert found["key"]["to_do"] == f"chmod 600 '{key}'"
    assert found["state directory"]["verdict"] == "note"
    assert not any(check.startswith("layer ") for check in found), "a coordinator loads no plugin"


def test_more_memory_than_there_is(lab: gg.LocalLab, tmp_path: Path) -> None:
    status, found = findings("host", tmp_path / "host", **reach(lab), memory="900TiB")
    assert status == 1
    assert "lower the setting" in found["memory"]["to_do"]


def test_a_role_that_is_none_is_refused() -> None:
    answer = doctor("hosts")
    assert answer.returncode == 2
    assert "coordinator" in answer.stderr
