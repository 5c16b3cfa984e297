# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Arguments of wrong types and out of bounds: our own errors, before anything is sent."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin import _arrays, _check, _core, _submission

WRONG: Any = object()  # nothing that any argument takes
HUGE = 10**5000  # Python refuses to print it


@pytest.fixture(autouse=True)
def nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*arguments: object, **options: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(_core, "spawn", started)


def test_whole_numbers() -> None:
    assert _check.integer("n", np.int64(3), 1, 4) == 3
    for wrong in ("3", 2.0, None, True, np.True_, [3], np.array([1, 2]), WRONG):
        with pytest.raises(gg.ArgumentTypeError, match=r"^n is .*pass a whole number between 1"):
            _check.integer("n", wrong, 1, 4)
    for beyond in (0, 5, -1, 2**64, HUGE, -HUGE):
        with pytest.raises(gg.InvalidArgumentError, match=r"^n is .*must lie between 1 and 4"):
            _check.integer("n", beyond, 1, 4)
    with pytest.raises(gg.InvalidArgumentError, match="must be at least 1"):
        _check.integer("n", 0, 1)
    with pytest.raises(gg.InvalidArgumentError, match="n is 9223372036854775808"):
        _check.integer("n", 2**63, 1)


def test_seconds() -> None:
    for right in (0, 3, 2.5, np.float32(1), np.int64(2), Fraction(1, 2), math.inf, HUGE):
        assert 0 <= _check.seconds("timeout", right) <= _check.FOREVER
    for wrong in ("3", None, True, 1j, [1], WRONG):
        with pytest.raises(gg.ArgumentTypeError, match=r"^timeout is .*pass seconds as a number"):
            _check.seconds("timeout", wrong)
    for beyond in (math.nan, -1, -0.001, -math.inf, np.float64("nan"), -HUGE):
        with pytest.raises(gg.InvalidArgumentError, match=r"^timeout is .*at least 0 seconds"):
            _check.seconds("timeout", beyond)
    assert _check.optional_seconds("timeout", None) is None


def test_words_and_paths() -> None:
    for wrong in (3, b"matmul", None, WRONG):
        with pytest.raises(gg.ArgumentTypeError, match=r"^kind is .*pass a name"):
            _check.text("kind", wrong, "a name")
    assert _check.text("kind", "ü" * 128, "a name")
    bad: dict[str, str] = {"": "empty", "a\0b": "NUL", "x" * 257: "257 bytes", "\ud800": "Unicode"}
    bad["ü" * 129] = "258 bytes"
    for value, says in bad.items():
        with pytest.raises(gg.InvalidArgumentError, match=f"^kind is .*{says}"):
            _check.text("kind", value, "a name")
    for wrong in (3, b"/run", None, WRONG):
        with pytest.raises(gg.ArgumentTypeError, match=r"^out is .*pass a path"):
            _check.path("out", wrong)
    for value, says in {
        "": "empty",
        "a\0": "NUL",
        "/x" * 3000: "4095 at",
        "\ud800": "UTF-8",
    }.items():
        with pytest.raises(gg.InvalidArgumentError, match=f"^out is .*{says}"):
            _check.path("out", value)


def test_sizes() -> None:
    for right in (1, np.int32(7), "1.5 GB", "256MiB", "12", "0B"):
        assert _check.size("memory", right) == right
    for wrong in (3.5, True, None, [1], WRONG):
        with pytest.raises(gg.ArgumentTypeError, match=r'^memory is .*words such as "256MiB"'):
            _check.size("memory", wrong)
    for bad in ("", "lots", "256 mib", "-1MiB", "1..5MiB", "1MiB\n", -1, 2**64):
        with pytest.raises(gg.InvalidArgumentError, match=r"^memory is "):
            _check.size("memory", bad)


# ---- public functions that need no network ----

ANY: Any = gg  # called as no type checker would allow
PIN = "ab" * 32


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: ANY.connect(3), TypeError, "address is 3 "),
        (lambda: ANY.connect(b"/run/x"), TypeError, "address is b'/run/x' "),
        (lambda: ANY.connect(""), ValueError, "address is empty"),
        (lambda: ANY.connect("/run/a\0b"), ValueError, "address is .*NUL"),
        (
            lambda: ANY.connect("h" * 300 + f":7#{PIN}"),
            ValueError,
            "address is|address 'h.*host:port",
        ),
        (lambda: ANY.connect(f"a b:7#{PIN}"), ValueError, "host:port#pin"),
        (lambda: ANY.connect(f"host:²#{PIN}"), ValueError, "host:port#pin"),
        (lambda: ANY.connect("/x", timeout="3"), TypeError, "timeout is '3' "),
        (lambda: ANY.connect("/x", timeout=None), TypeError, "timeout is None "),
        (lambda: ANY.connect("/x", timeout=math.nan), ValueError, "timeout is nan"),
        (lambda: ANY.connect("/x", timeout=-1), ValueError, "timeout is -1"),
        (lambda: ANY.connect("/x", patience="long"), TypeError, "patience is 'long' "),
        (lambda: ANY.connect("/x", patience=math.nan), ValueError, "patience is nan"),
        (lambda: ANY.connect(f"h:7#{PIN}", identity=7), TypeError, "identity is 7 "),
        (lambda: ANY.own_pin(7), TypeError, "identity is 7 "),
        (lambda: ANY.own_pin(__file__), ConnectionError, "identity: .*py is no directory"),
        (lambda: ANY.own_pin(""), ValueError, "identity is an empty path"),
        (lambda: ANY.RawFile(7, 2, "f4"), TypeError, "RawFile: path is 7 "),
        (lambda: ANY.RawFile("", 2, "f4"), ValueError, "RawFile: path is an empty"),
        (lambda: ANY.RawFile("x", "2", "f4"), TypeError, "RawFile: shape is '2' "),
        (lambda: ANY.RawFile("x", 2.5, "f4"), TypeError, "RawFile: shape is 2.5 "),
        (lambda: ANY.RawFile("x", (2, 1.0), "f4"), TypeError, "RawFile: a length .* is 1.0 "),
        (lambda: ANY.RawFile("x", (2, -1), "f4"), ValueError, "negative length -1"),
        (lambda: ANY.RawFile("x", (1,) * 17, "f4"), ValueError, "17 dimensions, .* 16 at most"),
        (lambda: ANY.RawFile("x", (2**40, 2**40), "f4"), ValueError, r"beyond 2\^62"),
        (lambda: ANY.RawFile("x", HUGE, "f4"), ValueError, "RawFile: a length .* cannot be shown"),
        (lambda: ANY.RawFile("x", 2, "f4", offset="0"), TypeError, "RawFile: offset is '0' "),
        (lambda: ANY.RawFile("x", 2, "f4", offset=-4), ValueError, "RawFile: offset is -4"),
        (lambda: ANY.RawFile("x", 2, "f4", offset=2**64), ValueError, "RawFile: offset is"),
        (lambda: ANY.RawFile("x", 2, 7), TypeError, "RawFile: 7 is no dtype"),
        (lambda: ANY.RawFile("x", 2, "O"), TypeError, "RawFile has dtype object"),
        (lambda: ANY.RawFile("/nowhere/x", 2, "f4").map(), LookupError, "no file /nowhere/x"),
        (lambda: ANY.RawFile("/nowhere/x", 2, "f4").map("r+"), LookupError, "no file /nowhere/x"),
        (lambda: ANY.RawFile("/dev/null", 2, "f4").map("rw"), ValueError, "mode is 'rw'; .*'r+'"),
        (lambda: ANY.RawFile("/dev/null", 2, "f4").map(), ValueError, "no regular file"),
        (lambda: ANY.local(hosts="2"), TypeError, "hosts is '2' "),
        (lambda: ANY.local(hosts=True), TypeError, "hosts is True "),
        (lambda: ANY.local(hosts=1.0), TypeError, "hosts is 1.0 "),
        (lambda: ANY.local(hosts=-1), ValueError, "hosts is -1"),
        (lambda: ANY.local(hosts=1001), ValueError, "hosts is 1001, .* 0 and 1000"),
        (lambda: ANY.local(validators="1"), TypeError, "validators is '1' "),
        (lambda: ANY.local(threads=0.5), TypeError, "threads is 0.5 "),
        (lambda: ANY.local(memory=3.5), TypeError, "memory is 3.5 "),
        (lambda: ANY.local(memory="lots"), ValueError, "memory is 'lots'; .*256MiB"),
        (lambda: ANY.local(cache=None), TypeError, "cache is None "),
        (lambda: ANY.local(keep="yes"), TypeError, "keep is 'yes' .*True or False"),
        (lambda: ANY.local(log_level="loud"), ValueError, "log_level is 'loud'; .*'warn'"),
        (lambda: ANY.local(log_level=3), TypeError, "log_level is 3 "),
        (lambda: ANY.local(directory=3), TypeError, "directory is 3 "),
        (
            lambda: ANY.local(directory="/dev/null/x"),
            ValueError,
            "directory: no state .*/dev/null/x",
        ),
        (lambda: ANY.local(patience="x"), TypeError, "patience is 'x' "),
        (lambda: ANY.local(plugins="x.so"), TypeError, "plugins is 'x.so' .*as a list"),
        (lambda: ANY.local(plugins=3), TypeError, "plugins is 3 "),
        (lambda: ANY.local(plugins=[3]), TypeError, r"plugins\[0\] is 3 "),
        (lambda: ANY.local(host_options={}), TypeError, "host_options is {} .*as a list"),
        (lambda: ANY.local(host_options=[3]), TypeError, r"host_options\[0\] is 3 "),
        (lambda: ANY.local(host_options=[{"x": 1}]), ValueError, r"host_options\[0\] has no 'x'"),
        (lambda: ANY.local(host_options=[{"memory": 1.5}]), TypeError, r"\[0\]: memory is 1.5 "),
        (lambda: ANY.local(host_options=[{"threads": "2"}]), TypeError, r"\[0\]: threads is '2' "),
        (lambda: ANY.local(host_options=[{"args": "x"}]), TypeError, r"\[0\]: args is 'x' "),
        (lambda: ANY.local(host_options=[{"set": 3}]), TypeError, r"\[0\]: set is 3 "),
        (lambda: ANY.local(host_options=[{"program": 3}]), TypeError, r"\[0\]: program is 3 "),
        (lambda: ANY.local(lab_options=[("a", 1)]), TypeError, "lab_options is .*a mapping"),
        (lambda: ANY.local(lab_options={"a": None}), TypeError, "lab_options: 'a' is None "),
        (lambda: ANY.local(lab_options={"a": ["x,y"]}), ValueError, "lab_options: 'a' is 'x,y'"),
        (lambda: ANY.local(coordinator_options={3: 1}), TypeError, "in coordinator_options is 3 "),
    ],
)
def test_functions_name_the_argument(
    call: Callable[[], Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says) as caught:
        call()
    assert isinstance(caught.value, gg.GoblinError)
    assert "incompatible function arguments" not in str(caught.value)


def test_plugins_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(gg.NotFoundError, match=r"plugins\[0\]: there is no file .*/missing\.so"):
        gg.local(plugins=[tmp_path / "missing.so"])
    garbage = tmp_path / "garbage.so"
    garbage.write_bytes(os.urandom(5000))
    (tmp_path / "a,b.so").touch()
    for plugins, says in (
        ([tmp_path], rf"plugins\[0\]: {tmp_path} is not a file"),
        ([tmp_path / "a,b.so"], r"plugins\[0\].*a,b\.so is no plugin"),
        ([garbage], rf"plugins\[0\]: {garbage} is no plugin .*: .+"),
    ):
        with pytest.raises(gg.InvalidArgumentError, match=says):
            gg.local(plugins=plugins, directory=tmp_path / "state")
    assert not (tmp_path / "state").exists()


# ---- submissions ----


def test_names_of_arguments() -> None:
    found = _submission.arguments({"policy": 1}, {"a": 2})
    assert found == {"policy": 1, "a": 2}
    with pytest.raises(gg.ArgumentTypeError, match="args is"):
        _submission.arguments([("a", 1)], {})  # type: ignore[arg-type]
    with pytest.raises(gg.ArgumentTypeError, match="name of an argument in args is 3"):
        _submission.arguments({3: 1}, {})  # type: ignore[dict-item]
    with pytest.raises(gg.InvalidArgumentError, match="'a' is given twice"):
        _submission.arguments({"a": 1}, {"a": 2})
    for name in ("", "x" * 257, "a\0b", "\ud800"):
        with pytest.raises(gg.InvalidArgumentError, match="the name of an argument is"):
            _submission.arguments(None, {name: 1})


def test_how_many_arguments() -> None:
    most = _core.BOUNDS["arrays"]
    assert most == _core.BOUNDS["numbers"] == 1024
    assert _submission.arguments({f"n{i}": i for i in range(most)}, {})
    for value, kind in ((1, "numbers"), ([1], "arrays")):
        many = {f"n{i}": value for i in range(most + 1)}
        with pytest.raises(gg.InvalidArgumentError, match=f"1025 {kind}.*1024 at most"):
            _submission.arguments(many, {})


def test_bounds_of_arrays_and_numbers(tmp_path: Path) -> None:
    assert _arrays.operand("a", np.zeros((1,) * 16)).shape == (1,) * 16
    for deep in (np.zeros((1,) * 17), np.zeros((1,) * 64)):
        with pytest.raises(gg.InvalidArgumentError, match=r"'a' has \d+ dimensions, .*16 at most"):
            _arrays.operand("a", deep)
        np.save(tmp_path / "deep.npy", deep)
        with pytest.raises(gg.InvalidArgumentError, match=r"'a' has \d+ dimensions, .*16 at most"):
            _arrays.operand("a", tmp_path / "deep.npy")
    wide = np.broadcast_to(np.float64(1), (2**30, 2**29 + 1))
    with pytest.raises(gg.InvalidArgumentError, match=r"'a' has shape .*2\^62 bytes"):
        _arrays.operand("a", wide)
    for value in (2**63, -(2**63) - 1, HUGE, np.uint64(2**63)):
        with pytest.raises(gg.InvalidArgumentError, match=r"'n' is .*64-bit integer"):
            _arrays.parameter("n", value)
    with pytest.raises(gg.DTypeError, match=r"'a' is list.*64 bits"):
        _arrays.operand("a", [[2**70]])


def test_replicate_with_its_number() -> None:
    assert _submission.check_policy("replicate=3", None) == _submission.check_policy("replicate", 3)
    assert _submission.check_policy("replicate=3", 3) == _submission.check_policy("replicate", 3)
    for wrong in ("replicate=", "replicate=two", "replicate=-2", "replicate=²"):
        with pytest.raises(gg.InvalidArgumentError, match=r"^policy is 'replicate=.*'replicate=2'"):
            _submission.check_policy(wrong, None)
    with pytest.raises(gg.InvalidArgumentError, match="give the number once"):
        _submission.check_policy("replicate=3", 2)
    with pytest.raises(gg.InvalidArgumentError, match=r"^replicas is 17"):
        _submission.check_policy("replicate=17", None)


def test_policies_and_weights_of_wrong_types() -> None:
    policies: list[Any] = [3, b"algebraic", ["algebraic"], np.array(["none", "none"]), WRONG]
    for policy in policies:
        with pytest.raises(gg.ArgumentTypeError, match=r"^policy is .*one of 'algebraic'"):
            _submission.check_policy(policy, None)
    with pytest.raises(gg.InvalidArgumentError, match="policy is 'default'"):
        _submission.check_policy("default", None)
    wrong: list[Any] = ["2", 2.0, True, WRONG]
    for replicas in wrong:
        with pytest.raises(gg.ArgumentTypeError, match=r"^replicas is "):
            _submission.check_policy("replicate", replicas)
    for weight in [*wrong, None]:
        with pytest.raises(gg.ArgumentTypeError, match=r"^weight is "):
            _submission.check_weight(weight)
    for name in ("float33", 3, ["f32"], None, True, "f9", object):
        with pytest.raises(gg.DTypeError, match=r"^out_dtype is .*f32"):
            _submission.dtype_number("out_dtype", name)


# ---- files ----


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "d.npy").mkdir()
    os.mkfifo(tmp_path / "f.npy")
    for name in ("d.npy", "f.npy"):
        with pytest.raises(gg.InvalidArgumentError, match=rf"'a': .*{name} is no regular file"):
            _arrays.operand("a", tmp_path / name)
    with pytest.raises(gg.InvalidArgumentError, match="no regular file"):
        _arrays.operand("a", gg.RawFile(tmp_path / "f.npy", 0, "f4"))  # opening it would wait
    for header in ("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "nonsense", "{}"):
        body = header.encode().ljust(117) + b"\n"
        data = b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body + bytes(64)
        (tmp_path / "h.npy").write_bytes(data)
        with pytest.raises(gg.InvalidArgumentError, match=r"'a': .*h\.npy: not a \.npy file"):
            _arrays.operand("a", tmp_path / "h.npy")
    np.save(tmp_path / "o.npy", np.array([None]), allow_pickle=True)
    with pytest.raises(gg.DTypeError, match="'a' has dtype object"):
        _arrays.operand("a", tmp_path / "o.npy")
    with pytest.raises(gg.InvalidArgumentError, match="text is taken for the path of a file"):
        _arrays.operand("out_dtype", "f32")
    if os.geteuid() != 0:
        np.save(tmp_path / "secret.npy", np.zeros(2))
        (tmp_path / "secret.npy").chmod(0)
        with pytest.raises(gg.InvalidArgumentError, match=r"secret\.npy cannot be opened: Perm"):
            _arrays.operand("a", tmp_path / "secret.npy")
