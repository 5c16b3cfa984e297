# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""The programs that the local network starts, and the `goblin` command."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from gpugoblin._errors import NotFoundError


def find() -> Path:
    """The program `goblin`.

    Taken from the environment's GOBLIN_BIN (the program, or its folder), else this package, else a
    build of the repository that this package lies in.

    Raises
    ------
    NotFoundError
        Names the places.
    """
    given = os.environ.get("GOBLIN_BIN")
    if given:
        named = Path(given)
        places = [named / "goblin" if named.is_dir() else named]
    else:
        here = Path(__file__).resolve().parent
        places = [here / "bin" / "goblin"]
        if len(here.parents) > 3:
            places += [here.parents[3] / "build" / b / "bin" / "goblin" for b in ("release", "dev")]
    for place in places:
        if os.access(place, os.X_OK) and place.is_file():
            return place
    raise NotFoundError(
        f"the program 'goblin' is not at {', '.join(map(str, places))}: install the package anew "
        "(pip install ./sdk/python), or name the program in GOBLIN_BIN"
    )


def main() -> None:
    """The console command `goblin`: becomes the packaged program."""
    try:
        program = find()
    except NotFoundError as error:
        sys.exit(f"goblin: {error}")
    os.execv(program, [str(program), *sys.argv[1:]])
