# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Arguments of the caller, checked before anything is done with them.

Every function answers the argument as the package uses it, and raises `ArgumentTypeError` for a
value of a wrong type, `InvalidArgumentError` for one that is out of bounds; both name the argument,
its value and what is expected.
"""

from __future__ import annotations

import difflib
import math
import numbers
import operator
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpugoblin import _core
from gpugoblin._errors import ArgumentTypeError, InvalidArgumentError

FOREVER = 1e9  # seconds; what the clocks below this can count
LARGEST = 2**63 - 1
_SHOWN = 80
_SIZE = re.compile(r"\d{1,20}(\.\d+)? ?(B|KB|MB|GB|TB|KiB|MiB|GiB|TiB)?")


def shown(value: Any) -> str:
    """A value for a message: short, whatever it is."""
    try:
        text = repr(value)
    except Exception:  # such as an integer of too many digits
        text = f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _wrong_type(name: str, value: Any, expected: str) -> ArgumentTypeError:
    return ArgumentTypeError(f"{name} is {shown(value)} ({type(value).__name__}): pass {expected}")


def integer(name: str, value: Any, low: int, high: int | None = None) -> int:
    """A whole number from `low` to `high`; NumPy's count, bools do not."""
    span = f"at least {low}" if high is None else f"between {low} and {high}"
    wanted = f"a whole number {'of ' if high is None else ''}{span}"
    if isinstance(value, (bool, np.bool_)):
        raise _wrong_type(name, value, wanted)
    try:
        number = operator.index(value)
    except TypeError:
        raise _wrong_type(name, value, wanted) from None
    if number < low or number > (LARGEST if high is None else high):
        need = f"must be {span}" if high is None else f"must lie {span}"
        raise InvalidArgumentError(f"{name} is {shown(number)}, but {need}")
    return number


def seconds(name: str, value: Any) -> float:
    """A time of at least 0 s; infinity is as long as the clocks go."""
    given = value
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise _wrong_type(name, value, "seconds as a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if given > 0 else -math.inf
    if not number >= 0:
        raise InvalidArgumentError(f"{name} is {shown(value)}, but must be at least 0 seconds")
    return min(number, FOREVER)


def optional_seconds(name: str, value: Any) -> float | None:
    """As `seconds`, or None for ever."""
    return None if value is None else seconds(name, value)


def flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise _wrong_type(name, value, "True or False")
    return bool(value)


def text(name: str, value: Any, expected: str) -> str:
    """Words that can be sent: not empty, without a NUL, of a length that the protocol takes."""
    if not isinstance(value, str):
        raise _wrong_type(name, value, expected)
    limit = _core.BOUNDS["name_bytes"]
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidArgumentError(
            f"{name} is {shown(value)}, which is no valid Unicode: pass {expected}"
        ) from None
    if not value:
        raise InvalidArgumentError(f"{name} is empty: pass {expected}")
    if "\0" in value:
        raise InvalidArgumentError(f"{name} is {shown(value)}, which holds a NUL: leave it out")
    if size > limit:
        raise InvalidArgumentError(
            f"{name} is {shown(value)} with {size} bytes, but may have {limit} at most: shorten it"
        )
    return value


def choice(name: str, value: Any, options: Sequence[str]) -> str:
    """One of some words."""
    listed = ", ".join(map(repr, options))
    if not isinstance(value, str):
        raise _wrong_type(name, value, f"one of {listed}")
    if value not in options:
        hint = close_to(value, options)
        raise InvalidArgumentError(f"{name} is {shown(value)}; it is one of {listed}{hint}")
    return value


def path(name: str, value: Any) -> Path:
    """A path that the system can open and the protocol can carry; "~" is the home directory."""
    if not isinstance(value, (str, os.PathLike)):
        raise _wrong_type(name, value, "a path as str or pathlib.Path")
    plain = os.fspath(value)
    if not isinstance(plain, str):
        raise _wrong_type(name, value, "a path as str or pathlib.Path, not bytes: os.fsdecode()")
    if not plain:
        raise InvalidArgumentError(f"{name} is an empty path: name a file or a directory")
    if "\0" in plain:
        raise InvalidArgumentError(f"{name} is {shown(plain)}, which holds a NUL: no file has it")
    found = Path(plain)
    if found.parts[:1] and found.parts[0].startswith("~"):  # of an unknown user it stays
        found = Path(os.path.expanduser(plain))  # noqa: PTH111 - Path's own raises for such a user
    try:
        size = len(os.fsencode(found.absolute()))
    except UnicodeEncodeError:
        raise InvalidArgumentError(
            f"{name} is {shown(plain)}, which no file can be called: write it in UTF-8"
        ) from None
    limit = _core.BOUNDS["path_bytes"] - 1
    if size > limit:
        raise InvalidArgumentError(
            f"{name} is {shown(plain)} with {size} bytes, but a path has {limit} at most"
        )
    return found


def size(name: str, value: Any) -> str | int:
    """Bytes as a number, or as the settings write them: "256MiB"."""
    if isinstance(value, str):
        if not _SIZE.fullmatch(value):
            raise InvalidArgumentError(
                f'{name} is {shown(value)}; write it as "256MiB", "1.5 GB" or in bytes'
            )
        return value
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise _wrong_type(name, value, 'bytes as a whole number, or words such as "256MiB"')
    return integer(name, value, 0)


def close_to(value: str, options: Iterable[str]) -> str:
    """What was probably meant, as the end of a message; empty when nothing is near."""
    near = difflib.get_close_matches(value.lower(), list(options), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def mapping(name: str, value: Any, expected: str) -> Mapping[Any, Any]:
    """A mapping."""
    if not isinstance(value, Mapping):
        raise _wrong_type(name, value, expected)
    return value


def sequence(name: str, value: Any, expected: str) -> list[Any]:
    """The items of a list, a tuple or the like; a text is no list of its letters."""
    if isinstance(value, (str, bytes, os.PathLike, Mapping)):
        raise _wrong_type(name, value, f"{expected}, as a list")
    try:
        return list(value)
    except TypeError:
        raise _wrong_type(name, value, f"{expected}, as a list") from None
