# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Files of the researcher that change while their job runs."""

from __future__ import annotations

from pathlib import Path

import e2e
import numpy as np
import pytest

import gpugoblin as gg

N = 600


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A host with this gate sends no result before the file is removed."""
    path = tmp_path / "gate"
    path.touch()
    return path


def test_a_changed_input_blames_no_host(tmp_path: Path, gate: Path) -> None:
    """Results of a slow host come back after the file under their check was overwritten."""
    path = tmp_path / "a.npy"
    np.save(path, np.ones((N, N), np.float32))
    late = e2e.liar("slow", delay="1ms", gate=gate)
    with gg.local(hosts=1, memory="64MiB", host_options=[late]) as lab:
        job = lab.submit("matmul", a=path, b=np.ones((N, N), np.float32))
        e2e.until("inputs are on their way", lambda: job.cost.bytes_sent > 0)
        assert str(job.status) == "running"
        np.load(path, mmap_mode="r+")[:] = 2
        gate.unlink()
        with pytest.raises(gg.JobFailedError, match="array 'a' was changed while the job"):
            job.result(30)
        explained = str(job.explain())
    assert "quarantined" not in explained


def test_another_file_after_a_restart_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.ones((N, N), np.float32))
    late = e2e.liar("slow", delay="60s")
    with gg.local(hosts=1, memory="64MiB", host_options=[late]) as lab:
        job = lab.submit("matmul", a=path, b=np.ones((N, N), np.float32))
        e2e.until("it runs", lambda: str(job.status) == "running")
        lab.network.lab.kill()
        np.save(tmp_path / "other.npy", np.zeros((N, N), np.float32))
        (tmp_path / "other.npy").rename(path)
        lab.network.lab.restart()
        with pytest.raises(gg.JobFailedError, match="another file than when the job"):
            job.result(30)


def test_one_out_file_for_one_running_job(tmp_path: Path) -> None:
    """The second job is refused, names the first, and leaves the file and the first job alone."""
    ones = np.ones((N, N), np.float32)
    there = tmp_path / "mapped.npy"
    mapped = np.lib.format.open_memmap(there, "w+", np.float32, (N, N))
    with gg.local(hosts=1, memory="64MiB") as lab:
        (host,) = lab.network.hosts
        for out, path in ((tmp_path / "c.npy", tmp_path / "c.npy"), (mapped, there)):
            e2e.ask(host, "pause").check_returncode()
            e2e.until("the lab node knows", lambda: lab.hosts()[0].state == "paused")
            job = lab.submit("matmul", a=ones, b=ones, out=out)
            with pytest.raises(gg.InvalidArgumentError, match=rf"job {job.number} writes") as why:
                lab.submit("matmul", a=ones, b=ones, out=out)
            assert str(path) in str(why.value)
            with pytest.raises(gg.InvalidArgumentError, match=rf"job {job.number} writes"):
                lab.submit("matmul", a=path, b=ones)
            e2e.ask(host, "resume").check_returncode()
            assert job.result(30) is not None
            assert (np.load(path) == N).all()
            assert sorted(p.name for p in tmp_path.glob(".*")) == [], "no temporary is left"
            again = lab.submit("matmul", a=2 * ones, b=ones, out=out)  # it has ended: free again
            again.result(30)
            assert (np.load(path) == 2 * N).all()


def test_an_out_file_that_is_removed_before_any_result(tmp_path: Path, gate: Path) -> None:
    path = tmp_path / "c.npy"
    late = e2e.liar("slow", delay="1ms", gate=gate)
    with gg.local(hosts=1, memory="64MiB", host_options=[late]) as lab:
        ones = np.ones((N, N), np.float32)
        job = lab.submit("matmul", a=ones, b=ones, out=path)
        e2e.until("inputs are on their way", lambda: job.cost.bytes_sent > 0)
        assert job.progress.accepted == 0
        path.unlink()
        gate.unlink()
        with pytest.raises(gg.JobFailedError, match=r"output 'c'.* was removed while") as why:
            job.result(30)
        assert str(path) in str(why.value)


@pytest.mark.parametrize("how", ["cut", "regrown", "replaced", "removed"])
@pytest.mark.parametrize("restart", [False, True])
def test_an_out_file_that_is_taken_away(tmp_path: Path, how: str, restart: bool) -> None:
    path = tmp_path / "c.npy"
    a, b = np.ones((3000, 1500), np.float32), np.ones((1500, 3000), np.float32)
    late = e2e.liar("slow", delay="60s", after=2)  # two are at once, also after each restart
    with gg.local(hosts=1, memory="64MiB", host_options=[late]) as lab:
        (host,) = lab.network.hosts
        job = lab.submit("matmul", a=a, b=b, out=path)
        e2e.until("some of it is merged", lambda: job.progress.accepted >= 2)
        if restart:
            lab.network.lab.kill()
        if how in ("cut", "regrown"):
            size = path.stat().st_size
            with path.open("r+b") as file:
                file.truncate(4096)
                if how == "regrown":
                    file.truncate(size)
        elif how == "removed":
            path.unlink()
        else:
            (tmp_path / "other").write_bytes(path.read_bytes())
            (tmp_path / "other").rename(path)
        if restart:
            lab.network.lab.restart()
        host.kill()
        host.restart()
        with pytest.raises(gg.JobFailedError, match="output 'c'") as why:
            job.result(30)
        assert str(path) in str(why.value)
        assert "submit the job again" in str(why.value)
        host.kill()
        host.restart()
        assert lab.matmul(np.ones((9, 9)), np.ones((9, 9))).sum() == 9 * 81


def test_the_out_file_of_a_job_that_another_program_submitted(tmp_path: Path) -> None:
    ones = np.ones((N, N), np.float32)
    npy = tmp_path / "c.npy"
    raw = gg.RawFile(tmp_path / "raw", (N, N), "float32", offset=64)
    with gg.local(hosts=1, memory="64MiB") as lab:
        jobs = [lab.submit("matmul", a=ones, b=ones, out=out) for out in (npy, raw)]
        for job in jobs:
            job.result(30)
        lab.network.lab.restart()
        with gg.connect(lab.address) as other:
            for job, path in zip(jobs, (npy, raw.path), strict=True):
                found = other.job(job.number).result(30)
                assert isinstance(found, np.memmap)
                assert Path(found.filename or "") == path
                assert (found.shape, found.dtype) == ((N, N), np.float32)
                assert (found == N).all()
                del found
                assert f"output 'c' is in: {path}" in str(other.job(job.number).explain())
            npy.unlink()
            with raw.path.open("r+b") as file:
                file.truncate(4096)
            for job, path in zip(jobs, (npy, raw.path), strict=True):
                says = rf"job {job.number} wrote its output 'c' \(.* of f32\) to {path}, at byte"
                with pytest.raises(gg.NotFoundError, match=says):
                    other.job(job.number).result(30)
            assert raw.path.stat().st_size == 4096, "what was cut is not made long again"
            assert not npy.exists()
