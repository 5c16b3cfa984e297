# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Waiting: for lab nodes that come back, by futures, and why it takes so long."""

from __future__ import annotations

import concurrent.futures
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import e2e
import numpy as np
import pytest
from test_sdk_network import PRODUCT, A, waiting

import gpugoblin as gg

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def lab() -> Iterator[gg.LocalLab]:
    with gg.local(hosts=1, memory="64MiB") as lab:
        yield lab


# ---- connections that break ----


class Between:
    """A client that does something after the first `count` calls of one kind."""

    def __init__(self, client: Any, name: str, count: int, then: Callable[[], None]) -> None:
        self._client, self._name, self._left, self._then = client, name, count, then

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._client, name)
        if name != self._name:
            return real

        def call(*arguments: Any) -> Any:
            answer = real(*arguments)
            self._left -= 1
            if self._left == 0:
                self._then()
            return answer

        return call


@pytest.mark.parametrize(("name", "count"), [("stage", 1), ("stage", 2)])
def test_the_connection_breaks_while_arrays_are_staged(
    monkeypatch: pytest.MonkeyPatch, name: str, count: int
) -> None:
    with gg.local(hosts=1, memory="64MiB") as lab:

        def breaks() -> None:
            lab.network.lab.restart()
            lab.jobs()  # connects again

        monkeypatch.setattr(lab, "_client", Between(lab._client, name, count, breaks))
        b = A.T + 1
        job = lab.submit("matmul", a=A, b=b)
        np.testing.assert_array_equal(job.result(30), A @ b)
        assert len(lab.jobs()) == 1


def test_the_connection_breaks_while_shapes_are_asked_for() -> None:
    """The question is asked again, as nothing was done for it."""
    with gg.local(hosts=1, memory="64MiB") as lab:
        a = np.ones((1000, 300), np.float32)
        stop = threading.Event()

        def restart() -> None:
            for _ in range(3):
                lab.network.lab.restart()
            stop.set()

        thread = threading.Thread(target=restart)
        thread.start()
        products = 0
        while not stop.is_set():
            assert lab.submit("matmul", a=a, b=a.T).result(30).shape == (1000, 1000)
            products += 1
        thread.join()
        assert products


def test_forgetting_is_not_undone_by_a_broken_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    with gg.local(hosts=1, memory="64MiB") as lab:
        job = lab.submit("matmul", a=A, b=A.T)
        job.result(30)

        class Lost:
            def __init__(self, client: Any) -> None:
                self._client, self.lost = client, False

            def __getattr__(self, name: str) -> Any:
                return getattr(self._client, name)

            def forget(self, number: int) -> None:
                self._client.forget(number)
                if not self.lost:
                    self.lost = True
                    error = gg.UnavailableError("broke")
                    error.lost = True
                    raise error

        monkeypatch.setattr(job, "_client", Lost(job._client))
        job.forget()
        with pytest.raises(gg.NotFoundError):
            job.forget()


# ---- futures ----


def test_a_future_of_a_job_that_is_cancelled_and_forgotten(lab: gg.LocalLab) -> None:
    for _ in range(5):
        job = waiting(lab)
        future = job.as_future()
        job.cancel()
        job.forget()
        with pytest.raises(concurrent.futures.CancelledError):
            future.result(10)
        assert future.cancelled()
        with pytest.raises(concurrent.futures.CancelledError):
            job.as_future().result(10)  # asked for afterwards


def test_a_future_of_a_job_that_another_program_cancels_and_forgets(lab: gg.LocalLab) -> None:
    with gg.connect(lab.address) as other:
        job = waiting(lab)
        future = job.as_future()
        called = threading.Event()
        future.add_done_callback(lambda _: called.set())
        theirs = other.job(job.number)
        theirs.cancel()
        theirs.forget()
        done, _ = concurrent.futures.wait([future], timeout=10)
        assert done == {future}
        assert future.cancelled()
        assert called.wait(10)


def test_a_future_of_a_forgotten_result() -> None:
    with gg.local(hosts=1, memory="64MiB") as lab:
        job = lab.submit("matmul", a=A, b=A.T)
        assert lab.job(job.number).wait(30)
        lab.job(job.number).forget()
        with pytest.raises(gg.NotFoundError):
            job.as_future().result(10)


def test_futures_end_with_their_connection(lab: gg.LocalLab) -> None:
    other = gg.connect(lab.address)
    job = waiting(other)
    future = job.as_future()
    other.close()
    with pytest.raises(gg.JobCancelledError, match=r"closed"):
        future.result(10)
    assert not future.cancelled()
    mine = lab.job(job.number)
    assert mine.status in ("queued", "running")
    mine.cancel()


# ---- why a job waits ----


def test_time_outs_say_why(lab: gg.LocalLab) -> None:
    a = np.broadcast_to(np.ones(4000, np.float32), (8000, 4000))
    b = np.broadcast_to(np.ones(8000, np.float32), (4000, 8000))
    job = lab.submit("matmul", a=a, b=b)
    e2e.until("it runs", lambda: job.progress.running > 0)
    with pytest.raises(gg.TimeoutError, match=r"within 0\.01 s \(.+\); it goes on: wait longer"):
        job.result(0.01)
    job.cancel()
    with pytest.raises(gg.TimeoutError, match=r"within 0\.01 s \(.+\); job \d+ was cancelled"):
        lab.matmul(a, b, timeout=0.01)


def test_why_a_job_waits() -> None:
    with gg.local(hosts=1, memory="64MiB") as lab:
        (host,) = lab.network.hosts
        e2e.ask(host, "pause").check_returncode()
        e2e.until("the lab node knows", lambda: lab.hosts()[0].state == "paused")
        job = lab.submit("matmul", a=A, b=A.T)
        assert job.message.startswith("1 of 1 host paused")
        with pytest.raises(gg.TimeoutError, match=r"1 of 1 host paused.*it goes on"):
            job.result(0.01)
        explained = job.explain()
        assert "1 of 1 host paused" in explained.note
        assert "waits: 1 of 1 host paused" in str(explained)
        assert "0 hosts; 1 of 1 host paused" in repr(job)
        host.kill()
        e2e.until("it is gone", lambda: not lab.hosts()[0].connected)
        with pytest.raises(gg.TimeoutError, match=r"\(no host is connected\)"):
            job.result(0)
        with pytest.raises(
            gg.TimeoutError, match=r"\(no host is connected\); job \d+ was cancelled"
        ):
            lab.matmul(A, A.T, timeout=0.01)
        needs_trust = lab.submit("matmul", a=A, b=A.T, policy="validator")
        host.restart()
        e2e.ask(host, "resume").check_returncode()
        e2e.until("it says so", lambda: "trusted host" in needs_trust.message)
        with pytest.raises(gg.TimeoutError, match=r"\(policy validator needs a trusted host"):
            needs_trust.result(0.01)
        np.testing.assert_array_equal(job.result(30), PRODUCT)
        assert job.explain().note == ""
        assert repr(job).endswith("1 host>")
        needs_trust.cancel()
        assert "cancelled: the job was cancelled" in str(needs_trust.explain())


def test_a_time_out_does_not_wait_for_a_lab_node_that_is_away() -> None:
    with gg.local(hosts=1, memory="64MiB") as lab:
        job = waiting(lab)
        lab.network.lab.kill()
        started = time.monotonic()
        with pytest.raises(gg.TimeoutError, match=r"does not answer|away"):
            job.result(0.1)
        assert time.monotonic() - started < 10


def test_a_network_of_validators_alone() -> None:
    with gg.local(hosts=0, validators=1, memory="64MiB") as lab:
        np.testing.assert_array_equal(lab.matmul(A, A.T, timeout=30), PRODUCT)
