# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Hosts that lie: caught, named, and without any effect on a single bit of the result."""

from __future__ import annotations

from typing import Any

import e2e
import numpy as np
import numpy.typing as npt
import pytest

import gpugoblin as gg

pytestmark = pytest.mark.timeout(60)

# Tiles so small along k that the check recomputes them whole, thus sees a single ulp for certain.
THIN = (1600, 24, 1600)
# Tiles that go through Freivalds' check and the sampled entries; several for every host.
THICK = (5600, 400, 5600)
# So many tiles that every host computes several.
WIDE = (4000, 200, 4000)
CAUGHT = ("ulp", "tile", "stale", "nan", "shape", "zeros", "swap", "bias")
WHY = {
    "ulp": "refused by check",
    "tile": "refused by check",
    "stale": "refused by check",
    "nan": "refused by check",
    "shape": "bytes are not what it had committed to",
    "zeros": "refused by check",
    "swap": "bytes are not what it had committed to",
    "bias": "refused by check",
}

Pair = tuple[npt.NDArray[Any], npt.NDArray[Any]]


def operands(shape: tuple[int, int, int]) -> Pair:
    rng = np.random.default_rng(sum(shape))
    m, k, n = shape
    return (
        rng.standard_normal((m, k)).astype(np.float32),
        rng.standard_normal((k, n)).astype(np.float32),
    )


@pytest.fixture(scope="module")
def honest() -> dict[tuple[int, int, int], str]:
    """What a network without liars computes."""
    with gg.local(hosts=2, memory="64MiB") as lab:
        return {shape: e2e.sha256(lab.matmul(*operands(shape))) for shape in (THIN, THICK, WIDE)}


def run(
    shape: tuple[int, int, int], lie: dict[str, Any], hosts: int = 3, **job: Any
) -> tuple[str, gg.Explanation, str, gg.Progress]:
    """A job on honest hosts and one liar: digest, explanation, the liar's pin, progress."""
    validators = 1 if job.get("policy") == "validator" else 0
    with gg.local(hosts=hosts, validators=validators, memory="64MiB", host_options=[lie]) as lab:
        a, b = operands(shape)
        submitted = lab.submit("matmul", a=a, b=b, **job)
        digest = e2e.sha256(submitted.result(40))
        return digest, submitted.explain(), lab.network.hosts[0].pin, submitted.progress


def assert_caught(explained: gg.Explanation, pin: str, why: str) -> None:
    assert [host.host for host in explained.liars] == [pin], str(explained)
    (named,) = explained.liars
    assert named.quarantined
    assert why in named.reason, str(explained)
    assert any(pin == item.host and "refused" in item.what for item in explained.incidents)
    assert pin[:16] in str(explained)
    assert "refused: refused" not in str(explained)
    others = [host for host in explained.hosts if host.host != pin]
    assert others
    assert not any(host.quarantined or host.refused for host in others), str(explained)


@pytest.mark.parametrize("mode", CAUGHT)
def test_algebraic(mode: str, honest: dict[tuple[int, int, int], str]) -> None:
    shape = THIN if mode in ("ulp", "nan") else THICK
    digest, explained, pin, progress = run(shape, e2e.liar(mode))
    assert digest == honest[shape]
    assert explained.policy == "algebraic"
    assert_caught(explained, pin, WHY[mode])
    # Quarantined by its first lie: nothing that came later from it was used.
    named = explained.liars[0]
    assert named.accepted <= (1 if mode == "stale" else 0)
    assert sum(host.accepted for host in explained.hosts) == progress.accepted == progress.tasks


@pytest.mark.parametrize("mode", ["tile", "swap"])
@pytest.mark.parametrize("policy", ["validator", "replicate"])
def test_other_policies(policy: str, mode: str, honest: dict[tuple[int, int, int], str]) -> None:
    more = {"replicas": 2} if policy == "replicate" else {}
    digest, explained, pin, _ = run(THICK, e2e.liar(mode), policy=policy, **more)
    assert digest == honest[THICK]
    assert explained.policy == policy
    if mode == "swap" and policy == "replicate" and not explained.liars:
        # Its digests are right; it is caught only where its own copy of the bytes is fetched.
        assert all(host.accepted == 0 for host in explained.hosts if host.host == pin)
        return
    assert_caught(explained, pin, "refused")


def test_slow_is_no_lie(honest: dict[tuple[int, int, int], str]) -> None:
    # Without second starts, or others may be done with its tasks before it has said anything.
    patient = {"straggler.factor": 1000}
    slow = [e2e.liar("slow", delay="100ms")]
    with gg.local(hosts=3, memory="64MiB", host_options=slow, lab_options=patient) as lab:
        a, b = operands(THICK)
        job = lab.submit("matmul", a=a, b=b)
        digest, explained = e2e.sha256(job.result(40)), job.explain()
        pin = lab.network.hosts[0].pin
    assert digest == honest[THICK]
    assert explained.liars == ()
    assert not any(host.quarantined for host in explained.hosts), str(explained)
    assert explained.cost.refused == 0
    assert pin in {host.host for host in explained.hosts}


def test_what_a_liar_computed_before_is_checked_again(
    honest: dict[tuple[int, int, int], str],
) -> None:
    # Where its lie is judged before its honest result, that one is dropped with it: tried again.
    for _ in range(20):
        digest, explained, pin, progress = run(WIDE, e2e.liar("zeros", after=1), hosts=2)
        assert digest == honest[WIDE]
        assert_caught(explained, pin, "refused by check")
        if explained.liars[0].accepted == 1:
            break
    # Its honest result stands, but only after a second check with fresh randomness.
    assert explained.liars[0].accepted == 1
    assert explained.cost.checks >= progress.tasks + explained.cost.refused + 1


def test_a_liar_among_honest_results(honest: dict[tuple[int, int, int], str]) -> None:
    for seed in range(3):
        digest, explained, pin, _ = run(THICK, e2e.liar("tile", 0.5, seed=seed))
        assert digest == honest[THICK]
        assert set(explained.liars) <= {host for host in explained.hosts if host.host == pin}


def test_only_liars() -> None:
    """Without an honest host there is no result rather than a wrong one."""
    a, b = operands(THICK)
    with gg.local(hosts=1, memory="64MiB", host_options=[e2e.liar("zeros")]) as lab:
        job = lab.submit("matmul", a=a, b=b)
        e2e.until("the liar is quarantined", lambda: job.explain().liars)
        assert not job.wait(0.3)
        assert job.progress.accepted == 0
        assert "had a result refused" in e2e.until("a reason", lambda: job.message)
        job.cancel()


def test_nothing_is_used_unchecked() -> None:
    a, b = operands(THIN)
    with gg.local(hosts=1, memory="64MiB") as lab:
        with pytest.raises(gg.InvalidArgumentError, match="'none' is refused"):
            lab.matmul(a, b, policy="none")
        with pytest.raises(gg.InvalidArgumentError, match=r"policy is 'nothing'"):
            lab.matmul(a, b, policy="nothing")
        assert lab.jobs() == []
