# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""scripts/bench: lists, runs and renders benchmarks."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from benchlib.context import Context
from benchlib.record import Record, read_records, write_records
from benchlib.registry import Benchmark, discover
from benchlib.render import number, render

ROOT = Path(__file__).resolve().parent.parent.parent


def options_of(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench", description="Measures GPU Goblin beside its peers."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks to run, or 'all'")
    parser.add_argument("--list", action="store_true", help="name the benchmarks and stop")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the records to FILE")
    parser.add_argument(
        "--merge", action="store_true", help="keep FILE's records of other benchmarks"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes: to try a benchmark out")
    parser.add_argument(
        "--render",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="write docs/benchmarks.md from such files and stop",
    )
    options = parser.parse_args(arguments)
    if options.merge and options.json is None:
        parser.error("--merge needs --json FILE")
    if not (options.list or options.render or options.names):
        parser.error("name a benchmark, or use --list")
    return options


def chosen(names: list[str], known: dict[str, Benchmark]) -> list[Benchmark]:
    """The benchmarks that were asked for; exits with a message for an unknown one."""
    if names == ["all"]:
        return list(known.values())
    for name in names:
        if name not in known:
            sys.exit(f"scripts/bench: no benchmark {name!r}: expected all or {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(names)]


def show(record: Record) -> None:
    """One line for a record."""
    line = f"{record.name} {record.case} ({record.threads} threads): "
    line += f"{number(record.value)} {record.unit}"
    for peer, value in record.peers.items():
        line += f", {peer} {number(value)}"
    if record.ratio_to_best_peer is not None:
        line += f"; {record.ratio_to_best_peer:.2f} of the best peer"
    if record.share_of_limit is not None:
        line += f"; {100 * record.share_of_limit:.0f} % of {record.limit_name}"
    print(line, flush=True)


def main(arguments: list[str]) -> int:
    options = options_of(arguments)
    known = discover(ROOT / "tests" / "bench")
    if options.list:
        for benchmark in known.values():
            print(f"{benchmark.name:16}{benchmark.doc.splitlines()[0]}")
        return 0
    if options.render:
        newest: dict[tuple[str, str, int], Record] = {}
        for path in options.render:
            for record in read_records(path):
                newest[record.name, record.case, record.threads] = record
        page = ROOT / "docs" / "benchmarks.md"
        page.write_text(render(newest.values(), known), encoding="utf-8")
        print(f"wrote {page.relative_to(ROOT)} from {len(newest)} records")
        return 0

    benchmarks = chosen(options.names, known)
    subprocess.run([ROOT / "scripts" / "setup", "build", "bench"], check=True)
    subprocess.run([ROOT / "scripts" / "build", "--bench"], check=True, stdout=sys.stderr)
    kept: list[Record] = []
    if options.merge and options.json.exists():
        ran = {benchmark.name for benchmark in benchmarks}
        kept = [record for record in read_records(options.json) if record.name not in ran]
    for benchmark in benchmarks:
        ctx = Context(ROOT, ROOT / "build" / "release", quick=options.quick, name=benchmark.name)
        for record in benchmark.run(ctx):
            show(record)
            kept.append(record)
        if options.json is not None:  # after each: a later one may fail
            write_records(options.json, kept)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (ValueError, RuntimeError, subprocess.CalledProcessError) as error:
        sys.exit(f"scripts/bench: {error}")
