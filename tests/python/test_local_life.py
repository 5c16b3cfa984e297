# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Local networks begin and end: nothing is left, whoever is killed and whatever is missing."""

from __future__ import annotations

import concurrent.futures
import fcntl
import os
import select
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin import _local

RNG = np.random.default_rng(8)


def test_the_lab_node_is_killed() -> None:
    a, b = RNG.standard_normal((3000, 1500)), RNG.standard_normal((1500, 3000))
    with gg.local(hosts=2, memory="128MiB") as lab:
        whole = lab.matmul(a, b)
        job = lab.submit("matmul", a=a, b=b)
        lab.network.lab.restart()
        assert job.result(60).tobytes() == whole.tobytes()
        lab.network.lab.kill()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(lab.matmul, a, b)
            lab.network.lab.restart()
            assert waiting.result(60).tobytes() == whole.tobytes()


def test_a_lab_node_that_stays_away() -> None:
    with gg.local(hosts=1, patience=0.3) as lab:
        lab.network.lab.kill()
        with pytest.raises(gg.UnavailableError, match=r"has been away for 0 s.*journal"):
            lab.hosts()
    with pytest.raises(gg.GoblinError, match="was closed"):
        lab.hosts()


def test_nothing_is_left() -> None:
    with gg.local(hosts=1) as lab:
        directory = lab.network.directory
        watches = [os.pidfd_open(daemon.pid) for daemon in lab.network.daemons()]
        assert directory.exists()
        a = RNG.standard_normal((10, 10))
        c = lab.matmul(a, a)
    np.testing.assert_allclose(c, a @ a, atol=1e-12)
    assert not directory.exists()
    for watch in watches:
        assert select.select([watch], [], [], 0)[0]
        os.close(watch)


KILLED = """
import gpugoblin as gg, os, sys, time
lab = gg.local(hosts=1, directory=sys.argv[1])
print(*(daemon.pid for daemon in lab.network.daemons()), flush=True)
time.sleep(1000)
"""


def test_a_killed_program_leaves_no_process(tmp_path: Path) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    watches = [os.pidfd_open(int(pid)) for pid in program.stdout.readline().split()]
    assert len(watches) == 3
    program.kill()
    program.communicate()
    for watch in watches:
        assert select.select([watch], [], [], 10)[0]
        os.close(watch)
    assert len(list(tmp_path.iterdir())) == 1
    gg.local(hosts=1, directory=tmp_path).close()  # removes what the other left, and its own
    assert list(tmp_path.iterdir()) == []


def test_a_network_that_begins_is_not_taken_for_a_killed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock_file = fcntl.flock
    swept: list[int] = []

    def sweep_first(handle: int, how: int) -> None:
        """Another program begins in the moment before this one has its lock."""
        if not swept:
            swept.append(handle)
            _local._sweep(tmp_path)
        lock_file(handle, how)

    monkeypatch.setattr(fcntl, "flock", sweep_first)
    directory, lock = _local._locked_directory(tmp_path)
    assert swept == [lock]
    _local._sweep(tmp_path)
    assert directory.exists()
    os.close(lock)
    _local._sweep(tmp_path)
    assert not directory.exists()


def test_a_daemon_that_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(gg.InvalidArgumentError, match=r"^the local lab refuses .*no\.such\.key"):
        gg.local(hosts=1, lab_options={"no.such.key": 1}, directory=tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(gg.InvalidArgumentError, match=r"host-0 refuses .*memory = '1MiB'.*64\.0"):
        gg.local(hosts=1, memory="1MiB", directory=tmp_path)
    with pytest.raises(gg.InvalidArgumentError, match="has no 'nonsense'"):
        gg.local(hosts=1, host_options=[{"nonsense": 1}], directory=tmp_path)
    false = Path("/bin/false")
    with pytest.raises(gg.UnavailableError, match=r"local host-0 ended while it started; its log"):
        gg.local(hosts=1, host_options=[{"program": false}], directory=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=4096)
    monkeypatch.setattr("gpugoblin._daemons.shutil.disk_usage", lambda path: usage)
    full = r"local host-0 ended while it started: 4096 bytes are free on the disk of .*directory="
    with pytest.raises(gg.ExhaustedError, match=full):
        gg.local(hosts=1, host_options=[{"program": "/bin/false"}], directory=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_closed_network_is_not_entered_again() -> None:
    lab = gg.local(hosts=1, memory="64MiB")
    with lab:
        pass
    with pytest.raises(gg.UnavailableError, match=r"\(closed\)> cannot be used any more"), lab:
        pass
    with pytest.raises(gg.JobCancelledError, match=r"this connection was closed: .* local\(\)"):
        lab.jobs()
