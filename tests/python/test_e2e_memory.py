# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Computers with unlike memory: tasks fit those who compute them and those who decide on them."""

from __future__ import annotations

import numpy as np
import pytest

import gpugoblin as gg


@pytest.mark.parametrize(("policy", "validators"), [("validator", 1), ("replicate", 0)])
def test_who_decides_has_less_memory_than_who_computes(policy: str, validators: int) -> None:
    rng = np.random.default_rng(3)
    a = rng.standard_normal((2600, 2400)).astype(np.float32)  # 25 MB each: one task for 256 MiB
    b = rng.standard_normal((2400, 2600)).astype(np.float32)
    options = [{}, {"memory": "64MiB"}]
    with gg.local(
        hosts=2 - validators, validators=validators, memory="256MiB", host_options=options
    ) as lab:
        job = lab.submit("matmul", a=a, b=b, policy=policy, replicas=None if validators else 2)
        c = job.result(60)
        np.testing.assert_allclose(c, a @ b, rtol=0, atol=1e-2)
        explained = job.explain()
        assert explained.policy == policy
        assert explained.liars == ()
        assert job.progress.tasks > 1
