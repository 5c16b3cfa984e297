# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Policy adaptive, and what a lab node remembers of hosts, on whole networks."""

from __future__ import annotations

import e2e
import numpy as np
import pytest

import gpugoblin as gg

pytestmark = pytest.mark.timeout(120)


def product() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    a = rng.standard_normal((4000, 200)).astype(np.float32)
    b = rng.standard_normal((200, 4000)).astype(np.float32)
    return a, b


def test_adaptive_computes_the_same_bits_and_catches_a_liar() -> None:
    a, b = product()
    with gg.local(
        hosts=3, validators=1, memory="64MiB", host_options=[e2e.liar("tile", after=1)]
    ) as lab:
        honest = e2e.sha256(lab.matmul(a, b))
        liar = lab.network.hosts[0].pin
        for _ in range(3):
            job = lab.submit("matmul", a=a, b=b, policy="adaptive")
            assert e2e.sha256(job.result(60)) == honest
            assert job.explain().policy == "adaptive"
        standing = {host.host: host for host in lab.hosts()}
        assert standing[liar].faults >= 1
        assert standing[liar].passed == 0
        assert all(
            host.faults == 0 and host.passed > 0
            for pin, host in standing.items()
            if pin != liar and not host.validator
        ), str(standing)


def test_adaptive_waits_for_a_validator_and_says_so() -> None:
    a, b = product()
    with gg.local(hosts=2, memory="64MiB") as lab:
        job = lab.submit("matmul", a=a, b=b, policy="adaptive")
        e2e.until("the reason is said", lambda: "needs a trusted host" in job.message)
        job.cancel()


def test_a_host_caught_twice_is_suspended_and_told() -> None:
    a, b = product()
    with gg.local(hosts=2, memory="64MiB", host_options=[e2e.liar("tile")]) as lab:
        liar = lab.network.hosts[0]
        for _ in range(2):
            before = {host.host: host.faults for host in lab.hosts()}.get(liar.pin, 0)
            while {host.host: host.faults for host in lab.hosts()}.get(liar.pin, 0) == before:
                lab.matmul(a, b)  # its lie is judged, unless the other host has done all before
        reason = next(host.reason for host in lab.hosts() if host.host == liar.pin)
        assert "2 wrong results of it: it gets no work for" in reason
        e2e.until(
            "its volunteer is told",
            lambda: any(
                "2 results of this host were wrong" in said for said in e2e.status(liar).values()
            ),
        )
