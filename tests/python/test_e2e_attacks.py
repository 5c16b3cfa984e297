# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""What hosts may try, through whole networks: docs/security.md has the table.

Several liars share a network, each with a lie of its own; how often a lie passes the check of large
tiles is counted by tests/plugins/matmul/attacks_test.cpp.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import e2e
import numpy as np
import numpy.typing as npt
import pytest

import gpugoblin as gg

pytestmark = pytest.mark.timeout(90)

POLICIES = ("algebraic", "validator", "replicate", "adaptive")
# Four at most: with more, one task may see as many wrong results as policy replicate puts up with.
LIES = (
    ("ulp", "ulp", "ulp"),  # near one another, none of them right
    ("twice-bound", "huge", "low-rank"),
    ("corners", "leaked-r", "nan", "infinity"),
    ("minus-zero", "flushed", "nan-payload", "tf32"),
    ("bf16", "fp8", "other-order", "drop-block"),
    ("bias", "bias-below-bound", "few-below-bound", "zero-row"),
    ("transposed", "permuted", "columns-swapped", "zeros"),
    ("constant", "noise", "bit-flip", "new"),
    ("shape", "dtype", "tile"),
)
# Nobody else tries a task while a liar has it: every liar gets to tell its lie.
PATIENT = {"straggler.factor": 1000}

Pair = tuple[npt.NDArray[Any], npt.NDArray[Any]]


def operands(seed: int = 3) -> Pair:
    """Strips of C that the check recomputes whole, each with zeros, subnormal numbers and NaN."""
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((32, 300)).astype(np.float32)
    b = rng.standard_normal((300, 20_000)).astype(np.float32)
    a[3] = 0
    a[5] *= np.float32(1e-40)
    a[7, 9] = np.nan
    return a, b


@pytest.fixture(scope="module")
def honest() -> dict[int, str]:
    """What a network without liars computes, by seed."""
    with gg.local(hosts=2, memory="64MiB") as lab:
        return {seed: e2e.sha256(lab.matmul(*operands(seed))) for seed in (3, 4)}


def policy_of(policy: str) -> dict[str, Any]:
    return {"policy": policy, **({"replicas": 2} if policy == "replicate" else {})}


def network(liars: list[dict[str, Any]], policy: str, hosts: int, **more: Any) -> gg.LocalLab:
    """Liars come first."""
    given = {
        "memory": "64MiB",
        "lab_options": PATIENT,
        "validators": 1 if policy in ("validator", "adaptive") else 0,
        **more,
    }
    return gg.local(hosts=hosts, host_options=liars, **given)


def run(lab: gg.LocalLab, policy: dict[str, Any], seed: int = 3) -> tuple[str, gg.Explanation]:
    a, b = operands(seed)
    job = lab.submit("matmul", a=a, b=b, **policy)
    return e2e.sha256(job.result(60)), job.explain()


def pins(lab: gg.LocalLab) -> list[str]:
    return [host.pin for host in lab.network.hosts]


def assert_only(explained: gg.Explanation, liars: list[str]) -> None:
    """These and nobody else are named, and nothing that they said was used."""
    assert sorted(host.host for host in explained.liars) == sorted(liars), str(explained)
    for host in explained.hosts:
        if host.host in liars:
            assert host.reason.startswith("refused"), str(explained)
        else:
            assert not host.refused, str(explained)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("modes", LIES, ids="+".join)
def test_every_lie_is_caught_and_named(
    modes: tuple[str, ...], policy: str, honest: dict[int, str]
) -> None:
    liars = [e2e.liar(mode, seed=index) for index, mode in enumerate(modes)]
    with network(liars, policy, len(liars) + 3) as lab:
        digest, explained = run(lab, policy_of(policy))
        assert digest == honest[3]
        assert_only(explained, pins(lab)[: len(liars)])
        assert all(host.accepted == 0 for host in explained.liars), str(explained)


# Of replicate 2 a pair of them would be a quorum: docs/security.md says how often, and what to do.
@pytest.mark.parametrize("policy", [policy for policy in POLICIES if policy != "replicate"])
def test_colluders_who_tell_the_same_lie(policy: str, honest: dict[int, str]) -> None:
    with network([e2e.liar("collude", seed=7)] * 2, policy, 5) as lab:
        digest, explained = run(lab, policy_of(policy))
        assert digest == honest[3]
        assert_only(explained, pins(lab)[:2])


def test_two_colluders_are_no_quorum_of_three(honest: dict[int, str]) -> None:
    with network([e2e.liar("collude", seed=7)] * 2, "replicate", 5) as lab:
        digest, explained = run(lab, {"policy": "replicate", "replicas": 3})
        assert digest == honest[3]
        assert_only(explained, pins(lab)[:2])


@pytest.mark.parametrize("policy", POLICIES)
def test_another_jobs_output(policy: str, honest: dict[int, str]) -> None:
    with network([e2e.liar("replay")], policy, 3) as lab:
        digest, explained = run(lab, policy_of(policy))
        assert digest == honest[3]
        assert_only(explained, [])
        digest, explained = run(lab, policy_of(policy), 4)
        assert digest == honest[4]
        assert_only(explained, pins(lab)[:1])


@pytest.mark.parametrize("policy", POLICIES)
def test_lies_about_what_it_has_seen_before(policy: str, honest: dict[int, str]) -> None:
    with network([e2e.liar("seen")], policy, 3) as lab:
        for _ in range(30):
            digest, explained = run(lab, policy_of(policy))
            assert digest == honest[3]
            if explained.liars:
                break
        assert_only(explained, pins(lab)[:1])


@pytest.mark.parametrize("policy", ["algebraic", "replicate", "adaptive"])
def test_sleeper(policy: str) -> None:
    """Honest in its first hundred results."""
    tiny = e2e.TEST_PLUGINS / "tiny-tasks.so"
    liars = [e2e.liar("tile", after=100)]
    with network(liars, policy, 3, plugins=[tiny]) as lab:
        right: list[int] = []
        for _ in range(200):
            job = lab.submit("tiny-tasks", tasks=300, **policy_of(policy))
            values = job.result(60)["values"].tolist()
            right = right or values
            assert values == right
            explained = job.explain()
            if explained.liars:
                break
        assert_only(explained, pins(lab)[:1])
        assert len(set(right)) == 300


def test_new_identity_after_a_refusal(tmp_path: Path, honest: dict[int, str]) -> None:
    """A fresh key is a fresh host; what it says is checked like anybody's."""
    lying = tmp_path / "lying"
    lying.touch()
    with network([e2e.liar("tile", until=lying)], "algebraic", 1) as lab:
        a, b = operands()
        job = lab.submit("matmul", a=a, b=b)
        host = lab.network.hosts[0]
        used: list[str] = []
        for wave in range(3):
            used.append(host.pin)
            e2e.until("it is refused", lambda: used[-1] in {h.host for h in job.explain().liars})
            assert job.progress.accepted == 0
            host.kill()
            shutil.rmtree(host.directory)
            if wave == 2:
                lying.unlink()
            host.restart()
        assert e2e.sha256(job.result(40)) == honest[3]
        assert_only(job.explain(), used)
        assert len({*used, host.pin}) == 4


@pytest.mark.parametrize("policy", POLICIES)
def test_a_lying_validator_accuses_nobody(policy: str, honest: dict[int, str]) -> None:
    """The check tells who of the two lies: a validator that does is none any more."""
    liars: list[dict[str, Any]] = [{}, {}, {}, {}, e2e.liar("tile")]
    with network(liars, policy, 3, validators=2) as lab:
        liar = pins(lab)[4]
        for _ in range(30):
            digest, explained = run(lab, policy_of(policy))
            assert digest == honest[3]
            assert not any(h.refused for h in explained.hosts if h.host != liar), str(explained)
            if policy in ("algebraic", "replicate") or explained.liars:
                break
        if policy in ("validator", "adaptive"):
            assert_only(explained, [liar])
            assert [h.host for h in lab.hosts() if h.validator] == [pins(lab)[3]]
        digest, explained = run(lab, policy_of(policy), 4)
        assert digest == honest[4]
        assert not any(h.refused for h in explained.hosts if h.host != liar), str(explained)


@pytest.mark.parametrize("policy", POLICIES)
def test_boasting_of_hardware(policy: str, honest: dict[int, str]) -> None:
    """More memory and threads than it has, no time needed: it gets work, and no trust."""
    with network([e2e.liar("boast", threads=64, memory="1TiB")], policy, 3) as lab:
        digest, explained = run(lab, policy_of(policy))
        assert digest == honest[3]
        assert_only(explained, [])


@pytest.mark.parametrize("policy", POLICIES)
def test_refusing_tasks(policy: str, honest: dict[int, str]) -> None:
    """Others compute them; nobody is accused of a lie."""
    with network([e2e.liar("refuse")], policy, 3) as lab:
        digest, explained = run(lab, policy_of(policy))
        assert digest == honest[3]
        assert_only(explained, [])
        assert not any(h.accepted for h in explained.hosts if h.host == pins(lab)[0])


@pytest.mark.parametrize("policy", POLICIES)
def test_a_bit_that_flips_now_and_then(policy: str, honest: dict[int, str]) -> None:
    """Each wrong result is refused, whether or not the host may go on."""
    with network([e2e.liar("bit-flip", 0.1)], policy, 3) as lab:
        for _ in range(100):
            digest, explained = run(lab, policy_of(policy))
            assert digest == honest[3]
            assert not any(h.refused for h in explained.hosts if h.host != pins(lab)[0])
            if any(h.refused for h in explained.hosts):
                break
        assert_only(explained, pins(lab)[:1])
        assert run(lab, policy_of(policy))[0] == honest[3]
