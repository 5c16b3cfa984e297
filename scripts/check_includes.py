#!/usr/bin/env python3
# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Enforces who may include whom, and that each foreign library stays in its folder.

Three rules, over every C, C++, CUDA and HIP file of the repository:

1. A folder includes only the folders that LAYERS grants it (tests may include anything).
2. A foreign header belongs to a library of LIBRARIES and appears only where that library may.
   A foreign header that no entry knows is refused, so a new dependency is always a decision.
3. A library marked `sealed` does not leak either: no file outside its folder may reach one of its
   headers through headers of ours.

Usage: check_includes.py [ROOT]; prints `file:line: message`, exits 1 if there was any.
"""

from __future__ import annotations

import posixpath
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

SUFFIXES = frozenset({".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hip", ".hpp", ".inc"})

# Folder → folders it may include. The longest entry that contains a file decides; every folder may
# include itself, which an entry `core/` for `core/` would say for all of core.
LAYERS: dict[str, tuple[str, ...]] = {
    "sdk/include/goblin/abi/": ("sdk/include/goblin/abi/",),
    "sdk/include/": ("sdk/include/",),
    "sdk/graph/": ("sdk/include/", "sdk/graph/"),
    "sdk/template/": ("sdk/include/", "sdk/template/"),
    "sdk/conformance/": ("sdk/include/", "sdk/graph/", "sdk/conformance/"),
    "sdk/python/": ("sdk/", "core/"),
    "core/": ("sdk/include/", "sdk/graph/", "core/"),
    # Pure logic over a clock and a message interface: the simulation runs it without sockets.
    # core/wire's headers are plain structs.
    "core/scheduler/": ("sdk/include/", "core/scheduler/", "core/validation/", "core/wire/"),
    "core/validation/": ("sdk/include/", "core/scheduler/", "core/validation/", "core/wire/"),
    # Judges the catalogue of plugins. Of core/net only SHA-256 and descriptors; it fetches nothing.
    "core/trust/": ("sdk/include/", "core/trust/", "core/wire/", "core/store/", "core/net/"),
    "backends/common/": ("sdk/include/", "backends/common/"),
    "backends/reference/": ("sdk/include/", "backends/common/", "backends/reference/"),
    "backends/cpu/": ("sdk/include/", "backends/common/", "backends/cpu/"),
    "backends/gpu/": ("sdk/include/", "backends/common/", "backends/gpu/"),
    "plugins/": ("sdk/include/", "sdk/graph/"),  # and its own folder, see allowed_folders
    # And its own folder; hosts/link: settings and sockets of daemons, the way to the coordinator.
    "hosts/": ("sdk/include/", "sdk/graph/", "core/", "hosts/common/", "hosts/link/"),
    "hosts/common/": ("sdk/include/", "sdk/graph/", "core/", "hosts/common/"),
    "hosts/cli/": ("sdk/include/", "sdk/graph/", "core/", "hosts/"),
    "tests/": ("",),
    # Plugins like any author's.
    "tests/testing/plugins/": ("sdk/include/", "tests/testing/plugins/"),
    "examples/": ("sdk/include/",),
}

# Where `#include "…"` is looked up, as the build does.
INCLUDE_ROOTS = ("", "sdk/include/", "sdk/graph/include/")


@dataclass(frozen=True)
class Library:
    """A foreign library: its headers, and the folders that may include them."""

    name: str
    headers: re.Pattern[str]
    folders: tuple[str, ...]
    sealed: bool = False


def library(name: str, headers: str, *folders: str, sealed: bool = False) -> Library:
    return Library(name, re.compile(headers), folders, sealed)


# The first entry whose pattern matches decides.
LIBRARIES = (
    library("Boost.DLL", r"boost/dll(/|\.hpp)", "core/plugin/", sealed=True),
    library("Asio", r"boost/|asio", "core/net/", sealed=True),
    library("OpenSSL", r"openssl/", "core/net/", sealed=True),
    library("BLAKE3", r"blake3", "core/net/", sealed=True),
    library("Cap'n Proto", r"(capnp|kj)/|.*\.capnp\.h$", "core/wire/", sealed=True),
    library("SQLite", r"sqlite3(ext)?\.h$", "core/store/", sealed=True),
    library("spdlog", r"(spdlog|fmt)/", "core/log/", sealed=True),
    library("libsodium", r"sodium(\.h$|/)", "core/trust/", sealed=True),
    library("libseccomp", r"seccomp\.h$", "core/jail/", sealed=True),
    library("CLI11", r"CLI/", "hosts/cli/"),
    library("toml++", r"toml(\+\+/|plusplus/|\.hpp$)", "hosts/common/"),
    library(
        "expected",
        r"tl/expected\.hpp$",
        "sdk/include/goblin/",
        "sdk/",
        "core/",
        "backends/",
        "plugins/",
        "hosts/",
    ),
    library("pybind11", r"pybind11/|Python\.h$", "sdk/python/"),
    library("BLAS", r"(cblas|openblas_config|lapacke)\.h$", "backends/cpu/"),
    library("CUDA", r"(cuda|cublas|cub/|nv|mma\.h|cooperative_groups)", "backends/gpu/"),
    library("HIP", r"(hip|rocblas|rocwmma|hipblas)", "backends/gpu/"),
    library("GoogleTest", r"(gtest|gmock)/"),
    library("oneDNN", r"(oneapi/dnnl/|dnnl)"),
    library("BLIS", r"blis"),
)

# Headers of C, of POSIX and Linux, and of the compiler: free for everyone but the ABI.
SYSTEM = re.compile(
    r"""
    [a-z_0-9]+$                                    # C++: <vector>
    | (assert|ctype|errno|fenv|float|inttypes|limits|locale|math|setjmp|signal|stdalign|stdarg
       |stdbool|stddef|stdint|stdio|stdlib|string|strings|time|uchar|wchar|complex|threads)\.h$
    | (dirent|dlfcn|elf|fcntl|getopt|grp|ifaddrs|libgen|link|netdb|poll|pthread|pwd|sched|spawn
       |syslog|termios|ucontext|unistd|syscall|malloc|execinfo|cxxabi|features|endian)\.h$
    | (sys|linux|asm|arpa|net|netinet|bits)/[a-z_0-9/-]+\.h$
    | ([a-z0-9]*intrin|cpuid|arm_neon|arm_sve)\.h$
    """,
    re.VERBOSE,
)
ABI_SYSTEM = frozenset({"stddef.h", "stdint.h"})
# What pure logic may not use, whatever its layer: it would make a simulation depend on real time.
PURE_FOLDERS = ("core/scheduler/", "core/validation/")
IMPURE = re.compile(
    r"(thread|mutex|condition_variable|future|atomic|stop_token|filesystem|fstream"
    r"|unistd\.h|pthread\.h|poll\.h|sys/socket\.h|sys/epoll\.h|netinet/.*)$"
)

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include(?:_next)?[ \t]*([<"])([^>"]+)[>"]')


@dataclass(frozen=True)
class Include:
    """One `#include` line."""

    line: int
    quoted: bool
    target: str


@dataclass(frozen=True)
class Problem:
    """A broken rule."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


def parse_includes(text: str) -> list[Include]:
    """The `#include` lines of a file that are not inside a block comment."""
    found = []
    comment = False
    for number, line in enumerate(text.splitlines(), start=1):
        if not comment and (match := INCLUDE.match(line)):
            found.append(Include(number, match[1] == '"', match[2]))
        position = 0
        while True:
            mark = line.find("*/" if comment else "/*", position)
            if mark < 0 or (not comment and 0 <= line.find("//", position) < mark):
                break
            comment = not comment
            position = mark + 2
    return found


def home(file: str) -> str:
    """The entry of LAYERS that decides about a file, or "" when none does."""
    return max((entry for entry in LAYERS if file.startswith(entry)), key=len, default="")


def part(file: str) -> str:
    """`plugins/matmul/` of plugins/matmul/plan.cpp: the folder below the top folder."""
    parents = PurePosixPath(file).parts[:-1]
    return "/".join(parents[:2]) + "/"


def allowed_folders(file: str) -> tuple[str, ...]:
    """What a file may include, its own folder among it."""
    entry = home(file)
    own = (part(file),) if entry in {"plugins/", "hosts/"} else ()
    return LAYERS[entry] + own


def library_of(header: str) -> Library | None:
    """The foreign library that a header belongs to."""
    return next((lib for lib in LIBRARIES if lib.headers.match(header)), None)


def may_use(file: str, lib: Library) -> bool:
    """Whether a file may include a library's headers."""
    if file.startswith("tests/"):
        return True
    if file.startswith("sdk/include/goblin/abi/"):
        return False
    return file.startswith(lib.folders) if lib.folders else False


def places(lib: Library) -> str:
    """The folders of a library, for a message."""
    return " and ".join(folder.rstrip("/") for folder in (*lib.folders, "tests")[:3])


class Checker:
    """The includes of a set of files, by path relative to the repository's root."""

    def __init__(self, sources: dict[str, str], templates: Iterable[str] = ()) -> None:
        """`sources`: path → text. `templates`: paths of `*.in` files that configure writes."""
        self.includes = {file: parse_includes(text) for file, text in sources.items()}
        self.configured = {name.removesuffix(".in") for name in templates}
        self._reached: dict[str, dict[str, tuple[str, ...]]] = {}

    def resolve(self, file: str, target: str) -> str | None:
        """The path of `#include "target"` in a file; None when it is not one of ours."""
        own = posixpath.normpath(PurePosixPath(file).parent / target)
        for candidate in (*(root + target for root in INCLUDE_ROOTS), own):
            if candidate in self.includes or candidate in self.configured:
                return candidate
        return None

    def check(self) -> list[Problem]:
        """Every broken rule, in order of file and line."""
        problems: list[Problem] = []
        for file in sorted(self.includes):
            problems.extend(self._check_file(file))
        return problems

    def _check_file(self, file: str) -> Iterator[Problem]:
        if not home(file):
            yield Problem(
                file,
                1,
                "lies in no folder that scripts/check_includes.py knows; "
                "add it to LAYERS with what it may include",
            )
            return
        for include in self.includes[file]:
            ours = self.resolve(file, include.target)
            if ours is not None:
                yield from self._check_ours(file, include, ours)
            else:
                yield from self._check_foreign(file, include)

    def _check_ours(self, file: str, include: Include, ours: str) -> Iterator[Problem]:
        if not include.quoted and not file.startswith(("sdk/template/", "tests/abi/")):
            yield Problem(file, include.line, f"<{include.target}> is ours: include it in quotes")
        if ".." in PurePosixPath(include.target).parts:
            yield Problem(
                file, include.line, f'"{include.target}": name the path from the repository\'s root'
            )
        if not ours.startswith(allowed_folders(file)):
            granted = ", ".join(folder.rstrip("/") for folder in allowed_folders(file))
            yield Problem(
                file,
                include.line,
                f'"{include.target}": {home(file).rstrip("/")} may include only {granted}',
            )
        elif not file.startswith("tests/"):
            for name, way in self._reach(ours).items():
                lib = next(lib for lib in LIBRARIES if lib.name == name)
                if not may_use(file, lib):
                    yield Problem(
                        file,
                        include.line,
                        f"reaches {name} through {' → '.join(way)}; keep it in .cpp "
                        f"files of {places(lib)}",
                    )

    def _check_foreign(self, file: str, include: Include) -> Iterator[Problem]:
        target = include.target
        lib = library_of(target)
        if file.startswith("sdk/include/goblin/abi/") and target not in ABI_SYSTEM:
            yield Problem(
                file, include.line, f"<{target}>: the ABI includes stdint.h and stddef.h only"
            )
        elif file.startswith(PURE_FOLDERS) and IMPURE.match(target):
            yield Problem(
                file,
                include.line,
                f"<{target}>: this folder is pure logic, without threads, files or sockets",
            )
        elif lib is not None and SYSTEM.match(target) is None:
            if not may_use(file, lib):
                yield Problem(
                    file,
                    include.line,
                    f"<{target}> is {lib.name}, which only {places(lib)} may include",
                )
        elif include.quoted:
            yield Problem(file, include.line, f'"{target}" is no file of the repository')
        elif SYSTEM.match(target) is None and not file.startswith("tests/"):
            yield Problem(
                file,
                include.line,
                f"<{target}> belongs to no library that scripts/check_includes.py "
                "knows; add it to LIBRARIES with its one folder",
            )

    def _reach(self, file: str) -> dict[str, tuple[str, ...]]:
        """Sealed libraries that a header of ours brings in → the includes that lead there."""
        if file not in self._reached:
            found: dict[str, tuple[str, ...]] = {}
            ways: dict[str, tuple[str, ...]] = {file: (file,)}
            waiting = [file]
            for header in waiting:  # breadth first, so the shortest way is the one named
                for include in self.includes.get(header, []):
                    ours = self.resolve(header, include.target)
                    lib = (
                        None if ours or SYSTEM.match(include.target) else library_of(include.target)
                    )
                    if ours is not None and ours not in ways:
                        ways[ours] = (*ways[header], ours)
                        waiting.append(ours)
                    elif lib is not None and lib.sealed:
                        found.setdefault(lib.name, (*ways[header], f"<{include.target}>"))
            self._reached[file] = found
        return self._reached[file]


def repository_files(root: Path) -> list[str]:
    """What git knows or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return sorted({name for name in listed.split("\0") if name and (root / name).is_file()})


def check_tree(root: Path) -> tuple[int, list[Problem]]:
    """Checks a repository. Returns the number of files and the broken rules."""
    names = repository_files(root)
    sources = {
        name: (root / name).read_text(encoding="utf-8", errors="replace")
        for name in names
        if PurePosixPath(name).suffix in SUFFIXES
    }
    templates = [name for name in names if name.endswith(".in")]
    return len(sources), Checker(sources, templates).check()


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    files, problems = check_tree(root)
    for problem in problems:
        print(problem)
    print(f"check_includes: {files} files, {len(problems)} problems", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
