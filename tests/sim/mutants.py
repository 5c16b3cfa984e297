#!/usr/bin/env python3
# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Plants faults in the product, one at a time, and shows that the simulation finds each.

Each file of tests/sim/mutations changes one or two places of the real sources. A copy of the
changed file is compiled and linked into a goblin-sim of its own before the libraries; then
histories run until one fails. Build goblin-sim first (scripts/build --targets goblin-sim).
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FOUND = re.compile(r"FAILED seed (\d+): (.*)")


@dataclass(frozen=True)
class Edit:
    """A place in a source file."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutation:
    """A planted fault, and how many histories may pass before it is found."""

    name: str
    about: str
    within: int
    edits: tuple[Edit, ...]


@dataclass(frozen=True)
class Verdict:
    """What the simulation said of a mutation."""

    mutation: Mutation
    seed: int | None  # None: not found
    histories: int
    seconds: float
    words: str


def load(folder: Path = HERE / "mutations") -> list[Mutation]:
    """All mutations in the order of their names."""
    found = []
    for path in sorted(folder.glob("*.toml")):
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        edits = tuple(Edit(e["file"], e["old"], e["new"]) for e in data["edits"])
        found.append(Mutation(path.stem, data["about"], data["within"], edits))
    return found


def changed_sources(mutation: Mutation, root: Path = ROOT) -> dict[str, str]:
    """File → its text with the fault; ValueError where the place is not there just once."""
    texts: dict[str, str] = {}
    for edit in mutation.edits:
        text = texts.get(edit.file) or (root / edit.file).read_text(encoding="utf-8")
        if (count := text.count(edit.old)) != 1:
            raise ValueError(
                f"mutation {mutation.name}: its text is {count} times in {edit.file}, expected "
                f"once; the product has changed, plant the fault anew: {edit.old!r}"
            )
        texts[edit.file] = text.replace(edit.old, edit.new)
    return texts


def compile_command(build: Path, file: str) -> list[str]:
    """How the build compiles a file, without the names of input and output."""
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        if Path(entry["file"]) == ROOT / file:
            words = shlex.split(entry["command"])
            return words[: words.index("-o")]
    raise ValueError(f"{build}/compile_commands.json does not know {file}: build first")


def link_command(build: Path) -> list[str]:
    """How the build links goblin-sim."""
    lines = subprocess.run(
        ["ninja", "-C", str(build), "-t", "commands", "tests/goblin-sim"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    return shlex.split(lines[-1].split("&&")[1])


def plant(mutation: Mutation, build: Path, folder: Path) -> Path:
    """Builds a goblin-sim with the fault."""
    objects = []
    for file, text in changed_sources(mutation).items():
        source = folder / Path(file).name
        source.write_text(text, encoding="utf-8")
        compiled = source.with_suffix(".o")
        command = compile_command(build, file)
        # A second -O wins; a fault may leave a name unused.
        command += ["-O1", "-Wno-error", "-w", "-o", str(compiled), "-c", str(source)]
        subprocess.run(command, check=True, cwd=build)
        objects.append(str(compiled))
    program = folder / "goblin-sim"
    command = link_command(build)
    at = command.index("-o")
    command[at + 1] = str(program)
    subprocess.run(command[:at] + objects + command[at:], check=True, cwd=build)
    return program


def run(mutation: Mutation, build: Path, first: int) -> Verdict:
    """Histories from seed `first` on until one finds the fault, no more than it may take."""
    with tempfile.TemporaryDirectory() as folder:
        program = plant(mutation, build, Path(folder))
        began = time.monotonic()
        done = subprocess.run(
            [str(program), "--first", str(first), "--histories", str(mutation.within)],
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
    seconds = time.monotonic() - began
    if match := FOUND.search(done.stdout):
        seed = int(match[1])
        return Verdict(mutation, seed, seed - first + 1, seconds, match[2])
    if done.returncode < 0:
        # It died of the fault: found too, without the seed.
        return Verdict(mutation, 0, 0, seconds, f"killed by signal {-done.returncode}")
    return Verdict(mutation, None, mutation.within, seconds, "")


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="mutations; all when left out")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--first", type=int, default=1, help="seed to begin with")
    parser.add_argument("--table", action="store_true", help="rows for the README")
    options = parser.parse_args()
    known = {mutation.name: mutation for mutation in load()}
    if unknown := set(options.names) - set(known):
        parser.error(
            f"no such mutation: {', '.join(sorted(unknown))}; there are {', '.join(known)}"
        )
    missed = 0
    for name in options.names or known:
        verdict = run(known[name], options.build, options.first)
        missed += verdict.seed is None
        if options.table and verdict.seed is not None:
            words = re.sub(r"^at [0-9.]+ s: ", "", verdict.words)
            print(f"| {name} | {verdict.histories} | {verdict.seed} | {words[:90]} |", flush=True)
        elif verdict.seed is not None:
            print(
                f"{name}: found by seed {verdict.seed}, history {verdict.histories} of at most "
                f"{known[name].within}, in {verdict.seconds:.1f} s: {verdict.words[:160]}",
                flush=True,
            )
        else:
            print(
                f"{name}: NOT FOUND in {verdict.histories} histories ({verdict.seconds:.0f} s)",
                flush=True,
            )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
