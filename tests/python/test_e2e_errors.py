# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""What goes wrong says what, which value and what to do; the rest goes on."""

from __future__ import annotations

import functools
import signal
import subprocess
from pathlib import Path
from typing import Any

import e2e
import numpy as np
import numpy.typing as npt
import pytest

import gpugoblin as gg
from gpugoblin._local import NetworkDaemon

pytestmark = pytest.mark.timeout(60)

Array = npt.NDArray[Any]
FAULTY = e2e.TEST_PLUGINS / "faulty.so"


def operands(m: int = 1500, k: int = 600, n: int = 1500) -> tuple[Array, Array]:
    rng = np.random.default_rng(m + k + n)
    return rng.standard_normal((m, k)).astype("f4"), rng.standard_normal((k, n)).astype("f4")


# ---- daemons that cannot start, or cannot reach one another ----


def test_a_port_in_use(tmp_path: Path) -> None:
    with gg.local(hosts=1) as lab:
        coordinator, node = lab.network.coordinator, lab.network.lab
        for role, port in (("coordinator", coordinator.port), ("lab", node.port)):
            more = {"coordinator_address": f"127.0.0.1:{coordinator.port}"}
            more["coordinator_pin"] = coordinator.pin
            ended = e2e.run_daemon(
                role,
                tmp_path / role,
                listen_address="127.0.0.1",
                listen_port=port,
                **(more if role == "lab" else {}),
            )
            assert ended.returncode != 0
            assert str(port) in ended.stderr, ended.stderr
            assert "in use" in ended.stderr, ended.stderr


def test_a_journal_cut_to_nothing_takes_no_files_with_it() -> None:
    with gg.local(hosts=1) as lab:
        node = lab.network.lab
        a, b = operands()
        job = lab.submit("matmul", a=a, b=b)
        expected = job.result(30)
        node.kill()
        journal, staging = node.directory / "journal.sqlite", node.directory / "staging"
        files = {path: path.read_bytes() for path in staging.glob("*.bin")}
        assert files, "the result is kept"
        logs = {path: path.read_bytes() for path in node.directory.glob("journal.sqlite*")}
        coordinator = lab.network.coordinator
        for _ in range(2):  # not at the second try either
            journal.write_bytes(b"")
            ended = e2e.run_daemon(
                "lab",
                node.directory,
                listen_address="127.0.0.1",
                listen_port=0,
                coordinator_address=f"127.0.0.1:{coordinator.port}",
                coordinator_pin=coordinator.pin,
            )
            assert ended.returncode != 0
            for words in (str(journal), str(staging), "Restore the journal", "move that folder"):
                assert words in ended.stderr, ended.stderr
            assert {path: path.read_bytes() for path in staging.glob("*.bin")} == files
        for path, content in logs.items():
            path.write_bytes(content)
        node.restart()
        with gg.connect(lab.address) as again:
            assert (again.job(job.number).result(30) == expected).all()


def test_a_second_daemon_on_the_same_state() -> None:
    with gg.local(hosts=1) as lab:
        network = lab.network
        reach = {
            "coordinator_address": f"127.0.0.1:{network.coordinator.port}",
            "coordinator_pin": network.coordinator.pin,
        }
        here = {"listen_address": "127.0.0.1", "listen_port": 0}
        for daemon, settings in (
            (network.lab, {**here, **reach}),
            (network.coordinator, here),
            (network.hosts[0], reach),
        ):
            role = daemon.name.split("-")[0]
            ended = e2e.run_daemon(role, daemon.directory, **settings)
            assert ended.returncode != 0, role
            assert str(daemon.directory) in ended.stderr, ended.stderr
            assert daemon.running
        a, b = operands(100, 50, 60)
        assert lab.matmul(a, b).shape == (100, 60)  # the first one is none the worse


def test_a_wrong_pin() -> None:
    with gg.local(hosts=1) as lab:
        network = lab.network
        stranger = NetworkDaemon(
            network,
            "host-wrong",
            "host",
            [e2e.goblin()],
            {
                "coordinator.address": f"127.0.0.1:{network.coordinator.port}",
                "coordinator.pin": "ab" * 32,
                "trust.root": e2e.some_root(),
                "log.stderr": False,
            },
        )
        network.hosts.append(stranger)
        stranger.launch()
        stranger.await_ready()

        def complaint() -> str:
            said = e2e.status(stranger)["coordinator state"]
            return said if "key" in said or "pin" in said else ""

        said = e2e.until("the host says what is wrong", complaint)
        assert network.coordinator.pin[:8] in said or "abab" in said, said
        assert e2e.status(stranger)["idle because"]
        assert len(lab.hosts()) == 1


def test_an_unknown_kind() -> None:
    with gg.local(hosts=1) as lab:
        with pytest.raises(gg.NotFoundError, match=r"faulty[\s\S]*matmul/1"):
            lab.submit("faulty", x=np.zeros(3))
        assert lab.jobs() == []


# ---- disks ----


def test_a_full_disk_of_the_lab_node() -> None:
    a, b = operands()
    with gg.local(hosts=1, memory="64MiB", lab_options={"staging.cap": "10MiB"}) as lab:
        with pytest.raises(gg.ExhaustedError, match=r"(?i)cap|space|disk"):
            lab.matmul(a, b)
        small = operands(100, 50, 60)
        assert lab.matmul(*small).shape == (100, 60)


def test_no_room_for_results() -> None:
    """Arrays and output fit the cap, what hosts send back does not."""
    a, b = operands()
    size = a.nbytes + b.nbytes + a.shape[0] * b.shape[1] * 4
    options = {"staging.cap": f"{size // 1024 + 100}KiB"}
    with gg.local(hosts=1, memory="64MiB", lab_options=options) as lab:
        job = lab.submit("matmul", a=a, b=b)
        with pytest.raises(gg.JobFailedError, match=r"(?i)cap|space|disk") as failed:
            job.result(30)
        assert failed.value.reason == "exhausted"
        assert lab.matmul(*operands(100, 50, 60)).shape == (100, 60)


def blobs_of(host: NetworkDaemon, least: int) -> list[Path]:
    return [
        path
        for path in (host.directory / "cache").rglob("*")
        if path.is_file() and path.stat().st_size >= least
    ]


def test_a_corrupt_blob_in_a_hosts_cache() -> None:
    a, b = operands()
    with gg.local(hosts=1, memory="64MiB") as lab:
        (host,) = lab.network.hosts
        first = lab.submit("matmul", a=a, b=b)
        digest = e2e.sha256(first.result(30))
        second = lab.submit("matmul", a=a, b=b)
        assert e2e.sha256(second.result(30)) == digest
        assert second.cost.bytes_sent < first.cost.bytes_sent // 2  # the host kept its inputs
        for restart in (False, True):
            blobs = blobs_of(host, 100_000)
            assert blobs
            for path in blobs:
                data = bytearray(path.read_bytes())
                data[len(data) // 2] ^= 0x10
                path.chmod(0o600)
                path.write_bytes(data)
            if restart:
                host.restart()
            third = lab.submit("matmul", a=a, b=b)
            assert e2e.sha256(third.result(30)) == digest
            explained = third.explain()
            assert explained.liars == (), str(explained)
            assert third.cost.bytes_sent > first.cost.bytes_sent // 2, "the blobs came anew"


def test_a_cache_too_small_for_a_blob() -> None:
    x = np.arange(3 << 20, dtype=np.float64)  # 24 MiB in one piece
    with gg.local(hosts=1, memory="256MiB", cache="16MiB", plugins=[FAULTY]) as lab:
        job = lab.submit("faulty", x=x, policy="algebraic")
        with pytest.raises(gg.JobFailedError, match=r"task 1 failed \d times.*exhausted"):
            job.result(30)
        (host,) = lab.network.hosts
        assert "24.0 MiB" in host.log_text()
        assert "raise the cap" in e2e.status(host)["idle because"]
        a, b = operands(100, 50, 60)
        assert lab.matmul(a, b).shape == (100, 60)


# ---- hosts that are not there, too small, or told to go ----


def has_accepted(job: gg.Job, tasks: int) -> bool:
    return job.progress.accepted >= tasks


def test_a_job_waits_for_a_host() -> None:
    a, b = operands()
    with gg.local(hosts=1, memory="64MiB") as lab:
        (host,) = lab.network.hosts
        host.kill()
        e2e.until("the host is gone", lambda: not any(h.connected for h in lab.hosts()))
        job = lab.submit("matmul", a=a, b=b)
        assert e2e.until("a reason", lambda: job.message) == "no host is connected"
        assert not job.wait(0.1)
        host.restart()
        assert job.result(30).shape == (1500, 1500)


def test_a_task_too_large_for_every_host() -> None:
    x = np.arange(16 << 20, dtype=np.float64)  # 128 MiB that the plan does not cut
    with gg.local(hosts=1, memory="64MiB", plugins=[FAULTY]) as lab:
        job = lab.submit("faulty", x=x, policy="algebraic")
        with pytest.raises(gg.JobFailedError, match=r"task 1 failed \d times.*exhausted"):
            job.result(30)
        assert lab.matmul(*operands(100, 50, 60)).shape == (100, 60)


def test_a_check_that_abstains_needs_a_second_host() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.random((300, 500)) < 0.1, rng.random((500, 300)) < 0.1
    with gg.local(hosts=1, memory="64MiB") as lab:
        job = lab.submit("matmul", a=a, b=b)
        why = e2e.until("a reason", lambda: job.message if "abstained" in job.message else "")
        assert "1 independent host here" in why
        job.cancel()
        assert job.wait(10)


def test_a_stopped_host_hands_its_leases_back() -> None:
    a, b = operands(3000, 1500, 3000)
    with gg.local(hosts=2, memory="64MiB") as lab:
        digest = e2e.sha256(lab.matmul(a, b))
        for gone, how in zip(lab.network.hosts, ("signal", "command"), strict=True):
            job = lab.submit("matmul", a=a, b=b)
            e2e.until("it runs on both", functools.partial(has_accepted, job, 3))
            if how == "signal":
                gone.signal(signal.SIGTERM)
            else:
                e2e.ask(gone, "stop").check_returncode()
            assert gone.wait(10), "it ends soon"
            assert e2e.sha256(job.result(30)) == digest
            explained = job.explain()
            assert explained.cost.refused == 0
            assert not any(host.quarantined for host in explained.hosts)
            # Nobody waited for a deadline of what it held.
            assert not any("deadline" in item.what for item in explained.incidents), str(explained)
            gone.restart()
            e2e.until("it is back", lambda: sum(h.connected for h in lab.hosts()) == 2)


def test_pause_resume_finish() -> None:
    a, b = operands(3000, 1500, 3000)
    with gg.local(hosts=1, memory="64MiB") as lab:
        (host,) = lab.network.hosts
        job = lab.submit("matmul", a=a, b=b)
        e2e.until("it runs", lambda: job.progress.accepted >= 2)
        e2e.ask(host, "pause").check_returncode()
        e2e.until("the lab node knows", lambda: lab.hosts()[0].state == "paused")
        e2e.until("the job says why it waits", lambda: "paused" in job.message)
        assert e2e.status(host)["state"] == "paused"
        assert "pause" in e2e.status(host)["idle because"]
        so_far = job.progress.accepted
        host.restart()  # a pause survives it
        e2e.until("it is back", lambda: lab.hosts()[0].connected)
        assert e2e.status(host)["state"] == "paused"
        assert not job.wait(0.2)
        assert job.progress.accepted == so_far
        e2e.ask(host, "resume").check_returncode()
        e2e.until("it goes on", lambda: job.progress.accepted > so_far)
        # What it has begun is completed and delivered before it ends.
        before = job.explain().incident_count
        e2e.ask(host, "finish").check_returncode()
        assert host.wait(20), "it ends when its work is done"
        assert job.explain().incident_count == before, str(job.explain())
        host.restart()
        assert job.result(30).shape == (3000, 3000)


def test_commands_to_nobody(tmp_path: Path) -> None:
    for role in ("host", "lab", "coordinator"):
        command = [e2e.goblin(), role, "status", "--state-dir", str(tmp_path / role)]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        assert answer.returncode != 0
        assert str(tmp_path / role) in answer.stderr
        assert f"goblin {role} run" in answer.stderr
