# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""A submission as the extension takes it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpugoblin import _check, _core, _outputs
from gpugoblin._arrays import Operand, is_number, operand
from gpugoblin._dtypes import BFLOAT16, NAMES, NUMBERS, numpy_dtype, parse
from gpugoblin._errors import DTypeError, InvalidArgumentError
from gpugoblin._records import KindInfo

STAGED, FILE, BLOB = 1, 2, 3
_POLICIES = {"default": 0, "algebraic": 1, "validator": 2, "replicate": 3, "adaptive": 4}
_OPTIONS = ("policy", "replicas", "weight", "out")
_OF_RESULT = ("timeout", "progress")
_NAMED = ("algebraic", "validator", "replicate", "adaptive")


def bytes_of(op: Operand) -> Any:
    """Its elements, row-major, as bytes."""
    return op.contiguous().reshape(-1).view(np.uint8)


def wire_input(
    op: Operand, storage: int, *, stage: int = 0, fd_index: int = 0, digest: bytes = b""
) -> dict[str, Any]:
    """An array argument for Client.submit."""
    return {
        "name": op.name,
        "dtype": op.dtype,
        "shape": list(op.shape),
        "strides": [] if storage == BLOB else list(op.strides),
        "storage": storage,
        "stage": stage,
        "fd_index": fd_index,
        "path": os.fsencode(op.file.path) if storage == FILE and op.file is not None else b"",
        "offset": op.file.offset if storage == FILE and op.file is not None else 0,
        "digest": digest,
    }


def plan_outputs(
    infos: Sequence[dict[str, Any]], out: Any, operands: Sequence[Operand]
) -> dict[str, _outputs.Target]:
    """Checks `out` against what the kind computes."""
    expected = [_outputs.Expected(i["name"], NUMBERS[i["dtype"]], tuple(i["shape"])) for i in infos]
    names = [e.name for e in expected]
    if isinstance(out, Mapping):
        unknown = [name for name in out if name not in names]
        if unknown:
            raise InvalidArgumentError(
                f"out names {_check.shown(unknown[0])}, but the outputs are: {', '.join(names)}"
            )
        places = dict(out)
    elif out is not None and len(expected) != 1:
        raise InvalidArgumentError(
            f"out is one place for {len(expected)} outputs: pass a mapping from {', '.join(names)}"
        )
    else:
        places = {names[0]: out} if names else {}
    return {e.name: _outputs.target(e, places.get(e.name), operands) for e in expected}


def check_policy(policy: str | None, replicas: int | None) -> tuple[int, int]:
    """The wire's numbers for a policy."""
    if isinstance(policy, str) and policy == "none":
        raise InvalidArgumentError(
            "policy 'none' is refused: results come from strangers' computers, so nothing is used "
            "unchecked; the cheapest check is policy='algebraic', about 2 % of a large product"
        )
    if isinstance(policy, str) and policy.startswith("replicate="):
        digits = policy.removeprefix("replicate=")
        if not (digits.isascii() and digits.isdigit()):
            raise InvalidArgumentError(
                f"policy is {_check.shown(policy)}; write how many hosts have to agree: "
                "'replicate=2' to 'replicate=16'"
            )
        if replicas is not None and replicas != int(digits):
            raise InvalidArgumentError(
                f"replicas is {_check.shown(replicas)}, but policy is {_check.shown(policy)}: "
                "give the number once"
            )
        policy, replicas = "replicate", int(digits)
    named = "default" if policy is None else _check.choice("policy", policy, _NAMED)
    if named == "replicate":
        return _POLICIES[named], _check.integer(
            "replicas", 2 if replicas is None else replicas, 2, 16
        )
    if replicas is not None:
        raise InvalidArgumentError(
            f"replicas is {_check.shown(replicas)}, which only policy='replicate' uses: pass "
            "that, too, or leave replicas out"
        )
    return _POLICIES[named], 0


def check_weight(weight: int) -> int:
    """A job's share."""
    return _check.integer("weight", weight, 1, 1000)


def dtype_number(name: str, value: Any) -> int:
    """The wire's number of a dtype, named as the network does ("f32") or as NumPy does.

    "i8", "u8" and "f16", which NumPy reads otherwise, are the network's: numbers of bits.
    """
    if isinstance(value, str) and value in NUMBERS:
        return NUMBERS[value]
    try:
        if value is not None:  # NumPy's float64
            return parse(value, name)
    except DTypeError:
        pass
    raise DTypeError(
        f"{name} is {_check.shown(value)}; it is one of {', '.join(NUMBERS)}, or a dtype of NumPy"
    )


def with_dtypes(named: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments whose name says that they are a dtype, as the numbers that kinds take.

    One that is None is left out: the kind's default holds. Numbers stay.
    """
    found = dict(named)
    for name, value in named.items():
        if not name.endswith("dtype") or is_number(value):
            continue
        if value is None:
            del found[name]
        elif isinstance(value, (str, type, np.dtype)):
            found[name] = dtype_number(name, value)
    return found


def misspelt(named: Mapping[str, Any], kind: KindInfo) -> str:
    """Which name of an argument is misspelt, and what was probably meant; "" if none is.

    Unknown names are, that are near a known one or an option, or that have a word as their value.
    """
    known = [a.name for a in kind.arrays] + [n.name for n in kind.numbers]
    for name, value in named.items():
        if name in known:
            continue
        if name in _OF_RESULT:
            return f"submit() takes no '{name}', it answers at once: pass it to job.result()"
        hint = _check.close_to(name, [*known, *_OPTIONS])
        word = isinstance(value, str) and not value.endswith(".npy")
        if not hint and not word:
            continue
        return (
            f"{kind.name}/{kind.version} has no argument '{name}'; its arrays are: "
            f"{', '.join(a.name for a in kind.arrays) or 'none'}; its numbers: "
            f"{', '.join(n.name for n in kind.numbers) or 'none'}; every kind takes "
            f"{', '.join(_OPTIONS)}{hint}"
        )
    return ""


def arguments(args: Mapping[str, Any] | None, named: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments of a kind by name, as many and as long as a submission takes.

    Raises
    ------
    InvalidArgumentError
        Names the argument that is given twice, or has a name that cannot be sent.
    """
    what = "a mapping from the names of arguments to arrays and numbers"
    found = dict(_check.mapping("args", {} if args is None else args, what))
    for name in found:
        _check.text("the name of an argument in args", name, "text")
    for name, value in named.items():
        _check.text("the name of an argument", name, "text")
        if name in found:
            raise InvalidArgumentError(
                f"argument '{name}' is given twice, by name and in args: leave one out"
            )
        found[name] = value
    numbers = sum(is_number(value) for value in found.values())
    for count, limit, kind in (
        (len(found) - numbers, _core.BOUNDS["arrays"], "arrays"),
        (numbers, _core.BOUNDS["numbers"], "numbers"),
    ):
        if count > limit:
            raise InvalidArgumentError(
                f"the submission has {count} {kind} as arguments, but may have {limit} at most: "
                "put several into one array"
            )
    return found


def wrong_dtype(named: Mapping[str, Any], kind: KindInfo) -> str:
    """Which array has a dtype that the kind does not take, and how to convert it; "" if none has.

    The conversion that loses nothing is named, if there is one.
    """
    for array in kind.arrays:
        value = named.get(array.name)
        if value is None or is_number(value):
            continue
        given = operand(array.name, value).dtype
        if NAMES[given] in array.dtypes or not array.dtypes:
            continue
        have = numpy_dtype(NUMBERS["f32"] if given == BFLOAT16 else given)
        taken = [numpy_dtype(NUMBERS[name]) for name in array.dtypes if name != "bf16"]
        safe = [dtype for dtype in taken if np.can_cast(have, dtype)]
        best = next(iter(safe or taken), None)
        cast = "it first" if best is None else f"it with {array.name}.astype(np.{best.name})"
        return (
            f"argument '{array.name}' has dtype {NAMES[given]}; it takes "
            f"{', '.join(array.dtypes)}: convert {cast}"
        )
    return ""


def check_files(operands: Sequence[Operand], targets: Sequence[_outputs.Target]) -> None:
    """Whether a submission can carry its files' descriptors."""
    files = [f"'{op.name}'" for op in operands if op.file is not None]
    files += [f"out '{t.expected.name}'" for t in targets if t.file is not None]
    limit = _core.BOUNDS["files"]
    if len(files) > limit:
        raise InvalidArgumentError(
            f"{len(files)} arguments and places lie in files ({files[0]} to {files[-1]}), but a "
            f"submission carries {limit} at most: pass some as arrays in memory, for instance "
            "np.load(path)"
        )
