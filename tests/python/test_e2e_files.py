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
