# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""One measured figure beside its peers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import Any

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def best_ratio(value: float, peers: dict[str, float], *, higher_is_better: bool) -> float | None:
    """How many times better `value` is than the best peer; None without peers."""
    if not peers:
        return None
    if higher_is_better:
        return value / max(peers.values())
    return min(peers.values()) / value


@dataclass(frozen=True)
class Record:
    """A figure. All values share `unit`; every number is finite.

    `limit` is what the machine or a law allows in the same unit, such as the peak of its fused
    multiply-adds; `limit_name` says which.
    """

    name: str
    case: str
    value: float
    unit: str
    higher_is_better: bool
    cpu: str
    threads: int
    date: str  # ISO 8601 with its zone
    commit: str
    peers: dict[str, float] = field(default_factory=dict)
    ratio_to_best_peer: float | None = None
    limit: float | None = None
    limit_name: str | None = None

    def __post_init__(self) -> None:
        """Refuses what would mislead a reader.

        Raises
        ------
        ValueError
            With the field's name, its value and what was expected.
        """

        def need(holds: bool, name: str, expected: str) -> None:
            if not holds:
                raise ValueError(
                    f"record {self.name!r} {self.case!r}: {name} is {getattr(self, name)!r}, "
                    f"expected {expected}"
                )

        need(
            isinstance(self.name, str) and bool(NAME.fullmatch(self.name)),
            "name",
            "lower-case words joined by '-'",
        )
        for text in ("case", "unit", "cpu", "commit"):
            value = getattr(self, text)
            need(isinstance(value, str) and value.strip() != "", text, "text")
        need(is_number(self.value) and self.value > 0, "value", "a finite number above 0")
        need(isinstance(self.higher_is_better, bool), "higher_is_better", "true or false")
        need(type(self.threads) is int and self.threads > 0, "threads", "a count above 0")
        need(has_zone(self.date), "date", "ISO 8601 with a zone")
        need(
            isinstance(self.peers, dict)
            and all(isinstance(k, str) and is_number(v) and v > 0 for k, v in self.peers.items()),
            "peers",
            "names with finite numbers above 0",
        )
        ratio = best_ratio(self.value, self.peers, higher_is_better=self.higher_is_better)
        if ratio is None or self.ratio_to_best_peer is None:
            need(self.ratio_to_best_peer is ratio, "ratio_to_best_peer", f"{ratio}")
        else:
            need(
                math.isclose(self.ratio_to_best_peer, ratio, rel_tol=1e-3),
                "ratio_to_best_peer",
                f"{ratio:.4g}, as value and peers give it",
            )
        need(
            self.limit is None or (is_number(self.limit) and self.limit > 0),
            "limit",
            "nothing or a finite number above 0",
        )
        need(
            (self.limit is None) == (self.limit_name is None),
            "limit_name",
            "a name exactly where there is a limit",
        )

    @property
    def share_of_limit(self) -> float | None:
        """1 at the limit, less below it."""
        if self.limit is None:
            return None
        return self.value / self.limit if self.higher_is_better else self.limit / self.value

    def to_json(self) -> dict[str, Any]:
        """The record as it is written."""
        return asdict(self)


def is_number(value: object) -> bool:
    """Whether a value is a finite number (true and false are none)."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def has_zone(text: object) -> bool:
    """Whether a value is a date and time with a zone."""
    try:
        return isinstance(text, str) and datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def from_json(data: object) -> Record:
    """A record from parsed JSON; raises ValueError for missing, unknown or wrong fields."""
    if not isinstance(data, dict):
        raise ValueError(f"a record is an object, not {type(data).__name__}")
    known = {item.name for item in fields(Record)}
    if wrong := sorted(known ^ set(data)):
        raise ValueError(f"record {data.get('name')!r}: missing or unknown fields {wrong}")
    return Record(**data)


def read_records(path: Path) -> list[Record]:
    """The records of a file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: not JSON: {error}") from error
    if not isinstance(data, list):
        raise ValueError(f"{path}: expected a list of records")
    return [from_json(item) for item in data]


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Writes records so that a later run changes few lines."""
    text = json.dumps([record.to_json() for record in records], indent=1, ensure_ascii=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")
