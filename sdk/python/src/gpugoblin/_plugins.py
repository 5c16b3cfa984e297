# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Plugin files that a caller names: looked at, never loaded, before a network is started."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpugoblin import _check
from gpugoblin._errors import (
    ExhaustedError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
)

_SECONDS = 30
_LEAST_ROOM = 1 << 20  # bytes of disk, with less of which nothing can be published


def checked(goblin: str, plugins: Any, with_installed: bool = True) -> list[str]:
    """Absolute paths of plugins that the network can offer.

    Raises
    ------
    ArgumentTypeError, NotFoundError, InvalidArgumentError
        Names the file, and why it is none, or is none for this release.
    """
    given = _check.sequence("plugins", plugins, "paths of plugin libraries")
    paths = [_check.path(f"plugins[{i}]", path).absolute() for i, path in enumerate(given)]
    kinds: dict[str, Path] = {}
    installed = _installed(goblin) if paths and with_installed else {}
    for index, path in enumerate(paths):
        what = f"plugins[{index}]"
        if not path.exists():
            raise NotFoundError(f"{what}: there is no file {path}: build it, or mend the path")
        if not path.is_file():
            raise InvalidArgumentError(f"{what}: {path} is not a file: name the library itself")
        for kind in _kinds_of(goblin, what, path):
            if kind in installed and not installed[kind].samefile(path):
                raise InvalidArgumentError(
                    f"{what}: {path} brings the kind {kind}, which is installed as "
                    f"{installed[kind]}: give it another name or version, or leave the installed "
                    "ones out with installed_plugins=False"
                )
            other = kinds.setdefault(kind, path)
            if other != path and not other.samefile(path):
                raise InvalidArgumentError(
                    f"{what}: {path} brings the kind {kind}, which {other} brings, too: leave one "
                    "of them out"
                )
    return [str(path) for path in paths]


def publish(
    goblin: str,
    directory: Path,
    state: Path,
    plugins: Sequence[str],
    with_installed: bool,
    flags: Sequence[str],
) -> Path:
    """Makes throw-away keys in `directory`, signs the plugins with them and publishes all for a
    coordinator with that state; answers the root file that its hosts are to trust.

    Raises
    ------
    ExhaustedError, UnavailableError
    """
    command = [goblin, "plugin", "keys", "init", os.fspath(directory), "--throw-away"]
    command += ["--state-dir", os.fspath(state), *flags]
    command += ["--installed"] if with_installed else []
    for plugin in plugins:
        command += ["--plugin", plugin]
    answer = _run(command)
    if answer.returncode != 0:
        why = answer.stderr.strip().removeprefix("goblin: ")
        if shutil.disk_usage(state.parent).free < _LEAST_ROOM:
            raise ExhaustedError(
                f"the local network cannot sign its plugins: {why}; make room on the disk of "
                f"{state.parent}, or name another directory="
            )
        raise UnavailableError(f"the local network cannot sign its plugins: {why}")
    return directory / "root-1.signed"


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{command[0]} cannot be run: {error}") from error


def _installed(goblin: str) -> dict[str, Path]:
    """Kind → file of the plugins of this installation."""
    answer = _run([goblin, "plugin", "info", "--installed", "--json"])
    if answer.returncode != 0:  # none, or one that is broken: the network will say so
        return {}
    return {kind: Path(one["file"]) for one in json.loads(answer.stdout) for kind in one["kinds"]}


def _kinds_of(goblin: str, what: str, path: Path) -> Sequence[str]:
    try:
        answer = subprocess.run(
            [goblin, "plugin", "info", os.fspath(path)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InvalidArgumentError(f"{what}: {path} cannot be looked at: {error}") from error
    if answer.returncode != 0:
        why = answer.stderr.strip().removeprefix("goblin: ") or "goblin plugin info failed"
        raise InvalidArgumentError(f"{what}: {path} is no plugin that this release can use: {why}")
    lines = (line.split() for line in answer.stdout.splitlines())
    return [words[1] for words in lines if len(words) == 2 and words[0] == "kind"]
