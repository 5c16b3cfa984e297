# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""One estimate and what then happens, as a process of its own: prints JSON.

python _estimate.py link|lab|hosts small|full
"""

from __future__ import annotations

import json
import socket
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from _cores import pin_to_two

import gpugoblin as gg

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "testing"))
from relay import LinkSpec, Relay

ELSEWHERE = "127.0.0.2"
#: hosts, rate of the shared link, and m, k, n
CASES = {
    ("link", "small"): (2, None, (1000, 1000, 1000)),
    ("link", "full"): (2, None, (4000, 4000, 4000)),
    ("lab", "small"): (3, 60e6, (1000, 1000, 1000)),
    ("lab", "full"): (3, 60e6, (4000, 4000, 4000)),
    ("hosts", "small"): (2, None, (2000, 2000, 2000)),
    ("hosts", "full"): (2, None, (8000, 8000, 8000)),
}


def main(case: str, size: str) -> None:
    """Prints what was told and what it took, in seconds."""
    pin_to_two()
    hosts, shared, (m, k, n) = CASES[case, size]
    rng = np.random.default_rng(1)
    a = rng.standard_normal((m, k), np.float32)
    b = rng.standard_normal((k, n), np.float32)
    options: dict[str, object] = {}
    with ExitStack() as stack:
        if case != "hosts":
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = int(free.getsockname()[1])
            options = {"listen.port": port, "listen.public-address": ELSEWHERE}
            link = LinkSpec(50e6, 0.05)
            stack.enter_context(Relay((ELSEWHERE, port), ("127.0.0.1", port), link, shared))
        lab = stack.enter_context(
            gg.local(hosts=hosts, threads=1, memory="1GiB", lab_options=options)
        )
        told = lab.matmul(a, b, dry_run=True)
        start = time.perf_counter()
        lab.matmul(a, b, progress=False)
        took = time.perf_counter() - start
    json.dump({"told": told.seconds, "took": took, "bound": told.bound}, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
