# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""A product over slow links, beside what its bytes and operations take at least: prints JSON.

python _links.py N MBIT_PER_SECOND ROUND_TRIP_MS
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from _cores import pin_to_two
from _products import expect_right, write_matrix

import gpugoblin as gg

HOSTS = 2
LAB, RELAY = "127.0.0.1", "127.0.0.2"


@contextmanager
def relay(port: int, bits: float, round_trip_ms: float) -> Iterator[None]:
    """The relay's process."""
    script = Path(__file__).resolve().parents[1] / "testing" / "relay.py"
    mbits = str(bits / 1e6)
    words = [sys.executable, str(script), f"{RELAY}:{port}", f"{LAB}:{port}"]
    words += ["--mbits", mbits, "--shared-mbits", mbits, "--rtt-ms", str(round_trip_ms)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != f"{port}\n":
                raise RuntimeError("the relay did not start")
            yield
        finally:
            process.kill()


def free_port() -> int:
    """A port that is free at both addresses now."""
    with socket.socket() as one, socket.socket() as other:
        one.bind((LAB, 0))
        port: int = one.getsockname()[1]
        other.bind((RELAY, port))
        return port


def main(words: list[str]) -> None:
    """Reads the command line."""
    pin_to_two()
    n, bits, round_trip_ms = int(words[0]), 1e6 * float(words[1]), float(words[2])
    port = free_port()
    with (
        tempfile.TemporaryDirectory() as name,
        relay(port, bits, round_trip_ms),
        gg.local(
            hosts=HOSTS,
            threads=1,
            memory="96MiB",
            lab_options={"listen.port": port, "listen.public-address": RELAY},
        ) as lab,
    ):
        folder = Path(name)
        a, b = (write_matrix(folder / f"{s}.npy", n, n, seed) for seed, s in enumerate("ab"))
        # What is known of plugin, runner and links before a large job.
        small = write_matrix(folder / "s.npy", 64, 64, 3)
        lab.submit("matmul", a=small, b=small).result()
        job = lab.submit("matmul", a=a, b=b)
        c = job.result()
        expect_right(a, b, c)
        cost = job.cost
    rate = bits / 8
    # What a plan needs, whatever was moved: each host half of one operand, all of the other.
    matrix = 4 * n * n
    compute = cost.compute_seconds / HOSTS
    lab_link = (1 + HOSTS) * matrix / rate
    host_links = (1 + 1 / HOSTS) * matrix / rate
    least = max(compute, lab_link, host_links)
    json.dump(
        {
            "seconds": cost.seconds,
            "least": least,
            "ratio": cost.seconds / least,
            "compute": compute,
            "lab_link": lab_link,
            "host_links": host_links,
            "sent": cost.bytes_sent,
            "received": cost.bytes_received,
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
