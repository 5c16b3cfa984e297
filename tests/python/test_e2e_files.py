# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Files of the researcher that change while their job runs."""

from __future__ import annotations

from pathlib import Path

import e2e
import numpy as np
import pytest

import gpugoblin as gg

N = 600


def test_a_changed_input_blames_no_host(tmp_path: Path) -> None:
    """Results of a slow host come back after the file under their check was overwritten."""
    path = tmp_path / "a.npy"
    np.save(path, np.ones((N, N), np.float32))
    late = e2e.liar("slow", delay="1500ms")
    with gg.local(hosts=1, memory="64MiB", host_options=[late]) as lab:
        job = lab.submit("matmul", a=path, b=np.ones((N, N), np.float32))
        e2e.until("inputs are on their way", lambda: job.cost.bytes_sent > 0)
        assert str(job.status) == "running"
        np.load(path, mmap_mode="r+")[:] = 2
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
    late = e2e.liar("slow", delay="250ms")
    there = tmp_path / "mapped.npy"
    mapped = np.lib.format.open_memmap(there, "w+", np.float32, (N, N))
    with gg.local(hosts=1, memory="64MiB", host_options=[late]) as lab:
        for out, path in ((tmp_path / "c.npy", tmp_path / "c.npy"), (mapped, there)):
            job = lab.submit("matmul", a=ones, b=ones, out=out)
            with pytest.raises(gg.InvalidArgumentError, match=rf"job {job.number} writes") as why:
                lab.submit("matmul", a=ones, b=ones, out=out)
            assert str(path) in str(why.value)
            with pytest.raises(gg.InvalidArgumentError, match=rf"job {job.number} writes"):
                lab.submit("matmul", a=path, b=ones)
            assert job.result(30) is not None
            assert (np.load(path) == N).all()
            assert sorted(p.name for p in tmp_path.glob(".*")) == [], "no temporary is left"
            again = lab.submit("matmul", a=2 * ones, b=ones, out=out)  # it has ended: free again
            again.result(30)
            assert (np.load(path) == 2 * N).all()


@pytest.mark.parametrize("how", ["cut", "replaced", "removed"])
@pytest.mark.parametrize("restart", [False, True])
def test_an_out_file_that_is_taken_away(tmp_path: Path, how: str, restart: bool) -> None:
    path = tmp_path / "c.npy"
    a, b = np.ones((3000, 1500), np.float32), np.ones((1500, 3000), np.float32)
    late = e2e.liar("slow", delay="300ms", after=2)
    with gg.local(hosts=1, memory="64MiB", host_options=[late]) as lab:
        job = lab.submit("matmul", a=a, b=b, out=path)
        e2e.until("some of it is merged", lambda: job.progress.accepted >= 2)
        if restart:
            lab.network.lab.kill()
        if how == "cut":
            with path.open("r+b") as file:
                file.truncate(4096)
        elif how == "removed":
            path.unlink()
        else:
            (tmp_path / "other").write_bytes(path.read_bytes())
            (tmp_path / "other").rename(path)
        if restart:
            lab.network.lab.restart()
        with pytest.raises(gg.JobFailedError, match="output 'c'") as why:
            job.result(30)
        assert str(path) in str(why.value)
        assert "submit the job again" in str(why.value)
        assert lab.matmul(np.ones((9, 9)), np.ones((9, 9))).sum() == 9 * 81
