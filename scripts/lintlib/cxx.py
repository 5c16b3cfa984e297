# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""clang-format and clang-tidy, each run only on what changed since it last passed."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from check_includes import INCLUDE_ROOTS, parse_includes
from lintlib.cache import PassCache
from lintlib.progress import Progress
from lintlib.tree import PROJECT_FOLDERS, Report, Tree, under

# Debian 12 has both; this code's coroutines and ranges need a newer clang-tidy than its default.
CLANG_FORMAT = "clang-format"
CLANG_TIDY = "clang-tidy-19"
# Foreign headers that clang refuses and g++ takes: Cap'n Proto 0.9 compares in ways that C++20
# changed. The checks of our own lines still run.
NO_CLANG = ("/usr/include/capnp/", "/usr/include/kj/")
# Options of g++ that clang refuses or must not act on.
DROPPED_OPTIONS = frozenset({"-Werror", "-fcoroutines", "-fconcepts", "-Winvalid-pch"})


def version_of(tool: str) -> str:
    """What the tool calls itself, or "" when it is not installed."""
    if shutil.which(tool) is None:
        return ""
    return subprocess.run([tool, "--version"], check=True, capture_output=True, text=True).stdout


def check_format(tree: Tree, cache: PassCache, *, fix: bool) -> Report:
    """clang-format; with `fix` it rewrites the files instead of reporting them."""
    report = Report("clang-format", files=len(tree.cxx))
    version = version_of(CLANG_FORMAT)
    if not version:
        report.problems.append(f"{CLANG_FORMAT} is not installed; run scripts/setup")
        return report
    style = tree.read(".clang-format")
    changed = {}
    for name in tree.cxx:
        key = cache.key(["format", version, style, name, (tree.root / name).read_bytes()])
        if not cache.has_passed(key):
            changed[name] = key
    names = list(changed)
    for start in range(0, len(names), 64):
        batch = names[start : start + 64]
        command = [CLANG_FORMAT, *(["-i"] if fix else ["--dry-run", "-Werror"]), *batch]
        done = subprocess.run(command, cwd=tree.root, capture_output=True, text=True)
        if done.returncode == 0 and not fix:
            for name in batch:
                cache.remember(changed[name])
        elif done.returncode != 0:
            bad = dict.fromkeys(
                line.split(":", 1)[0] for line in done.stderr.splitlines() if ": error:" in line
            )
            report.problems.extend(
                f"{name}: not formatted; scripts/lint --fix does it" for name in bad
            )
            if not bad:
                report.problems.append(done.stderr.strip())
    return report


class Tidy:
    """clang-tidy over the files that a build knows."""

    def __init__(self, tree: Tree, cache: PassCache, build: Path) -> None:
        self.tree = tree
        self.cache = cache
        self.build = build
        self.version = version_of(CLANG_TIDY)
        self._texts: dict[str, str] = {}

    def commands(self) -> dict[str, list[str]]:
        """File of ours → its compile command, made fit for clang."""
        entries = json.loads((self.build / "compile_commands.json").read_text())
        known = set(under(self.tree.cxx, PROJECT_FOLDERS))
        commands: dict[str, list[str]] = {}
        for entry in entries:
            path = Path(entry["directory"], entry["file"])
            if not path.is_relative_to(self.tree.root):
                continue
            name = str(path.relative_to(self.tree.root))
            if name in known and name not in commands:
                commands[name] = self._for_clang(shlex.split(entry["command"]))
        return commands

    @staticmethod
    def _for_clang(command: list[str]) -> list[str]:
        kept: list[str] = []
        skip = 0
        for position, word in enumerate(command):
            if skip:
                skip -= 1
                continue
            following = command[position + 1] if position + 1 < len(command) else ""
            if word.endswith("ccache"):
                continue
            if word in {"-o", "-MF", "-MT", "-MQ"} or (
                word == "-include" and "cmake_pch" in following
            ):
                skip = 1
            elif word not in DROPPED_OPTIONS and word not in {"-MD", "-MMD"}:
                kept.append(word)
        # Warnings are the build's business; here only clang-tidy's own checks speak.
        return [kept[0], "-w", "-Wno-unknown-warning-option", *kept[1:]]

    def key(self, name: str, command: list[str]) -> str:
        """Of everything that the verdict on a file depends on, but not of where the tree lies."""
        root = str(self.tree.root)
        parts: list[str | bytes] = ["tidy", self.version, name]
        parts += [self._text(config) for config in self._configs(name)]
        parts += [word.replace(root, "") for word in command]
        for file in self._closure(name):
            parts += [file, self._text(file)]
        return self.cache.key(parts)

    def _configs(self, name: str) -> list[str]:
        """The .clang-tidy files of the folders above a file."""
        above = [str(folder / ".clang-tidy") for folder in Path(name).parents]
        return [file for file in above if (self.tree.root / file).is_file()]

    def _text(self, name: str) -> str:
        if name not in self._texts:
            self._texts[name] = self.tree.read(name)
        return self._texts[name]

    def _closure(self, name: str) -> list[str]:
        """The file and every header of ours that it brings in."""
        known = set(self.tree.cxx)
        schemas = [file for file in self.tree.files if file.endswith(".capnp")]
        seen = {name}
        waiting = [name]
        while waiting:
            file = waiting.pop()
            for include in parse_includes(self._text(file)):
                if include.target.endswith(".capnp.h"):  # generated: the schema stands for it
                    schema = Path(include.target).name.removesuffix(".h")
                    seen.update(file for file in schemas if Path(file).name == schema)
                    continue
                beside = str(Path(file).parent / include.target)
                for candidate in (*(root + include.target for root in INCLUDE_ROOTS), beside):
                    if candidate in known and candidate not in seen:
                        seen.add(candidate)
                        waiting.append(candidate)
        return sorted(seen)

    def check(self, jobs: int, *, fix: bool) -> Report:
        """Runs clang-tidy on every file whose key has not passed before."""
        report = Report("clang-tidy")
        if not self.version:
            report.problems.append(f"{CLANG_TIDY} is not installed; run scripts/setup")
            return report
        commands = self.commands()
        report.files = len(commands)
        keys = {name: self.key(name, command) for name, command in commands.items()}
        changed = [name for name in commands if not self.cache.has_passed(keys[name])]
        folder = self.tree.root / "build" / "lint"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "compile_commands.json").write_text(
            json.dumps(
                [
                    {
                        "directory": str(self.build),
                        "file": str(self.tree.root / name),
                        "arguments": command,
                    }
                    for name, command in commands.items()
                ]
            )
        )

        here = re.escape(str(self.tree.root))
        progress = Progress("clang-tidy", len(changed))

        def run(name: str) -> tuple[str, list[str]]:
            done = subprocess.run(
                [
                    CLANG_TIDY,
                    "--quiet",
                    "-p",
                    str(folder),
                    f"--header-filter=^{here}/(sdk|core|backends|plugins|hosts|tests)/",
                    f"--exclude-header-filter=^{here}/(sdk/include/goblin/abi|build)/",
                    *(["--fix"] if fix else []),
                    str(self.tree.root / name),
                ],
                cwd=self.tree.root,
                capture_output=True,
                text=True,
            )
            progress.step()
            lines = [
                line.removeprefix(f"{self.tree.root}/")
                for line in done.stdout.splitlines()
                if ": error:" in line or ": warning:" in line
            ]
            ours = [line for line in lines if not line.startswith(NO_CLANG)]
            if done.returncode == 0 or (lines and not ours):
                self.cache.remember(keys[name])
                return name, []
            return name, ours or [f"{name}: {done.stderr.strip() or 'clang-tidy failed'}"]

        # Fixes are written one file after another: two runs could rewrite the same header.
        with ThreadPoolExecutor(1 if fix else jobs) as pool:
            for _, lines in pool.map(run, changed):
                report.problems += [line for line in lines if line not in report.problems]
        return report
