# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""What people are told of tasks that fail, hang or differ, and of what moved."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

import e2e
import numpy as np
import pytest

import gpugoblin as gg

FAULTY = e2e.TEST_PLUGINS / "faulty.so"


def mode(name: str) -> int:
    """A value of FaultyMode."""
    text = (e2e.ROOT / "tests/testing/plugins/faulty_modes.hpp").read_text()
    body = re.sub(r"//.*", "", text[text.index("enum FaultyMode") :])
    names = re.findall(r"\bk\w+", body[body.index("{") : body.index("}")])
    return names.index(name)


def vector(length: int = 8) -> Any:
    return np.arange(float(length))


@pytest.fixture(scope="module")
def lab() -> Iterator[gg.LocalLab]:
    with gg.local(hosts=2, memory="64MiB", plugins=[FAULTY]) as lab:
        yield lab


def logs(lab: gg.LocalLab) -> str:
    return "".join((host.directory / "host.log").read_text() for host in lab.network.hosts)


def test_a_failed_job_says_what_the_plugin_said(lab: gg.LocalLab) -> None:
    job = lab.submit("faulty", x=vector(), policy="algebraic", mode=mode("kExecuteThrow"))
    with pytest.raises(gg.JobFailedError) as failed:
        job.result(60)
    says = str(failed.value)
    assert re.search(r"host-\d says: thrown by execute \(logs: ", says), says
    for host in lab.network.hosts:
        assert str(host.directory / "host.log") in says
    assert "keep=True" in says
    assert "bytes of memory" not in says
    named = (
        rf"a task failed: faulty/1, job {job.number} of lab node {lab.network.lab.pin[:16]}, lease"
    )
    assert re.search(named, logs(lab)), logs(lab)
    # Nothing of it went to the lab node.
    assert "thrown" not in job.message
    assert "thrown" not in str(job.explain())


def test_each_job_has_its_own_words(lab: gg.LocalLab) -> None:
    exits = lab.submit("faulty", x=vector(), policy="algebraic", mode=mode("kExecuteExit3"))
    throws = lab.submit("faulty", x=vector(), policy="algebraic", mode=mode("kExecuteThrow"))
    with pytest.raises(gg.JobFailedError, match=r"ended the process with exit status 3"):
        exits.result(60)
    with pytest.raises(gg.JobFailedError, match=r"says: thrown by execute"):
        throws.result(60)


def test_what_a_plugin_prints_is_in_the_log_of_its_host(lab: gg.LocalLab) -> None:
    job = lab.submit("faulty", x=vector(), policy="algebraic", mode=mode("kExecutePrint"))
    job.result(30)
    said = rf"plugin of job {job.number} of lab node [0-9a-f]{{16}} says: "
    for line in ("printed", r"said\?\[31m in red"):
        e2e.until(line, functools.partial(lambda line: re.search(said + line, logs(lab)), line))


def test_a_cancelled_task_that_never_ends_leaves_its_host(lab: gg.LocalLab) -> None:
    x = vector()
    hangs = [
        lab.submit("faulty", x=x, policy="algebraic", mode=mode("kExecuteHang")) for _ in range(2)
    ]
    e2e.until("both hosts compute", lambda: all(host.leases for host in lab.hosts()))
    for job in hangs:
        job.cancel()
    y = lab.submit("faulty", x=x, policy="algebraic").result(30)
    np.testing.assert_array_equal(y, 2 * x)


def test_whoever_agreed_is_credited(lab: gg.LocalLab) -> None:
    job = lab.submit("faulty", x=vector(), policy="replicate")
    job.result(30)
    explained = job.explain()
    assert explained.cost.checks == 2
    assert sorted(host.accepted for host in explained.hosts) == [0, 1]
    assert sorted(host.confirmed for host in explained.hosts) == [0, 1]
    assert job.progress.hosts == 2
    assert "0 accepted, 1 confirmed, computed" in str(explained)
    answer = e2e.ask(lab.network.lab, "explain", str(job.number))
    assert re.search(r"confirmed +1\n", answer.stdout), answer.stdout


def test_replicas_that_differ_are_named() -> None:
    wrong = e2e.liar("ulp")
    with gg.local(hosts=2, memory="64MiB", plugins=[FAULTY], host_options=[wrong]) as lab:
        # A check that cannot tell: hosts must.
        job = lab.submit("faulty", x=vector(), policy="replicate", mode=mode("kCheckThrow"))
        says = e2e.until(
            "it says that they differ",
            lambda: re.search(
                r"the results of task \d+ differ \(hosts (\w+), (\w+)\)", job.message
            ),
            60,
        )
        assert {says[1], says[2]} == {host.pin[:16] for host in lab.network.hosts}
        assert "connect one more, or a validator" in job.message


def test_host_status_counts_the_bytes_of_blobs() -> None:
    with gg.local(hosts=1, memory="64MiB", plugins=[FAULTY]) as lab:
        x = vector(1 << 17)
        lab.submit("faulty", x=x, policy="algebraic").result(30)

        def moved(what: str) -> int:
            answer = e2e.ask(lab.network.hosts[0], "status")
            found = re.search(rf"bytes {what} +(\d+)", answer.stdout)
            assert found, answer.stdout
            return int(found[1])

        assert x.nbytes < moved("received") < 2 * x.nbytes
        assert x.nbytes < moved("sent") < 2 * x.nbytes
        # What an ended connection moved still counts.
        before = moved("received")
        lab.network.lab.restart()
        e2e.until("connected anew", lambda: any(host.connected for host in lab.hosts()), 60)
        assert moved("received") >= before
