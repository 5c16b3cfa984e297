# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Estimates: what bounds a job is named, and what they say is near what happens. How near, measures
`scripts/bench estimate`."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from e2e import TEST_PLUGINS, until
from relay import LinkSpec, Relay

import gpugoblin as gg

ELSEWHERE = "127.0.0.2"
LINK = LinkSpec(50e6, 0.05)


@contextmanager
def throttled(
    hosts: int, link: LinkSpec = LINK, shared: float | None = None, **more: Any
) -> Iterator[gg.LocalLab]:
    """A local network whose hosts reach the lab node over slow links."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    options = {"listen.port": port, "listen.public-address": ELSEWHERE}
    with (
        Relay((ELSEWHERE, port), ("127.0.0.1", port), link, shared),
        gg.local(hosts=hosts, lab_options=options, **more) as lab,
    ):
        yield lab


@pytest.fixture(scope="module")
def slow() -> Iterator[gg.LocalLab]:
    with throttled(2) as lab:
        yield lab


@pytest.fixture(scope="module")
def quick() -> Iterator[gg.LocalLab]:
    with gg.local(hosts=2, plugins=[TEST_PLUGINS / "tiny-tasks.so"]) as lab:
        yield lab


def operands(m: int, k: int, n: int, dtype: str = "float32") -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    return rng.random((m, k)).astype(dtype), rng.random((k, n)).astype(dtype)


def test_a_host_link_bounds(slow: gg.LocalLab) -> None:
    a, b = operands(1000, 1000, 1000)
    told = slow.matmul(a, b, dry_run=True)
    assert isinstance(told, gg.Estimate)
    assert told.bound == "host link"
    for rate in told.slowest_bytes_per_second:
        assert rate == pytest.approx(50e6 / 8, rel=0.25)
    assert 0.05 <= told.longest_round_trip < 0.5
    assert told.hosts == 2
    assert told.host_link_seconds <= told.seconds * 1.001
    assert slow.jobs() == [], "nothing was submitted"
    start = time.monotonic()
    result = slow.matmul(a, b, progress=False)
    took = time.monotonic() - start
    assert result.shape == (1000, 1000)
    assert told.seconds / 2 < took < 2 * told.seconds + 1
    text = str(told)
    assert "bound by the link of a host" in text
    assert "this computer alone, with NumPy" in text
    assert "faster than the network" in text


def test_the_labs_link_bounds() -> None:
    a, b = operands(1000, 500, 1000)
    with throttled(3, shared=20e6) as lab:
        told = lab.matmul(a, b, dry_run=True)
        assert told.bound == "lab link"
        assert told.lab_bytes_per_second[0] == pytest.approx(20e6 / 8, rel=0.3)


def test_hosts_bound(quick: gg.LocalLab) -> None:
    a, b = operands(1500, 1500, 1500)
    told = quick.matmul(a, b, dry_run=True)
    assert told.bound == "hosts"
    assert told.flops == pytest.approx(2 * 1500**3, rel=0.01)
    assert told.bytes_from_hosts == pytest.approx(4 * 1500**2, rel=0.01)
    assert "did not compute this kind yet" in str(told)
    twice = quick.matmul(a, b, policy="replicate=2", dry_run=True)
    assert twice.flops == pytest.approx(2 * told.flops, rel=0.1)
    wide = quick.matmul(a.astype("f8"), b.astype("f8"), dry_run=True)
    assert wide.flops_per_second < told.flops_per_second


def test_what_was_seen_counts(quick: gg.LocalLab) -> None:
    a, b = operands(1500, 1500, 1500)
    quick.matmul(a, b, progress=False)
    quick.matmul(b, a, progress=False)
    told = quick.matmul(a, b, dry_run=True)
    assert told.notes == ()


def test_a_running_job(slow: gg.LocalLab) -> None:
    a, b = operands(1000, 2000, 1000)
    job = slow.submit("matmul", a=a, b=b)
    told = job.estimate()
    assert 0 < told.remaining <= 1
    assert told.seconds > 0
    other = slow.matmul(b, a, dry_run=True)
    assert any("1 other job" in note for note in other.notes)
    job.result(120)
    with pytest.raises(gg.InvalidArgumentError, match="has ended"):
        job.estimate()


def test_a_kind_of_many_rounds(quick: gg.LocalLab) -> None:
    told = quick.submit("tiny-tasks", tasks=1000, dry_run=True)
    assert 1000 <= told.tasks <= 1020, "a few are started twice"
    ahead = quick.submit("tiny-tasks", tasks=1000, in_flight=1, dry_run=True)
    assert any("planned ahead" in note for note in ahead.notes)


def test_wrong_arguments_are_named_as_ever(quick: gg.LocalLab) -> None:
    a, b = operands(10, 11, 12)
    with pytest.raises(gg.ArgumentTypeError, match="dry_run"):
        quick.matmul(a, b, dry_run="yes")  # type: ignore[arg-type]
    with pytest.raises(gg.InvalidArgumentError, match="10"):
        quick.matmul(a, a, dry_run=True)
    with pytest.raises(gg.GoblinError, match="out"):
        quick.matmul(a, b, out=np.empty((10, 13), "f4"), dry_run=True)
    with pytest.raises(gg.UnavailableError, match=r"validator|trusted"):
        quick.matmul(a, b, policy="validator", dry_run=True)
    assert quick.jobs() == [] or all(job.done for job in quick.jobs())


def test_arrays_are_not_sent_and_files_not_read(quick: gg.LocalLab) -> None:
    """A product of 8 TB operands that nobody has room for is estimated."""
    a = np.lib.stride_tricks.as_strided(np.zeros(1, "f4"), (1 << 20, 1 << 20), (0, 0))
    told = quick.matmul(a, a, dry_run=True)
    assert told.flops == pytest.approx(2 * (1 << 20) ** 3, rel=0.01)
    assert told.seconds > 3600
    assert any("planned ahead" in note for note in told.notes)


def test_nobody_there() -> None:
    a, b = operands(10, 10, 10)
    with gg.local(hosts=1) as lab:
        lab.network.hosts[0].kill()
        until("the host is gone", lambda: not any(host.connected for host in lab.hosts()))
        with pytest.raises(gg.UnavailableError, match="no host is connected"):
            lab.matmul(a, b, dry_run=True)
