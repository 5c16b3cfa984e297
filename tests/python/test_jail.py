# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""A malicious plugin in a whole network, and daemons whose runners cannot be jailed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import e2e
import numpy as np
import pytest

import gpugoblin as gg

PROBE = e2e.TEST_PLUGINS / "jail-probe.so"
# tests/testing/plugins/jail_probe/modes.hpp
SPIN_DEAFLY = 3
LEFT_OUT = -1.0  # a probe that would end its runner


@pytest.fixture(scope="module")
def lab() -> Iterator[gg.LocalLab]:
    capped = {"runner.memory": "256MiB"}
    with gg.local(
        hosts=1,
        threads=1,
        memory="128MiB",
        validators=1,
        plugins=[PROBE],
        lab_options=capped,
    ) as lab:
        yield lab


def test_nothing_succeeds_on_hosts_nor_on_the_lab_nodes_side(lab: gg.LocalLab) -> None:
    job = lab.submit("jail-probe", pid=lab.network.hosts[0].pid, policy="validator")
    result = job.result(60)
    for side in ("host", "lab"):
        errors = np.asarray(result[side])
        assert len(errors) > 100
        # tests/core/jail/jail_test.cpp has the same probes with their names.
        assert not np.flatnonzero(errors == 0).size, side
        assert (errors == LEFT_OUT).sum() < len(errors) / 3, side


def runners_of(pid: int) -> list[int]:
    """Processes of this machine that descend from `pid`, itself left out."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rsplit(")", 1)[1].split()[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def test_a_killed_host_leaves_no_process() -> None:
    with gg.local(hosts=1, validators=1, threads=1, memory="128MiB", plugins=[PROBE]) as lab:
        job = lab.submit("jail-probe", mode=SPIN_DEAFLY, policy="validator")
        hosts = [host.pid for host in lab.network.hosts]
        (pid, below) = e2e.until(
            "a runner computes",
            lambda: next(((pid, found) for pid in hosts if (found := runners_of(pid))), None),
        )
        os.kill(pid, signal.SIGKILL)
        e2e.until("nothing of it is left", lambda: not any(map(alive, below)), 60)
        job.cancel()


def alive(pid: int) -> bool:
    """A dead process that nobody has waited for yet is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("role", ["host", "lab"])
def test_a_daemon_without_a_layer_that_is_required_does_not_start(
    role: str, tmp_path: Path
) -> None:
    settings = {"coordinator_address": "127.0.0.1:1", "coordinator_pin": "00" * 32}
    done = e2e.run_daemon(role, tmp_path / role, **settings, jail_require="landlock,chains")
    assert done.returncode == 2
    assert "'chains' is no layer of the jail; there are user-namespace" in done.stderr
