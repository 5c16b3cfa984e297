# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""scripts/build, demo and test in a folder where what they start is replaced by a recorder."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECORDER = """#!/bin/sh
echo "$(basename "$0") in $PWD: $*" >> {calls}
"""


class Clone:
    """A folder with the scripts; setup, cmake and Python only note that they were called."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls_file = root / "calls"
        for name in ("build", "demo", "test", "lint", "lib.sh"):
            (root / "scripts").mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / "scripts" / name, root / "scripts" / name)
        for name in ("scripts/setup", "bin/cmake", ".venv/bin/python"):
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(RECORDER.format(calls=self.calls_file))
            path.chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{root / 'bin'}:{os.environ['PATH']}"}

    def calls(self) -> list[str]:
        return self.calls_file.read_text().splitlines() if self.calls_file.exists() else []

    def start(self, script: str, *words: str, cwd: Path | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.root / "scripts" / script, *words],
            cwd=cwd or self.root,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, script: str, *words: str, cwd: Path | None = None) -> tuple[int, str, str]:
        process = self.start(script, *words, cwd=cwd)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path / "clone")


@pytest.mark.parametrize("script", ["build", "demo", "test", "lint"])
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_sets_nothing_up(clone: Clone, script: str, option: str) -> None:
    code, out, err = clone.run(script, option)
    assert (code, err) == (0, "")
    assert out.startswith(f"scripts/{script}")
    assert clone.calls() == []
    assert not (clone.root / "build").exists()


def test_help_of_the_demo_names_every_option() -> None:
    program = (ROOT / "examples/photo_similarity.py").read_text()
    options = set(re.findall(r'"(--[a-z-]+)"', program))
    assert "--output" in options
    assert options == set(
        re.findall(r"^#   (--[a-z-]+)", (ROOT / "scripts/demo").read_text(), re.M)
    )


def test_the_demo_takes_paths_from_where_one_is(clone: Clone, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    code, _, err = clone.run("demo", "--output", "pic.png", cwd=elsewhere)
    assert code == 0, err
    program = clone.root / "examples/photo_similarity.py"
    assert clone.calls()[-1] == f"python in {elsewhere}: {program} --output pic.png"


def test_the_picture_of_the_demo_is_ignored_by_git() -> None:
    command = ["git", "check-ignore", "-q", "photo_similarity.png"]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0


@pytest.mark.parametrize("moved", [True, False])
def test_a_build_of_another_folder_is_made_anew(clone: Clone, *, moved: bool) -> None:
    cache = clone.root / "build/release/CMakeCache.txt"
    cache.parent.mkdir(parents=True)
    home = "/nowhere/else" if moved else clone.root
    cache.write_text(f"CMAKE_HOME_DIRECTORY:INTERNAL={home}\n")
    code, _, err = clone.run("build", "--targets", "goblin")
    assert code == 0, err
    assert cache.exists() != moved
    assert ("was made for another folder" in err) == moved
    assert any("--preset release" in call for call in clone.calls())


def test_two_builds_of_one_folder_take_turns(clone: Clone) -> None:
    (clone.root / "build").mkdir()
    with (clone.root / "build/.build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with clone.start("build", "--targets", "goblin") as process:
            assert process.stderr is not None
            assert "waits for another build" in process.stderr.readline()
            assert not any(call.startswith("cmake") for call in clone.calls())
            fcntl.flock(lock, fcntl.LOCK_UN)
            process.communicate(timeout=60)
            assert process.returncode == 0
    assert sum(call.startswith("cmake") for call in clone.calls()) == 2
