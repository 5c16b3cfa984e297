# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""A submission as the extension takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpugoblin import _outputs
from gpugoblin._arrays import Operand
from gpugoblin._dtypes import NUMBERS
from gpugoblin._errors import DTypeError, InvalidArgumentError

STAGED, FILE, BLOB = 1, 2, 3
_POLICIES = {"default": 0, "algebraic": 1, "validator": 2, "replicate": 3}


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
        "path": str(op.file.path) if storage == FILE and op.file is not None else "",
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
                f"out names '{unknown[0]}', but the outputs are: {', '.join(names)}"
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
    if policy == "none":
        raise InvalidArgumentError(
            "policy 'none' is refused: results come from strangers' computers, so nothing is used "
            "unchecked; the cheapest check is policy='algebraic', about 1 % of the work"
        )
    if policy is not None and policy not in _POLICIES:
        raise InvalidArgumentError(
            f"policy is {policy!r}; it is one of 'algebraic', 'validator', 'replicate'"
        )
    if policy == "replicate":
        count = 2 if replicas is None else replicas
        if isinstance(count, bool) or not isinstance(count, int) or not 2 <= count <= 16:
            raise InvalidArgumentError(f"replicas is {replicas!r}, but must lie between 2 and 16")
        return _POLICIES[policy], count
    if replicas is not None:
        raise InvalidArgumentError(
            f"replicas is {replicas!r}, which only policy='replicate' uses, not {policy!r}"
        )
    return _POLICIES[policy or "default"], 0


def check_weight(weight: int) -> int:
    """A job's share."""
    if isinstance(weight, bool) or not isinstance(weight, int) or not 1 <= weight <= 1000:
        raise InvalidArgumentError(f"weight is {weight!r}, but must lie between 1 and 1000")
    return weight


def out_dtype_number(name: str) -> int:
    """The number of a dtype that is named as the network does."""
    if name not in NUMBERS:
        raise DTypeError(f"out_dtype is {name!r}; it is one of {', '.join(NUMBERS)}")
    return NUMBERS[name]
