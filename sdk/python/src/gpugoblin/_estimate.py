# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""How long a job will take, before it does."""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpugoblin._records import flops_text, seconds_text, size_text

_BOUNDS = {0: "hosts", 1: "lab link", 2: "host link"}
_BY = {
    "hosts": "the speed of the hosts",
    "lab link": "the lab node's link",
    "host link": "the link of a host",
}
_OWN_SECONDS = 0.03  # so long this computer's own speed is measured, once for each width


@dataclass(frozen=True)
class Estimate:
    """What a job would take, as far as can be told before it runs.

    `seconds` comes from the job's own tasks, handed out by the scheduler in virtual time to the
    hosts that are connected, over links as they were measured. The three bounds are those of
    T = max(flops / ΣR, Q·s / B_lab, max_i Q_i·s / B_i): no schedule is faster than the largest.
    """

    seconds: float  #: predicted, from submission to result; of what is left for a job that runs
    bound: str  #: what the largest of the three is: "hosts", "lab link" or "host link"
    hosts_seconds: float  #: operations over the speed of all hosts
    lab_link_seconds: float  #: bytes over the lab node's link; 0 where it is not seen to be a limit
    host_link_seconds: float  #: bytes over the link of the host that is slowest with its own
    bytes_to_hosts: float  #: inputs; what a host has already is not sent again
    bytes_from_hosts: float  #: results
    flops: float  #: operations that hosts compute, replicas included
    flops_per_second: float  #: of all hosts
    hosts: int  #: that would compute
    tasks: int  #: started, replicas included
    lab_bytes_per_second: tuple[float, float]  #: to and from hosts; 0 where it is no limit
    slowest_bytes_per_second: tuple[float, float]  #: of the slowest host's link, to and from it
    longest_round_trip: float  #: seconds, of all hosts
    own_seconds: float | None  #: of this computer alone with NumPy; None for kinds without flops
    remaining: float  #: share of the job that is left, 0 to 1
    notes: tuple[str, ...]  #: what was assumed rather than seen

    @classmethod
    def of(cls, told: dict[str, Any], own_seconds: float | None) -> Estimate:
        """From what the lab node says."""
        return cls(
            seconds=told["seconds"],
            bound=_BOUNDS[told["bound"]],
            hosts_seconds=told["hosts_speed_s"],
            lab_link_seconds=told["lab_link_s"],
            host_link_seconds=told["host_link_s"],
            bytes_to_hosts=told["bytes_to_hosts"],
            bytes_from_hosts=told["bytes_from_hosts"],
            flops=told["flops_computed"],
            flops_per_second=told["flops_per_s"],
            hosts=told["hosts"],
            tasks=told["starts"],
            lab_bytes_per_second=(told["lab_to_hosts"], told["lab_from_hosts"]),
            slowest_bytes_per_second=(told["slowest_to_host"], told["slowest_from_host"]),
            longest_round_trip=told["longest_rtt_s"],
            own_seconds=own_seconds,
            remaining=told["remaining"],
            notes=_notes(told),
        )

    @property
    def own_faster(self) -> bool:
        """Whether this computer alone, with NumPy, would be done sooner."""
        return self.own_seconds is not None and self.own_seconds < self.seconds

    def __str__(self) -> str:
        to, back = self.slowest_bytes_per_second
        lines = [
            f"about {seconds_text(self.seconds)} on {_count(self.hosts, 'host')}, bound by "
            f"{_BY[self.bound]}",
            f"  hosts: {flops_text(self.flops)} at {flops_text(self.flops_per_second)}/s: "
            f"{seconds_text(self.hosts_seconds)}",
            f"  lab node's link: {_rates(self.lab_bytes_per_second)}"
            + (f": {seconds_text(self.lab_link_seconds)}" if self.lab_link_seconds else ""),
            f"  hosts' links: the slowest {_rates((to, back))}, round trip "
            f"{seconds_text(self.longest_round_trip)}: {seconds_text(self.host_link_seconds)}",
            f"  {_count(self.tasks, 'task')}, {size_text(int(self.bytes_to_hosts))} to hosts, "
            f"{size_text(int(self.bytes_from_hosts))} back",
        ]
        if self.own_seconds is not None:
            verdict = "faster than the network" if self.own_faster else "slower than the network"
            lines.append(
                f"  this computer alone, with NumPy: about {seconds_text(self.own_seconds)}: "
                + verdict
            )
        return "\n".join(lines + [f"  note: {note}" for note in self.notes])


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _rates(rates: tuple[float, float]) -> str:
    if not any(rates):
        return "no limit seen"
    to, back = (f"{8e-6 * rate:.3g} Mbit/s" if rate else "no limit seen" for rate in rates)
    return f"{to} to, {back} from" if to != back else to


def _notes(told: dict[str, Any]) -> tuple[str, ...]:
    notes = []
    if told["speeds_assumed"]:
        notes.append(
            f"{_count(told['speeds_assumed'], 'host')} did not compute this kind yet: their speed "
            "is what they measured of themselves"
        )
    if told["planned_share"] == 0:
        notes.append("the kind plans more once it has results: that is not counted")
    elif told["planned_share"] < 0.999:
        notes.append(
            f"{told['planned_share']:.0%} of the work could be planned ahead; the rest is taken to "
            "go on like that"
        )
    if told["jobs_beside"]:
        notes.append(
            f"{_count(told['jobs_beside'], 'other job')} share hosts and links, now and perhaps "
            "then"
        )
    return tuple(notes)


@functools.cache
def own_flops_per_second(dtype: str) -> float:
    """What NumPy's product of square matrices reaches here, measured once."""
    n = 512
    a = np.full((n, n), 0.5, dtype)
    _ = a @ a
    best, end = 0.0, time.perf_counter() + _OWN_SECONDS
    while (start := time.perf_counter()) < end:
        _ = a @ a
        best = max(best, 2.0 * n**3 / (time.perf_counter() - start))
    return best


def own_seconds(flops: float, *, wide: bool) -> float | None:
    """Of this computer alone; None where nobody knows how much there is to compute."""
    return flops / own_flops_per_second("f8" if wide else "f4") if flops > 0 else None
