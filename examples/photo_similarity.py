# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Where does one photograph resemble another? A product of tens of thousands square, checked.

Cuts the two photographs that scikit-learn ships into patches, correlates every patch of the one
with every patch of the other as one matrix product on a network of hosts, one of which lies, checks
the result against NumPy and against the canonical definition, and draws a picture.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_sample_images

import gpugoblin as gg
from photo_similarity_lib import exact, numpy_peer, patches, picture

NAMES = ("The pagoda", "The dahlia")
LIAR = 1  # which host lies
# At a rate of 5 % the liar's first lie is then its fourth tile.
LIAR_SEED = 1
SAMPLES = 256
SHOWN = 6
_ROWS = 1024


@dataclass
class Run:
    """What the network answered."""

    seconds: float
    flops: float
    pins: list[str]  #: of the hosts
    explanation: gg.Explanation


@dataclass
class Verdict:
    """What was examined; one failure is enough."""

    failures: list[str] = field(default_factory=list)

    def note(self, holds: bool, text: str) -> None:
        """Prints a finding and keeps it if it is bad."""
        print(f"  {'ok    ' if holds else 'FAILED'} {text}", flush=True)
        if not holds:
            self.failures.append(text)


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="scripts/demo", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add(
        "--stride",
        type=int,
        nargs=2,
        metavar=("DOWN", "ACROSS"),
        default=(3, 4),
        help="pixels between patches (default: 3 4, 21,666 patches a photograph)",
    )
    add("--patches", type=int, metavar="N", help="at most N patches a photograph, for small runs")
    add("--hosts", type=int, default=3, help="how many hosts, at least 2 (default: 3)")
    add("--memory", default="256MiB", help="of each host (default: 256MiB)")
    add(
        "--lie-rate",
        type=float,
        default=0.05,
        help="share of its tiles that the liar falsifies (default: 0.05); small runs have so few\n"
        "tiles that they need more",
    )
    add(
        "--liar",
        type=Path,
        metavar="PROGRAM",
        help="goblin-lying-host (default: in $GOBLIN_BIN or build/release/bin)",
    )
    add(
        "--output",
        type=Path,
        default=Path("photo_similarity.png"),
        metavar="FILE",
        help="the picture (default: photo_similarity.png)",
    )
    add(
        "--work-dir",
        type=Path,
        metavar="DIR",
        help="where matrices lie while it runs (default: the system's folder for temporary files)",
    )
    options = parser.parse_args(arguments)
    if options.hosts < 2:
        parser.error(f"--hosts {options.hosts}: one host lies, so at least 2 are needed")
    if min(options.stride) < 1:
        parser.error(f"--stride {options.stride}: both must be at least 1")
    if options.patches is not None and options.patches < 1:
        parser.error(f"--patches {options.patches}: must be at least 1")
    return options


def find_liar(given: Path | None) -> Path:
    """The host program that lies."""
    folder = Path(os.environ.get("GOBLIN_BIN", Path(__file__).parents[1] / "build/release/bin"))
    program = given or (folder if folder.is_dir() else folder.parent) / "goblin-lying-host"
    if not os.access(program, os.X_OK):
        raise SystemExit(f"{program} is not a program: run scripts/build, or name it with --liar")
    return program.resolve()


def need_room(folder: Path, count: int) -> None:
    """Refuses to begin what the disk cannot hold."""
    wanted, free = count * count * 4 + (1 << 29), shutil.disk_usage(folder).free
    if free < wanted:
        raise SystemExit(
            f"{folder} has {free / 1e9:.1f} GB free, {wanted / 1e9:.1f} GB are needed: "
            "name another folder with --work-dir, or ask for fewer --patches"
        )


def multiply(options: argparse.Namespace, folder: Path, shape: tuple[int, int]) -> Run:
    """S = A times B transposed, from file to file, on hosts of which one lies."""
    lies = {"liar.mode": "tile", "liar.rate": options.lie_rate, "liar.seed": LIAR_SEED}
    each: list[dict[str, Any]] = [{} for _ in range(options.hosts)]
    each[LIAR] = {"program": find_liar(options.liar), "set": lies}
    a = np.load(folder / "a.npy", mmap_mode="r")
    b = np.load(folder / "b.npy", mmap_mode="r")
    out = np.lib.format.open_memmap(folder / "s.npy", mode="w+", dtype=np.float32, shape=shape)
    with gg.local(hosts=options.hosts, memory=options.memory, host_options=each) as lab:
        start = time.perf_counter()
        job = lab.submit("matmul", a=a, b=b.T, out=out, policy="algebraic")
        try:
            job.result(progress=True)
        except KeyboardInterrupt:
            job.cancel()
            raise
        seconds = time.perf_counter() - start
        pins = [host.pin for host in lab.network.hosts]
        return Run(seconds, 2.0 * shape[0] * shape[1] * a.shape[1], pins, job.explain())


def judge_hosts(run: Run, verdict: Verdict) -> None:
    """The liar is named, and nobody else."""
    names = {pin: f"host-{index}" for index, pin in enumerate(run.pins)}
    print("Hosts:")
    for host in sorted(run.explanation.hosts, key=lambda host: names[host.host]):
        state = f", quarantined: {host.reason}" if host.quarantined else ""
        print(
            f"  {names[host.host]} ({host.host[:16]}): {host.accepted} tiles accepted, "
            f"{host.refused} refused{state}"
        )
    liars = [host.host for host in run.explanation.liars]
    named = ", ".join(f"{names[pin]} ({pin[:16]})" for pin in liars) or "nobody"
    print("Checks:")
    verdict.note(
        liars == [run.pins[LIAR]],
        f"the liar is named: {named}"
        if liars == [run.pins[LIAR]]
        else f"the liar is {names[run.pins[LIAR]]}, but named is {named}"
        + ("" if liars else ": with so few tiles, raise --lie-rate"),
    )


def judge_numpy(folder: Path, verdict: Verdict) -> numpy_peer.Comparison:
    """Every row is NumPy's, within rounding."""
    found = numpy_peer.compare(folder / "a.npy", folder / "b.npy", folder / "s.npy")
    verdict.note(
        found.wrong_rows == 0,
        f"NumPy: {found.rows - found.wrong_rows:,} of {found.rows:,} rows agree, "
        f"largest difference {found.largest:.1e}",
    )
    return found


def judge_bits(folder: Path, verdict: Verdict) -> None:
    """Sampled entries equal the canonical definition to the bit."""
    a, b, s = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in "abs")
    rng = np.random.default_rng(20)
    rows, columns = (rng.integers(0, size, SAMPLES) for size in s.shape)
    rows[:2], columns[:2] = (0, -1), (0, -1)
    wrong = [
        (int(i), int(j))
        for i, j in zip(rows % s.shape[0], columns % s.shape[1], strict=True)
        if int(s[i, j].view(np.uint32)) != exact.canonical_dot(a[i], b[j])
    ]
    at = f"; wrong at {wrong[:3]}" if wrong else ""
    verdict.note(
        not wrong, f"definition: {SAMPLES - len(wrong)} of {SAMPLES} sampled entries bit-equal{at}"
    )


def best_matches(s: npt.NDArray[np.float32]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """For each row the column of its largest entry, and that entry."""
    where = np.concatenate([s[i : i + _ROWS].argmax(axis=1) for i in range(0, len(s), _ROWS)])
    return where, s[np.arange(len(s)), where]


def draw(
    photos: list[npt.NDArray[np.uint8]],
    grids: tuple[patches.Grid, patches.Grid],
    folder: Path,
    hosts: int,
    output: Path,
) -> None:
    """The picture, from the result."""
    a, s = np.load(folder / "a.npy"), np.load(folder / "s.npy", mmap_mode="r")
    contrasts = (patches.contrast(photos[0], grids[0]), patches.contrast(photos[1], grids[1]))
    best = best_matches(s)
    matches = [
        picture.Match(
            grids[0].corner(index),
            grids[1].corner(int(best[0][index])),
            np.array(s[index]).reshape(grids[1].rows, grids[1].columns),
        )
        for index in patches.choose(a, grids, contrasts, best, SHOWN)
    ]
    subtitle = (
        f"{grids[0].count:,} patches of {patches.SIDE} by {patches.SIDE} pixels, each correlated "
        f"with {grids[1].count:,} others: one matrix product on {hosts} hosts, one of which lied"
    )
    picture.draw(photos, NAMES, matches, grids[1], subtitle, output)


def demonstrate(options: argparse.Namespace, folder: Path) -> Verdict:
    """Everything, in order."""
    photos: list[npt.NDArray[np.uint8]] = load_sample_images().images
    grids = tuple(
        patches.grid_within(photo.shape, options.patches)
        if options.patches is not None
        else patches.grid_of(photo.shape, *options.stride)
        for photo in photos
    )
    shape = (grids[0].count, grids[1].count)
    need_room(folder, max(shape))
    for name, photo, grid in zip("ab", photos, grids, strict=True):
        np.save(folder / f"{name}.npy", patches.cut(photo, grid))
    terms = patches.SIDE**2 * 3
    print(
        f"{shape[0]:,} x {shape[1]:,} correlations of {terms} terms on {options.hosts} hosts with "
        f"{options.memory} each; host-{LIAR} falsifies {options.lie_rate:.0%} of its tiles.",
        flush=True,
    )
    run = multiply(options, folder, shape)
    verdict = Verdict()
    judge_hosts(run, verdict)
    judge_bits(folder, verdict)
    numpy = judge_numpy(folder, verdict)
    draw(photos, (grids[0], grids[1]), folder, options.hosts, options.output)
    print(f"Picture: {options.output.absolute()}")
    cost = run.explanation.cost
    print(
        f"{shape[0]} x {shape[1]} x {terms} f32 · {run.seconds:.1f} s · "
        f"{run.flops / run.seconds / 1e9:.1f} GFLOP/s "
        f"(NumPy {run.flops / numpy.seconds / 1e9:.1f} in {numpy.seconds:.1f} s) · "
        f"{cost.bytes_sent / 1e6:.0f} MB sent · {cost.checks} tiles checked · "
        f"{cost.refused} refused · {'FAILED' if verdict.failures else 'verified'}"
    )
    return verdict


def main(arguments: list[str] | None = None) -> int:
    """Runs it; answers the exit code."""
    options = parse(sys.argv[1:] if arguments is None else arguments)
    try:
        with tempfile.TemporaryDirectory(
            prefix="photo-similarity-", dir=options.work_dir
        ) as folder:
            return 1 if demonstrate(options, Path(folder)).failures else 0
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except gg.GoblinError as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
