# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""What the lab node reports, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

STATES = {1: "queued", 2: "running", 3: "finishing", 4: "done", 5: "failed", 6: "cancelled"}
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_DECIMAL = (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12), ("P", 1e15), ("E", 1e18))
_OPEN = ("queued", "running", "finishing")
POLICIES = {0: "default", 1: "algebraic", 2: "validator", 3: "replicate", 4: "adaptive"}


def size_text(count: int) -> str:
    """Bytes for people: "512 B", "3.8 MiB"."""
    value, step = float(count), 0
    while value >= 1024 and step < len(_BINARY) - 1:
        value, step = value / 1024, step + 1
    return f"{value:.0f} B" if step == 0 else f"{value:.1f} {_BINARY[step]}"


def seconds_text(seconds: float) -> str:
    """A duration for people: "27 µs", "14.6 ms", "2.31 s", "1 h 05 min"."""
    if 0 < seconds < 0.9995e-3:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 119.5:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def flops_text(flops: float) -> str:
    """Floating-point operations for people: "128 FLOP", "2.5 GFLOP"."""
    unit, factor = next(((u, f) for u, f in reversed(_DECIMAL) if flops >= 0.9995 * f), _DECIMAL[0])
    return f"{flops / factor:.3g} {unit}FLOP"


@dataclass(frozen=True)
class Progress:
    """How far a job is."""

    fraction: float  #: 0 to 1
    tasks: int  #: planned so far
    planned: bool  #: whether `tasks` is all of them
    running: int
    accepted: int
    checked: int  #: results that went through the job's policy
    refused: int
    hosts: int
    gflops: float  #: accepted floating-point operations per second / 10⁹, since the start
    seconds: float
    note: str  #: why it waits, if it does

    @classmethod
    def of(cls, status: dict[str, Any]) -> Progress:
        """From a status of the lab node."""
        done = STATES[status["state"]] == "done"
        if status["flops_total"] > 0:
            fraction = status["flops_accepted"] / status["flops_total"]
        elif status["plan_done"] and status["tasks_planned"]:
            fraction = status["tasks_accepted"] / status["tasks_planned"]
        else:
            fraction = 0.0
        seconds = status["wall_us"] / 1e6
        return cls(
            fraction=1.0 if done else min(fraction, 0.99),
            tasks=status["tasks_planned"],
            planned=status["plan_done"],
            running=status["tasks_running"],
            accepted=status["tasks_accepted"],
            checked=status["results_checked"],
            refused=status["results_refused"],
            hosts=status["hosts"],
            gflops=status["flops_accepted"] / seconds / 1e9 if seconds > 0 else 0.0,
            seconds=seconds,
            note=status["message"],
        )


@dataclass(frozen=True)
class Cost:
    """What a job took so far."""

    bytes_sent: int  #: lab node to hosts
    bytes_received: int
    flops: float  #: of accepted results
    seconds: float  #: from start to end
    compute_seconds: float  #: of hosts, summed
    check_seconds: float  #: processor time of the lab node's checks
    checks: int
    refused: int
    recomputed: int

    @classmethod
    def of(cls, status: dict[str, Any]) -> Cost:
        """From a status of the lab node."""
        return cls(
            bytes_sent=status["bytes_sent"],
            bytes_received=status["bytes_received"],
            flops=status["flops_accepted"],
            seconds=status["wall_us"] / 1e6,
            compute_seconds=status["compute_us"] / 1e6,
            check_seconds=status["check_us"] / 1e6,
            checks=status["results_checked"],
            refused=status["results_refused"],
            recomputed=status["recomputed"],
        )

    def __str__(self) -> str:
        return f"{self.work()}; {self.trust()}"

    def work(self) -> str:
        """Time, operations and bytes, with their units."""
        return (
            f"{seconds_text(self.seconds)}, {flops_text(self.flops)}, hosts computed "
            f"{seconds_text(self.compute_seconds)}, {size_text(self.bytes_sent)} sent to them, "
            f"{size_text(self.bytes_received)} received"
        )

    def trust(self) -> str:
        """What became of the results."""
        return (
            f"{self.checks} results checked, {self.refused} refused, {self.recomputed} computed "
            f"again, checks took {seconds_text(self.check_seconds)}"
        )


@dataclass(frozen=True)
class HostInfo:
    """A host, as the lab node knows it; `accepted` to `peak_bytes` are its share."""

    host: str  #: SHA-256 of its public key
    connected: bool
    validator: bool
    threads: int
    memory_bytes: int
    state: str  #: "ready", "paused" or "stopping"
    leases: int  #: tasks that it holds now
    accepted: int  #: results that were used
    confirmed: int  #: results equal to another host's, which was used; they count as checked, too
    refused: int
    failed: int
    passed: int  #: results that a check or a trusted host found right, since the last wrong one
    faults: int  #: wrong results at this lab node, those left out that …
    forgiven: int  #: … were forgiven: rare, and from a host that was right for long
    compute_seconds: float
    bytes_sent: int
    bytes_received: int
    peak_bytes: int
    quarantined: bool
    reason: str  #: why it is quarantined, or idle

    @classmethod
    def of(cls, host: dict[str, Any]) -> HostInfo:
        """From a report of the lab node."""
        rest = {key: value for key, value in host.items() if key != "compute_us"}
        return cls(compute_seconds=host["compute_us"] / 1e6, **rest)


@dataclass(frozen=True)
class Incident:
    """A start of a task that came to nothing."""

    task: int
    host: str
    what: str
    detail: str


@dataclass(frozen=True)
class Explanation:
    """Who computed a job, how it was checked, what was refused and why."""

    job: int
    kind: str
    state: str
    policy: str
    replicas: int
    hosts: tuple[HostInfo, ...]  #: with their share of this job
    incidents: tuple[Incident, ...]  #: the first 1000
    incident_count: int
    plan: dict[str, str]  #: how the work was cut, in words
    cost: Cost
    note: str  #: why it waits or why it failed, if it does

    @classmethod
    def of(cls, report: dict[str, Any]) -> Explanation:
        """From a report of the lab node."""
        status = report["status"]
        return cls(
            job=status["job"],
            kind=status["kind"],
            state=STATES[status["state"]],
            policy=POLICIES[report["policy"]],
            replicas=report["replicas"],
            hosts=tuple(HostInfo.of(host) for host in report["hosts"]),
            incidents=tuple(Incident(**item) for item in report["incidents"]),
            incident_count=report["incident_count"],
            plan=dict(report["plan"]),
            cost=Cost.of(status),
            note=status["message"],
        )

    @property
    def liars(self) -> tuple[HostInfo, ...]:
        """Hosts whose results were refused."""
        return tuple(host for host in self.hosts if host.refused)

    def __str__(self) -> str:
        policy = f"{self.policy} ({self.replicas})" if self.policy == "replicate" else self.policy
        lines = [
            f"job {self.job}: {self.kind}, {self.state}, policy {policy}",
            f"  {self.cost.work()}",
            f"  {self.cost.trust()}",
        ]
        if self.note:
            lines.insert(1, f"  {'waits' if self.state in _OPEN else self.state}: {self.note}")
        for host in self.hosts:
            note = f"; quarantined: {host.reason}" if host.quarantined else ""
            rare = {
                "confirmed": host.confirmed,
                "refused": host.refused,
                "failed": host.failed,
            }
            lines.append(
                f"  host {host.host[:16]}: {host.accepted} accepted, "
                + "".join(f"{count} {what}, " for what, count in rare.items() if count)
                + f"computed {seconds_text(host.compute_seconds)}{note}"
            )
        for item in self.incidents[:20]:
            detail = f": {item.detail}" if item.detail else ""
            lines.append(f"  task {item.task} on {item.host[:16]}: {item.what}{detail}")
        if self.incident_count > 20:
            lines.append(f"  … {self.incident_count - 20} more")
        lines += [f"  {name}: {_with_unit(name, value)}" for name, value in self.plan.items()]
        return "\n".join(lines)


def _with_unit(name: str, value: str) -> str:
    """A line of the plan: what its name says are bytes, for people."""
    counts = "bytes" in name or "memory" in name
    return size_text(int(value)) if counts and value.isdecimal() else value


@dataclass(frozen=True)
class ArrayInfo:
    """An array that a kind takes."""

    name: str
    doc: str
    dtypes: tuple[str, ...]
    min_rank: int
    max_rank: int
    optional: bool


@dataclass(frozen=True)
class NumberInfo:
    """A number that a kind takes."""

    name: str
    doc: str
    default: int | float
    low: int | float
    high: int | float
    required: bool


@dataclass(frozen=True)
class KindInfo:
    """A kind of computation that the lab node offers."""

    name: str
    version: int
    doc: str
    arrays: tuple[ArrayInfo, ...]
    numbers: tuple[NumberInfo, ...]
    outputs: tuple[tuple[str, str], ...]  #: name, what it is
    policy: str  #: its default
    plugin: str  #: SHA-256 of the plugin's file

    @classmethod
    def of(cls, kind: dict[str, Any]) -> KindInfo:
        """From a report of the lab node."""
        return cls(
            name=kind["name"],
            version=kind["version"],
            doc=kind["doc"],
            arrays=tuple(
                ArrayInfo(**{**item, "dtypes": tuple(item["dtypes"])}) for item in kind["inputs"]
            ),
            numbers=tuple(NumberInfo(**item) for item in kind["params"]),
            outputs=tuple((item["name"], item["doc"]) for item in kind["outputs"]),
            policy=POLICIES.get(kind["default_policy"], "algebraic"),
            plugin=kind["plugin"],
        )

    def __str__(self) -> str:
        lines = [f"{self.name}/{self.version}: {self.doc}"]
        lines += [f"  array {a.name} ({', '.join(a.dtypes)}): {a.doc}" for a in self.arrays]
        lines += [f"  number {n.name} = {n.default}: {n.doc}" for n in self.numbers]
        lines += [f"  → {name}: {doc}" for name, doc in self.outputs]
        return "\n".join(lines)
