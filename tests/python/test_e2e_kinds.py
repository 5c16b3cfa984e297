# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Kinds that the network was not built with: the template's, and ones that break."""

from __future__ import annotations

import math
import os
from typing import Any

import e2e
import numpy as np
import numpy.typing as npt
import pytest

import gpugoblin as gg

pytestmark = pytest.mark.timeout(60)

FAULTY = e2e.TEST_PLUGINS / "faulty.so"
MODES = (e2e.ROOT / "tests/testing/plugins/faulty_modes.hpp").read_text()
# The template as scripts/test-template built it from the installed SDK, else as the tree builds it.
TEMPLATES = [*(e2e.ROOT / "build/template").glob("*.so"), e2e.TEST_PLUGINS / "pi-estimate.so"]


def mode(name: str) -> int:
    """The number of a FaultyMode."""
    names = [
        line.split("//")[0].strip(" ,")
        for line in MODES[MODES.index("enum") :].splitlines()[1:]
        if line.strip().startswith("k")
    ]
    return names.index(name)


def alive(lab: gg.LocalLab, pids: list[int]) -> None:
    """No daemon has died, and other work goes on."""
    assert [daemon.pid for daemon in lab.network.daemons()] == pids
    a = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(lab.matmul(a, a.T), a @ a.T)


@pytest.fixture(scope="module")
def lab() -> Any:
    options = {"runner.plan-deadline": "2s", "runner.check-deadline": "2s"}
    with gg.local(
        hosts=2, validators=1, memory="64MiB", plugins=[FAULTY], lab_options=options
    ) as lab:
        yield lab


def vector() -> npt.NDArray[np.float64]:
    return np.random.default_rng(1).standard_normal(1000)


def test_the_template_is_a_kind_like_any_other() -> None:
    samples, seed = 30_000_000, 7
    with gg.local(hosts=2, memory="64MiB", plugins=[TEMPLATES[0]]) as lab:
        assert {kind.name for kind in lab.kinds()} == {"matmul", "pi-estimate"}
        job = lab.submit("pi-estimate", samples=samples, seed=seed)
        result = job.result(40)
        explained = job.explain()
        again = lab.submit("pi-estimate", samples=samples, seed=seed).result(40)
        other = lab.submit("pi-estimate", samples=samples, seed=seed + 1).result(40)
        with pytest.raises(gg.InvalidArgumentError, match="'samples' is 0"):
            lab.submit("pi-estimate", samples=0)
        with pytest.raises(gg.InvalidArgumentError, match="no argument 'sample'"):
            lab.submit("pi-estimate", sample=10)
    pi, inside = float(result["pi"]), int(result["inside"])
    assert pi == 4.0 * inside / samples
    assert abs(pi - math.pi) < 5 * math.sqrt(math.pi * (4 - math.pi) / samples)
    assert int(again["inside"]) == inside
    assert int(other["inside"]) != inside
    assert explained.policy == "replicate"
    assert explained.replicas == 2
    assert sum(host.accepted for host in explained.hosts) == job.progress.tasks
    # The definition, point by point: the counter-based random numbers of the SDK.
    assert pi_inside(1_000, seed) == run_small(1_000, seed)


def philox(seed: int, counter: int) -> tuple[int, int]:
    """The first two words of Philox4x32-10."""
    words = [counter & 0xFFFFFFFF, counter >> 32, 0, 0]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        low, high = words[0] * 0xD2511F53, words[2] * 0xCD9E8D57
        words = [
            (high >> 32) ^ words[1] ^ key[0],
            high & 0xFFFFFFFF,
            (low >> 32) ^ words[3] ^ key[1],
            low & 0xFFFFFFFF,
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return words[0], words[1]


def pi_inside(samples: int, seed: int) -> int:
    inside = 0
    for i in range(samples):
        x, y = (word >> 1 for word in philox(seed, i))
        inside += x * x + y * y < 1 << 62
    return inside


def run_small(samples: int, seed: int) -> int:
    with gg.local(hosts=2, memory="64MiB", plugins=[TEMPLATES[0]]) as lab:
        return int(lab.submit("pi-estimate", samples=samples, seed=seed).result(30)["inside"])


def test_a_kind_that_works(lab: gg.LocalLab) -> None:
    x = vector()
    for policy in ("algebraic", "validator", "replicate"):
        y = lab.submit("faulty", x=x, policy=policy).result(20)
        np.testing.assert_array_equal(y, 2 * x)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("kValidateThrow", "thrown by validate"),
        ("kValidateOneOutputTooFew", "output"),
        ("kValidateBadDtype", "dtype"),
        ("kValidateHugeOutput", "63 bits"),
        ("kValidateCrash", "signal|runner|crash|ended"),
    ],
)
def test_a_kind_that_breaks_before_anything_is_stored(
    lab: gg.LocalLab, fault: str, says: str
) -> None:
    pids = [daemon.pid for daemon in lab.network.daemons()]
    before = len(lab.jobs())
    with pytest.raises(gg.GoblinError, match=f"(?i){says}"):
        lab.submit("faulty", x=vector(), mode=mode(fault)).result(20)
    assert len(lab.jobs()) <= before + 1
    alive(lab, pids)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("kPlannerThrow", "thrown by make_planner"),
        ("kPlannerNull", "planner"),
        ("kPlannerHugeState", "state"),
        ("kNextThrow", "thrown by next"),
        ("kNextHang", "second|deadline|answer|time"),
        ("kNextPastEnd", "window leaves the source"),
        ("kNextBeforeStart", "window leaves the source"),
        ("kNextOverflowingStride", "63 bits"),
        ("kNextWrongDtype", "dtype"),
        ("kNextNoSuchInput", "input"),
        ("kNextHugeOutput", "output"),
        ("kNextMoreButNothing", "task"),
        ("kNextBadProgress", "progress|answer"),
        ("kAcceptThrow", "thrown by accept"),
        ("kFinishThrow", "thrown by finish"),
        ("kExecuteThrow", "failed"),
        ("kExecuteCrash", "failed"),
        ("kExecuteExit", "failed"),
    ],
)
def test_a_kind_that_breaks_fails_its_job_alone(lab: gg.LocalLab, fault: str, says: str) -> None:
    pids = [daemon.pid for daemon in lab.network.daemons()]
    job = lab.submit("faulty", x=vector(), policy="algebraic", mode=mode(fault))
    a = np.arange(20.0).reshape(4, 5)
    np.testing.assert_array_equal(lab.matmul(a, a.T), a @ a.T)  # beside it
    with pytest.raises(gg.JobFailedError, match=f"(?i){says}") as failed:
        job.result(30)
    assert failed.value.job == job.number
    assert failed.value.reason
    alive(lab, pids)


@pytest.mark.parametrize("fault", ["kCheckThrow", "kCheckBadVerdict"])
def test_a_check_that_breaks_is_replaced_by_recomputation(lab: gg.LocalLab, fault: str) -> None:
    """Never used unchecked: others compute it, too, and have to agree."""
    pids = [daemon.pid for daemon in lab.network.daemons()]
    x = vector()
    job = lab.submit("faulty", x=x, policy="algebraic", mode=mode(fault))
    np.testing.assert_array_equal(job.result(30), 2 * x)
    assert job.explain().liars == ()
    assert any("not decided" in item.what for item in job.explain().incidents), str(job.explain())
    alive(lab, pids)


def test_a_library_that_attacks_whoever_loads_it() -> None:
    """Its note is in order; only runners ever load it."""
    names = ["crash-constructor", "exit-constructor"]
    if os.environ.get("GOBLIN_LONG_TESTS") == "1":
        names.append("spin-constructor")  # ten seconds until the runner is given up
    for name in names:
        plugin = e2e.TEST_PLUGINS / f"{name}.so"
        options = {"runner.plan-deadline": "1s"}
        with gg.local(hosts=1, memory="64MiB", plugins=[plugin], lab_options=options) as lab:
            pids = [daemon.pid for daemon in lab.network.daemons()]
            with pytest.raises(gg.GoblinError):
                lab.submit("plain").result(30)
            alive(lab, pids)
