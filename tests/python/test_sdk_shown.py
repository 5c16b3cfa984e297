# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""What a job shows of itself: what is true now, with units, whatever became of the lab node."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, assert_type

import pytest
from test_sdk_network import A, waiting

import gpugoblin as gg
from gpugoblin import _records

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def lab() -> Iterator[gg.LocalLab]:
    with gg.local(hosts=1, memory="64MiB") as lab:
        yield lab


@pytest.mark.parametrize("show", [repr, str, gg.Job._repr_html_])
def test_pictures_show_the_present(lab: gg.LocalLab, show: Any) -> None:
    job = lab.submit("matmul", a=A, b=A.T)
    assert lab.job(job.number).wait(30)  # another object sees the end, this one has not looked
    assert re.search(r"done\b.*1/1 tasks", show(job)), show(job)
    job = waiting(lab)
    lab.job(job.number).cancel()
    assert "cancelled" in show(job)
    assert "last seen" not in show(job)


def test_pictures_of_what_cannot_be_asked() -> None:
    with gg.local(hosts=1, memory="64MiB") as lab:
        forgotten, lost = waiting(lab), waiting(lab)
        lab.job(forgotten.number).cancel()
        lab.job(forgotten.number).forget()
        assert "last seen; the lab node has forgotten it" in repr(forgotten)
        lab.network.lab.kill()
        assert "last seen; the lab node does not answer just now" in repr(lost)
        assert "last seen; the lab node does not answer just now" in lost._repr_html_()
    assert "last seen; the connection was closed" in repr(lost)
    with pytest.raises(gg.JobCancelledError, match="this connection was closed"):
        lost.status  # noqa: B018


def test_a_lab_node_that_stays_away_is_an_error_of_those_who_ask() -> None:
    with gg.local(hosts=1, memory="64MiB", patience=0) as lab:
        job = waiting(lab)
        lab.network.lab.kill()
        for ask in ("status", "done", "message", "progress", "cost"):
            with pytest.raises(gg.UnavailableError, match="lab node"):
                getattr(job, ask)


def test_jobs_are_not_pickled(lab: gg.LocalLab) -> None:
    job = lab.submit("matmul", a=A, b=A.T)
    remedy = rf"a job cannot be pickled: .*connect\(address\)\.job\({job.number}\) there"
    for copying in (pickle.dumps, copy.deepcopy):
        with pytest.raises(gg.ArgumentTypeError, match=remedy):
            copying(job)
    assert copy.copy(job).number == job.number


def test_numbers_have_their_units(lab: gg.LocalLab) -> None:
    job = lab.submit("matmul", a=A, b=A.T)
    job.result(30)
    assert_type(job.cost, gg.Cost)
    assert_type(job.progress, gg.Progress)
    shown = str(job.explain())
    assert "[" not in shown  # no tuple, no record as Python writes it
    for line in shown.splitlines()[1:]:
        if "bytes" in line or "memory" in line:
            assert re.search(r": [\d.]+ ([KMG]i)?B$", line), line
    assert re.search(r"\n  1 results checked, 0 refused, 0 computed again, checks took \d", shown)
    assert re.search(
        r"\n  .* m?s, 72 FLOP, hosts computed .* [µm]?s, 96 B sent to them, \d+ B rec", shown
    )
    assert re.search(r"host [0-9a-f]{16}: 1 accepted, computed [\d.]+ [µm]?s$", shown, re.MULTILINE)
    assert str(job.cost) in shown.replace("\n  ", "; ")


def test_amounts_for_people() -> None:
    for count, text in (
        (0, "0 B"),
        (1023, "1023 B"),
        (46137380, "44.0 MiB"),
        (1 << 62, "4096.0 PiB"),
    ):
        assert _records.size_text(count) == text
    for seconds, text in (
        (0, "0 ms"),
        (2.7e-5, "27 µs"),
        (0.9996e-3, "1 ms"),
        (0.0146, "14.6 ms"),
        (0.9996, "1 s"),
        (2.3149, "2.31 s"),
        (119.4, "119 s"),
        (119.9, "2 min"),
        (3540, "59 min"),
        (3900, "1 h 05 min"),
    ):
        assert _records.seconds_text(seconds) == text
    for flops, text in (
        (0, "0 FLOP"),
        (128, "128 FLOP"),
        (5e5, "500 kFLOP"),
        (999.9e6, "1 GFLOP"),
        (3e19, "30 EFLOP"),
    ):
        assert _records.flops_text(flops) == text
    nothing = _records.Cost(0, 0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0)
    assert str(replace(nothing, bytes_sent=2048)).startswith(
        "0 ms, 0 FLOP, hosts computed 0 ms, 2.0 KiB"
    )
