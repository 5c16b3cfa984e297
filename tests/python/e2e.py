# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""What the end-to-end tests share: programs, digests, waiting with a deadline."""

from __future__ import annotations

import atexit
import functools
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpugoblin import _programs
from gpugoblin._daemons import Daemon

ROOT = Path(__file__).resolve().parents[2]
# Another build may be tested: GOBLIN_BUILD=build/asan GOBLIN_BIN=build/asan/bin.
BUILD = Path(os.environ.get("GOBLIN_BUILD", ROOT / "build/release")).absolute()
LIAR = BUILD / "bin/goblin-lying-host"
LYING_COORDINATOR = BUILD / "bin/goblin-lying-coordinator"
TEST_PLUGINS = BUILD / "tests/plugins"


def goblin() -> str:
    """The program of the local network."""
    return str(_programs.find())


def sha256(array: npt.NDArray[Any]) -> str:
    """Of the elements in row-major order."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def until(what: str, holds: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Polls until `holds` answers something true; fails with `what` otherwise."""
    end = time.monotonic() + seconds
    while True:
        answer = holds()
        if answer:
            return answer
        assert time.monotonic() < end, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.005)


def liar(mode: str, rate: float = 1.0, **more: Any) -> dict[str, Any]:
    """Options of a lying host, for `local(host_options=…)`."""
    named = {f"liar.{key}": value for key, value in more.items()}
    return {"program": LIAR, "set": {"liar.mode": mode, "liar.rate": rate, **named}}


def ask(daemon: Daemon, *words: str) -> subprocess.CompletedProcess[str]:
    """`goblin ROLE WORDS…` to a daemon of the local network."""
    role = daemon.name.split("-")[0]
    command = [goblin(), role, *words, "--state-dir", str(daemon.directory)]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)


def plugin(lab: Any, *words: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """`goblin plugin WORDS…` about the coordinator of a local network."""
    state = ["--state-dir", lab.network.coordinator.directory, "--config", os.devnull]
    socket = ["--socket", lab.network.coordinator.socket]
    command = [goblin(), "plugin", *map(str, [*words, *state, *socket])]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert not check or answer.returncode == 0, answer.stderr
    return answer


def keys(lab: Any) -> Path:
    """Where a local network's throw-away keys are."""
    return Path(lab.network.directory) / "keys"


def status(daemon: Daemon) -> dict[str, str]:
    """What `goblin ROLE status` says."""
    answer = ask(daemon, "status", "--json")
    assert answer.returncode == 0, answer.stderr
    return dict(json.loads(answer.stdout))


@functools.cache
def some_root() -> Path:
    """The root file of a network that nobody runs, for daemons that only have to start."""
    directory = Path(tempfile.mkdtemp(prefix="goblin-root-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    command = [goblin(), "plugin", "keys", "init", str(directory / "keys"), "--no-passphrase"]
    command += ["--config", os.devnull, "--state-dir", str(directory / "state")]
    subprocess.run(command, capture_output=True, timeout=60, check=True)
    return directory / "keys/root-1.signed"


def run_daemon(role: str, directory: Path, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Starts a daemon that is expected to end by itself; keyword names have _ for dots."""
    command = [goblin(), role, "run", "--config", os.devnull, "--state-dir", str(directory)]
    if role != "coordinator":
        settings = {"trust_root": some_root(), **settings}
    for key, value in settings.items():
        command += ["--set", f"{key.replace('_', '.')}={value}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
