# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""docs/benchmarks.md from records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby

from benchlib.record import Record
from benchlib.registry import Benchmark

HEAD = """\
# Benchmarks

Written by `scripts/bench --render docs/benchmarks.json`; do not edit. `scripts/bench NAME` measures
again: ours and its peers run in the same session, taking turns, each as it comes from Debian or
PyPI. A ratio above 1 means ours is better than the best peer.
"""


def number(value: float) -> str:
    """Four significant digits, thousands apart, no exponent."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def percent(share: float | None) -> str:
    """A share, or nothing."""
    return "" if share is None else f"{100 * share:.0f} %"


def table(records: list[Record]) -> list[str]:
    """Rows of one benchmark whose records share a unit."""
    peers = list(dict.fromkeys(peer for record in records for peer in record.peers))
    limits = list(dict.fromkeys(record.limit_name for record in records if record.limit_name))
    better = "more" if records[0].higher_is_better else "less"
    head = ["case", "threads", f"ours ({records[0].unit}, {better} is better)", *peers]
    head += ["ratio to the best"] if peers else []
    head += [f"share of {limit}" for limit in limits]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for record in records:
        row = [record.case, str(record.threads), number(record.value)]
        row += [number(record.peers[peer]) if peer in record.peers else "" for peer in peers]
        if peers:
            ratio = record.ratio_to_best_peer
            row.append("" if ratio is None else f"{ratio:.2f}")
        row += [
            percent(record.share_of_limit) if record.limit_name == limit else "" for limit in limits
        ]
        lines.append("| " + " | ".join(cell.replace("|", "/") for cell in row) + " |")
    return lines


def render(records: Iterable[Record], benchmarks: Mapping[str, Benchmark]) -> str:
    """The page: a section a benchmark, a table a unit, and where and when it was measured."""
    lines = [HEAD]
    by_name = sorted(records, key=lambda record: record.name)
    for name, group in groupby(by_name, key=lambda record: record.name):
        mine = list(group)
        lines += [f"## {name}", ""]
        known = benchmarks.get(name)
        if known is not None:
            lines += [known.doc, ""]
            if known.goal:
                lines += [f"Goal: {known.goal}", ""]
        units = dict.fromkeys((record.unit, record.higher_is_better) for record in mine)
        for unit in units:
            lines += table([r for r in mine if (r.unit, r.higher_is_better) == unit])
            lines.append("")
        sources = dict.fromkeys((r.cpu, r.date[:10], r.commit) for r in mine)
        lines += [f"{cpu}; {date}; commit {commit}." for cpu, date, commit in sources]
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"
