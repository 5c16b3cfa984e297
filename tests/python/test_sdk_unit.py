# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""The package without a network: arguments, addresses, errors, reports."""

from __future__ import annotations

import builtins
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import gpugoblin as gg
from gpugoblin import _core, _errors, _places, _programs
from gpugoblin._progress import bar, words
from gpugoblin._records import Cost, Explanation, KindInfo, Progress
from gpugoblin._submission import check_policy, check_weight

# ---- policies, addresses, programs ----


def test_policies() -> None:
    assert check_policy(None, None) == (0, 0)
    assert check_policy("algebraic", None) == (1, 0)
    assert check_policy("replicate", None) == (3, 2)
    assert check_policy("replicate", 16) == (3, 16)
    with pytest.raises(ValueError, match=r"'none' is refused.*unchecked.*algebraic"):
        check_policy("none", None)
    with pytest.raises(ValueError, match="policy is 'fast'"):
        check_policy("fast", None)
    for count in (1, 17, 2.0, True):
        with pytest.raises(ValueError, match="between 2 and 16"):
            check_policy("replicate", count)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="only policy='replicate'"):
        check_policy("algebraic", 2)
    for weight in (0, 1001, 1.0):
        with pytest.raises(ValueError, match="between 1 and 1000"):
            check_weight(weight)  # type: ignore[arg-type]


def test_addresses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pin = "aB" * 32
    place = _places.parse(f"lab.example:7421#{pin}")
    assert (place.host, place.port, place.pin, place.tls) == ("lab.example", 7421, "ab" * 32, True)
    assert _places.parse(f"[::1]:7421#{pin}").host == "::1"
    assert _places.parse(tmp_path / "lab.sock").socket == str(tmp_path / "lab.sock")
    assert _places.parse("a/lab.sock").socket == str(Path("a/lab.sock").absolute())
    for bad in ("lab.example:7421", "lab.example:7421#12", f"lab.example#{pin}", f":7#{pin}"):
        with pytest.raises(ValueError, match="host:port#pin"):
            _places.parse(bad)
    with pytest.raises(ValueError, match="107 bytes"):
        _places.parse(tmp_path / ("x" * 100))
    monkeypatch.setenv("GPUGOBLIN_ADDRESS", "elsewhere")
    assert _places.default_address() == "elsewhere"
    monkeypatch.delenv("GPUGOBLIN_ADDRESS")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert _places.default_address() == "/state/gpugoblin/lab/lab.sock"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/h")
    assert _places.default_address() == "/h/.local/state/gpugoblin/lab/lab.sock"


def test_nobody_answers(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError, match=r"goblin lab run.*gpugoblin\.local\(\)"):
        gg.connect(tmp_path / "lab.sock")
    address = f"127.0.0.1:1#{'00' * 32}"
    with pytest.raises(gg.UnavailableError, match=r"no lab node answers at 127\.0\.0\.1:1"):
        gg.connect(address, identity=tmp_path / "identity")
    assert len(gg.own_pin(tmp_path / "identity")) == 64


def test_silent_peers_time_out(tmp_path: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        started = time.monotonic()
        with pytest.raises(gg.UnavailableError, match=r"no answer within 0\.2 s"):
            gg.connect(tmp_path / "s", timeout=0.2)
        assert time.monotonic() - started < 5


def test_ctrl_c_interrupts_waiting(tmp_path: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            gg.connect(tmp_path / "s", timeout=30)
        assert time.monotonic() - started < 5
        timer.join()


def test_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GOBLIN_BIN", str(tmp_path))
    with pytest.raises(gg.NotFoundError, match="GOBLIN_BIN"):
        _programs.find()
    program = tmp_path / "goblin"
    program.write_text("#!/bin/sh\necho told: $*\n")
    program.chmod(0o755)
    assert _programs.find() == program
    monkeypatch.setenv("GOBLIN_BIN", str(program))
    assert _programs.find() == program
    code = "from gpugoblin._programs import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "lab", "jobs"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "told: lab jobs\n"


# ---- children ----


def test_children_die_with_their_starter(tmp_path: Path) -> None:
    """Kills a program that started one, and sees the child go."""
    code = (
        "import os, sys, time\n"
        "from gpugoblin._daemons import Spawner\n"
        "log = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)\n"
        "r, w = os.pipe()\n"
        "print(Spawner().spawn(['/bin/sleep', '1000'], log, w), flush=True)\n"
        "time.sleep(1000)\n"
    )
    starter = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "log")], stdout=subprocess.PIPE, text=True
    )
    assert starter.stdout is not None
    child = int(starter.stdout.readline())
    watch = os.pidfd_open(child)
    try:
        starter.kill()
        starter.wait()
        import select

        assert select.select([watch], [], [], 10)[0], "the child outlived its starter"
    finally:
        os.close(watch)
        starter.stdout.close()


def test_a_missing_program_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(gg.UnavailableError, match="cannot be started: No such file"):
        _core.spawn([str(tmp_path / "none")], [], 1, 1)


# ---- errors and reports ----


def test_errors_are_those_of_python_too() -> None:
    kinds = {
        1: ValueError,
        2: LookupError,
        3: gg.UnsupportedError,
        4: ConnectionError,
        5: MemoryError,
        6: gg.CorruptError,
        7: gg.JobCancelledError,
        8: gg.InternalError,
        99: gg.InternalError,
    }
    for code, kind in kinds.items():
        error = _errors.error_of(code, "what to do", True)
        assert isinstance(error, kind)
        assert isinstance(error, gg.GoblinError)
        assert str(error) == "what to do"
        assert error.lost
    assert issubclass(gg.TimeoutError, builtins.TimeoutError)
    failed = _errors.failed(7, "matmul/1", 5, "no memory")
    assert isinstance(failed, gg.JobFailedError)
    assert (failed.job, failed.reason) == (7, "exhausted")
    assert isinstance(_errors.failed(7, "matmul/1", 7, ""), gg.JobCancelledError)


STATUS: dict[str, Any] = {
    "job": 3,
    "kind": "matmul/1",
    "state": 2,
    "status": 0,
    "message": "",
    "outputs": [{"name": "c", "shape": [2, 2], "dtype": "f32"}],
    "tasks_planned": 10,
    "tasks_running": 2,
    "tasks_accepted": 4,
    "plan_done": True,
    "flops_total": 100e9,
    "flops_accepted": 40e9,
    "results_checked": 5,
    "results_refused": 1,
    "recomputed": 1,
    "bytes_sent": 7,
    "bytes_received": 8,
    "compute_us": 3_000_000,
    "check_us": 1_000_000,
    "wall_us": 2_000_000,
    "hosts": 1,
}


def test_progress_and_cost() -> None:
    progress = Progress.of(STATUS)
    assert (progress.fraction, progress.gflops, progress.hosts) == (0.4, 20.0, 1)
    assert words(progress) == "4/10 tasks · 20.0 GFLOP/s · 5 checked · 1 refused · 1 host"
    assert words(Progress.of({**STATUS, "plan_done": False})).startswith("4/10+ tasks")
    assert Progress.of({**STATUS, "flops_total": 0}).fraction == 0.4
    assert Progress.of({**STATUS, "flops_accepted": 100e9}).fraction == 0.99
    assert Progress.of({**STATUS, "state": 4}).fraction == 1.0
    assert Cost.of(STATUS).compute_seconds == 3.0


def test_explanation_names_liars() -> None:
    host = {
        "host": "ab" * 32,
        "connected": True,
        "validator": False,
        "threads": 1,
        "memory_bytes": 1,
        "state": "ready",
        "leases": 0,
        "accepted": 4,
        "confirmed": 0,
        "refused": 1,
        "failed": 0,
        "passed": 0,
        "faults": 0,
        "forgiven": 0,
        "compute_us": 5_000_000,
        "bytes_sent": 0,
        "bytes_received": 0,
        "peak_bytes": 0,
        "quarantined": True,
        "reason": "a result was refused",
    }
    honest = {**host, "host": "cd" * 32, "refused": 0, "quarantined": False}
    explanation = Explanation.of(
        {
            "status": STATUS,
            "policy": 1,
            "replicas": 0,
            "hosts": [host, honest],
            "incidents": [{"task": 5, "host": "ab" * 32, "what": "refused", "detail": "row 3"}],
            "incident_count": 30,
            "plan": [("tiles", "2 by 2")],
        }
    )
    assert [liar.host for liar in explanation.liars] == ["ab" * 32]
    text = str(explanation)
    for part in ("policy algebraic", "tiles: 2 by 2", "quarantined: a result", "row 3", "10 more"):
        assert part in text


def test_kinds_read_well() -> None:
    kind = KindInfo.of(
        {
            "name": "matmul",
            "version": 1,
            "doc": "product",
            "inputs": [
                {
                    "name": "a",
                    "doc": "left",
                    "dtypes": ["f32"],
                    "min_rank": 1,
                    "max_rank": 2,
                    "optional": False,
                }
            ],
            "params": [
                {"name": "n", "doc": "n", "default": 0, "low": 0, "high": 1, "required": False}
            ],
            "outputs": [{"name": "c", "doc": "result"}],
            "default_policy": 1,
            "default_replicas": 0,
            "plugin": "00",
        }
    )
    assert str(kind).splitlines()[0] == "matmul/1: product"
    assert kind.arrays[0].dtypes == ("f32",)


def test_local_checks_its_arguments() -> None:
    with pytest.raises(ValueError, match="hosts is 0"):
        gg.local(hosts=0)
    with pytest.raises(ValueError, match="threads is 0"):
        gg.local(threads=0)
    with pytest.raises(ValueError, match="describes 2 hosts, but there are 1"):
        gg.local(hosts=1, host_options=[{}, {}])


def test_progress_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress.of(STATUS)
    with bar("matmul/1", True) as show:  # nobody sees it: no terminal
        show(progress)
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    with bar("matmul/1", False) as show:
        show(progress)
    assert capsys.readouterr().err == ""
    with bar("matmul/1", True) as show:
        show(progress)
    seen = capsys.readouterr().err
    assert "matmul/1" in seen
    assert "4/10 tasks · 20.0 GFLOP/s · 5 checked · 1 refused · 1 host" in seen
