# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Plugin files that a caller names: looked at, never loaded, before a network is started."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpugoblin import _check
from gpugoblin._errors import InvalidArgumentError, NotFoundError

_SECONDS = 30


def checked(goblin: str, plugins: Any, flags: Sequence[str] = ()) -> list[str]:
    """Absolute paths of plugins that the network can offer.

    `flags` are the settings of its coordinator: they may leave the installed plugins out.

    Raises
    ------
    ArgumentTypeError, NotFoundError, InvalidArgumentError
        Names the file, and why it is none, or is none for this release.
    """
    given = _check.sequence("plugins", plugins, "paths of plugin libraries")
    paths = [_check.path(f"plugins[{i}]", path).absolute() for i, path in enumerate(given)]
    kinds: dict[str, Path] = {}
    installed = _offered(goblin, flags) if paths else {}
    for index, path in enumerate(paths):
        what = f"plugins[{index}]"
        if not path.exists():
            raise NotFoundError(f"{what}: there is no file {path}: build it, or mend the path")
        if not path.is_file():
            raise InvalidArgumentError(f"{what}: {path} is not a file: name the library itself")
        if "," in str(path):
            raise InvalidArgumentError(
                f"{what}: {path} has a comma in its path, which separates paths in the settings: "
                "move or rename it"
            )
        for kind in _kinds_of(goblin, what, path):
            if kind in installed and not installed[kind].samefile(path):
                raise InvalidArgumentError(
                    f"{what}: {path} brings the kind {kind}, which is installed as "
                    f"{installed[kind]}: give it another name or version, or leave the installed "
                    "ones out with coordinator_options={'plugins.installed': False}"
                )
            other = kinds.setdefault(kind, path)
            if other != path and not other.samefile(path):
                raise InvalidArgumentError(
                    f"{what}: {path} brings the kind {kind}, which {other} brings, too: leave one "
                    "of them out"
                )
    return [str(path) for path in paths]


def _offered(goblin: str, flags: Sequence[str]) -> dict[str, Path]:
    """Kind → file of what a coordinator with these settings and without state offers."""
    with tempfile.TemporaryDirectory(prefix="goblin-plugins-") as state:
        command = [goblin, "plugin", "list", "--json", "--config", os.devnull, "--state-dir", state]
        try:
            answer = subprocess.run(
                [*command, *flags],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InvalidArgumentError(f"plugins cannot be looked at: {error}") from error
    if answer.returncode != 0:  # settings that are wrong: the coordinator will say which
        return {}
    offered = json.loads(os.fsdecode(answer.stdout))["offered"]
    return {kind: Path(one["path"]) for one in offered for kind in one["kinds"]}


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
