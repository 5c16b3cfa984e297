# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""A product over links like those of volunteers."""

from __future__ import annotations

import sys
from pathlib import Path

from benchlib import Context, Record

NAME = "slow-links"
DOC = """Time of a product over slow links, over the least that its bytes and operations take.
Two one-thread hosts of 96 MiB; between them and the lab node a process that passes bytes on at a
rate and half a round trip late, in each direction; every host has a link of that rate, and the lab
node one that all share. The least is the formula's T: the larger of the hosts' computing time,
halved, of the bytes that the lab node has to send at its rate (each host gets half of one operand
and all of the other; results are less, and go the other way), and of one host's at its own. T
leaves out that nothing is computed before the first inputs came nor sent back before that, and the
round trips.

What is lost, at 100 Mbit/s: a panel that comes lets two tasks run at once, then the host's queue of
two is empty and its link rests until it has others; and the last tiles come back when nothing is
sent any more. Queues of four kept the link busy, but idle hosts then began others' tasks at the
end and had panels sent twice. Plans do not know links; smaller tiles would end sooner."""
GOAL = "at most 1.10"

HERE = Path(__file__).resolve().parent
SIZES = {10: 5120, 50: 6144, 100: 6144}


def run(ctx: Context) -> list[Record]:
    """A network for each pair of rate and round trip."""
    cases = [(rate, n, rtt) for rate, n in SIZES.items() for rtt in (20, 100, 200)]
    records = []
    for rate, n, rtt in [(100, 1024, 20)] if ctx.quick else cases:
        found = ctx.run_program(
            Path(sys.executable), str(HERE / "_links.py"), str(n), str(rate), str(rtt), threads=1
        )
        records.append(
            ctx.record(
                f"{rate} Mbit/s, {rtt} ms, f32, n = {n}",
                found["ratio"],
                "times",
                higher_is_better=False,
                threads=2,
            )
        )
    return records
