# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""The package without a network: where results go."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from test_sdk_arrays import memmap

import gpugoblin as gg
from gpugoblin import _arrays, _dtypes, _outputs, _overlap
from gpugoblin._submission import plan_outputs

Array = npt.NDArray[Any]

EXPECTED = _outputs.Expected("c", _dtypes.NUMBERS["i32"], (3, 4, 5))


def test_out_in_memory() -> None:
    out = np.empty((3, 4, 5), np.int32)
    target = _outputs.target(EXPECTED, out, [])
    assert target.file is None
    assert target.deliver(np.ones((3, 4, 5), np.int32)) is out
    assert out.sum() == 60
    strided = np.empty((3, 4, 10), np.int32)[:, :, ::2]
    assert _outputs.target(EXPECTED, strided, []).into is strided


def test_out_is_checked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"out has shape \(2,\) of i32.*shape \(3, 4, 5\) of i32"):
        _outputs.target(EXPECTED, np.empty(2, np.int32), [])
    with pytest.raises(ValueError, match=r"of f64"):
        _outputs.target(EXPECTED, np.empty((3, 4, 5)), [])
    with pytest.raises(ValueError, match="read-only"):
        _outputs.target(EXPECTED, memmap(tmp_path), [])
    with pytest.raises(TypeError, match="out is list"):
        _outputs.target(EXPECTED, [1], [])
    with pytest.raises(ValueError, match=r"does not end in \.npy"):
        _outputs.target(EXPECTED, tmp_path / "x", [])
    with pytest.raises(ValueError, match=r"out has shape"):
        _outputs.target(EXPECTED, gg.RawFile(tmp_path / "x", (60,), "int32"), [])


def test_out_in_a_map(tmp_path: Path) -> None:
    out = memmap(tmp_path, "r+", 8)
    target = _outputs.target(EXPECTED, out, [])
    assert target.file is not None
    assert (target.file.path, target.file.offset) == (tmp_path / "m8", 8)
    assert target.mapped() is out
    expected = _outputs.Expected("c", EXPECTED.dtype, (3, 5, 4))
    assert _outputs.target(expected, out.transpose(0, 2, 1), []).file is None


def test_out_as_npy(tmp_path: Path) -> None:
    path = tmp_path / "c.npy"
    path.write_bytes(b"older")
    target = _outputs.target(EXPECTED, str(path), [])
    with path.open("rb") as older:
        target.make()
        assert path.read_bytes() == b"older"  # until the job is accepted
        assert target.path != path
        target.settle()
        assert target.path == path
        assert older.read() == b"older"
    assert target.file is not None
    made = np.load(path)
    assert (made.shape, made.dtype) == ((3, 4, 5), np.int32)
    target.mapped()[:] = 5
    assert (np.load(path) == 5).all()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.npy"]


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_out_as_npy_gets_the_rights_of_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mask: int
) -> None:
    """The umask itself, which other threads need, is not touched for it."""
    target = _outputs.target(EXPECTED, tmp_path / ("ü" * 120 + ".npy"), [])
    before = os.umask(mask)
    try:
        with monkeypatch.context() as patch:
            patch.delattr(os, "umask")
            target.make()
            target.settle()
    finally:
        os.umask(before)
    assert target.path.stat().st_mode & 0o777 == 0o666 & ~mask


def test_out_may_not_overlap_an_input(tmp_path: Path) -> None:
    array = memmap(tmp_path, "r+")
    inputs = [_arrays.operand("b", array)]
    with pytest.raises(ValueError, match="out overlaps argument 'b'"):
        _outputs.target(EXPECTED, array, inputs)
    np.save(tmp_path / "x.npy", np.zeros((3, 4, 5), np.int32))
    with pytest.raises(ValueError, match="is an input of the same job"):
        _outputs.target(EXPECTED, tmp_path / "x.npy", [_arrays.operand("a", tmp_path / "x.npy")])
    assert np.load(tmp_path / "x.npy").shape == (3, 4, 5)
    apart = gg.RawFile(tmp_path / "m0", (3, 4, 5), "int32", offset=240)
    assert _outputs.target(EXPECTED, apart, inputs).file is not None


def test_out_for_several_outputs() -> None:
    infos = [{"name": n, "dtype": "f32", "shape": [2]} for n in ("x", "y")]
    out = np.empty(2, np.float32)
    targets = plan_outputs(infos, {"y": out}, [])
    assert targets["x"].into is None
    assert targets["y"].into is out
    with pytest.raises(ValueError, match="the outputs are: x, y"):
        plan_outputs(infos, {"z": out}, [])
    with pytest.raises(ValueError, match="mapping from x, y"):
        plan_outputs(infos, out, [])


def test_a_refused_submission_leaves_files_alone(tmp_path: Path) -> None:
    path = tmp_path / "c.npy"
    path.write_bytes(b"older")
    target = _outputs.target(EXPECTED, path, [])
    target.make()
    target.undo()
    assert path.read_bytes() == b"older"
    raw = gg.RawFile(tmp_path / "new", (3, 4, 5), "int32")
    target = _outputs.target(EXPECTED, raw, [])
    assert not raw.path.exists()
    target.make()
    assert raw.path.exists()
    target.undo()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.npy"]
    raw.path.write_bytes(b"mine")
    target = _outputs.target(EXPECTED, raw, [])
    target.make()
    target.undo()
    assert raw.path.read_bytes() == b"mine"


def test_places_that_no_file_can_have(tmp_path: Path) -> None:
    (tmp_path / "d.npy").mkdir()
    os.mkfifo(tmp_path / "f.npy")
    for name in ("d.npy", "f.npy"):
        with pytest.raises(gg.InvalidArgumentError, match=rf"out: .*{name} is not a regular file"):
            _outputs.target(EXPECTED, tmp_path / name, [])
    for out in (tmp_path / "no/c.npy", gg.RawFile(tmp_path / "no/c", (3, 4, 5), "int32")):
        with pytest.raises(gg.NotFoundError, match=r"out: there is no folder .*/no: make it"):
            _outputs.target(EXPECTED, out, [])
    with pytest.raises(gg.InvalidArgumentError, match=r"out: .* cannot be written: .*name another"):
        _outputs.target(EXPECTED, "/dev/null/x/c.npy", [])
    if os.geteuid() != 0:
        tmp_path.chmod(0o500)
        with pytest.raises(gg.InvalidArgumentError, match="Permission denied"):
            _outputs.target(EXPECTED, tmp_path / "c.npy", []).make()


@pytest.mark.parametrize(
    ("out", "says"),
    [
        (3, "out is int; pass a NumPy array"),
        (b"c.npy", "out is bytes"),
        ([1.0], "out is list"),
        (np.float32(1), "out is float32"),
        (np.ma.zeros((3, 4, 5), np.int32), "out is a masked array.*out.data"),
        (np.zeros((3, 4, 5), object), "out has dtype object"),
        (np.zeros((3, 4, 5), "U3"), "out has dtype <U3"),
        (np.zeros((3, 4, 5), np.longdouble), r"out has dtype (longdouble|float128).*float64"),
        (np.zeros((3, 4, 5), [("x", "i4")]), "out has dtype .*fields"),
    ],
)
def test_what_is_no_place(out: Any, says: str) -> None:
    with pytest.raises(gg.DTypeError, match=says):
        _outputs.target(EXPECTED, out, [])


def test_read_only_places(tmp_path: Path) -> None:
    array = np.zeros((3, 4, 5), np.int32)
    array.flags.writeable = False
    with pytest.raises(gg.InvalidArgumentError, match=r"out is read-only: pass one .*np\.empty"):
        _outputs.target(EXPECTED, array, [])
    with pytest.raises(
        gg.InvalidArgumentError, match=r"out is read-only: open the memory map.*r\+"
    ):
        _outputs.target(EXPECTED, memmap(tmp_path, "r"), [])


def test_either_byte_order(tmp_path: Path) -> None:
    out = np.zeros((3, 4, 5), ">i4")
    assert _outputs.target(EXPECTED, out, []).deliver(np.ones((3, 4, 5), "i4")) is out
    assert (out == 1).all()
    mapped = np.memmap(tmp_path / "m", ">i4", "w+", 0, (3, 4, 5))
    assert _outputs.target(EXPECTED, mapped, []).into is mapped  # the lab node writes native bytes


# ---- overlaps ----

BASE = np.zeros(1000)
WINDOW = np.lib.stride_tricks.as_strided


@pytest.mark.parametrize(
    ("array", "itself"),
    [
        (BASE, False),
        (BASE.reshape(10, 100).T[::2, ::-3], False),
        (BASE[:0], False),
        (BASE[:1].reshape(1, 1, 1), False),
        (WINDOW(BASE, (1, 5), (0, 8)), False),  # one element has no distance
        (WINDOW(BASE, (2, 3), (24, 16)), False),  # offsets 0 16 32, 24 40 56
        (WINDOW(BASE, (2, 5), (24, 16)), False),
        (WINDOW(BASE, (2, 5), (32, 16)), True),
        (WINDOW(BASE, (4, 4), (0, 8)), True),
        (WINDOW(BASE, (4, 4), (8, 8)), True),
        (WINDOW(BASE, (10, 3), (16, 8)), True),
        (WINDOW(BASE, (5,), (4,)), True),  # half an element on
        (WINDOW(BASE, (5, 0), (0, 8)), False),
    ],
)
def test_places_that_overlap_themselves(array: Array, itself: bool) -> None:
    assert _overlap.repeats(array) == itself
    if itself:
        expected = _outputs.Expected("c", _dtypes.NUMBERS["f64"], array.shape)
        with pytest.raises(gg.InvalidArgumentError, match="out overlaps itself: with strides"):
            _outputs.target(expected, array, [])


def test_random_layouts_overlap_as_counted() -> None:
    seed = int(np.random.default_rng().integers(2**32))
    print("seed", seed)
    rng = np.random.default_rng(seed)
    answers = set()
    for _ in range(300):
        rank = int(rng.integers(1, 4))
        shape = tuple(int(n) for n in rng.integers(1, 5, rank))
        array = WINDOW(BASE, shape, tuple(8 * int(s) for s in rng.integers(0, 12, rank)))
        places = np.zeros(1000, int)
        np.add.at(places, WINDOW(np.arange(1000), shape, array.strides), 1)
        assert _overlap.repeats(array) == bool((places > 1).any()), (shape, array.strides)
        answers.add(bool((places > 1).any()))
    assert answers == {True, False}


def test_out_may_not_overlap_an_input_in_memory() -> None:
    base = np.zeros((6, 4, 5), np.int32)
    inputs = [_arrays.operand("a", base[1:4].T)]
    for out in (base[1:4], base[3:6], base[:3][::-1]):
        with pytest.raises(gg.InvalidArgumentError, match="out overlaps argument 'a' in memory"):
            _outputs.target(EXPECTED, out, inputs)
    wide = np.zeros((3, 4, 10), np.int32)
    inputs = [_arrays.operand("a", wide[:, :, ::2])]
    assert _outputs.target(EXPECTED, wide[:, :, 1::2], inputs).into is not None  # interleaved


def test_out_in_a_map_that_is_copied_to_may_not_overlap_an_input(tmp_path: Path) -> None:
    mapped = memmap(tmp_path, "r+")
    inputs = [_arrays.operand("b", memmap(tmp_path))]
    assert inputs[0].file is not None
    expected = _outputs.Expected("c", EXPECTED.dtype, (5, 4, 3))
    with pytest.raises(gg.InvalidArgumentError, match=r"out overlaps argument 'b' in .*m0"):
        _outputs.target(expected, mapped.T, inputs)


def place(array: Array) -> _overlap.Place:
    found = _outputs.target(EXPECTED, array, []).place()
    assert found is not None
    return found


def test_one_place_is_claimed_once() -> None:
    base = np.zeros((6, 4, 5), np.int32)
    first = _overlap.claim([place(base[:3])])
    with pytest.raises(gg.InvalidArgumentError, match="another job that is being submitted writes"):
        _overlap.claim([place(base[2:5])])
    first.job = 7
    says = "output 'c': job 7 writes its output 'c' to the same memory; wait"
    with pytest.raises(gg.InvalidArgumentError, match=says):
        _overlap.claim([place(base[2:5])])
    second = _overlap.claim([place(base[3:])])
    first.ended = lambda: True
    third = _overlap.claim([place(base[:3])])
    _overlap.release(third)
    fourth = _overlap.claim([place(base[:3])])
    with pytest.raises(gg.InvalidArgumentError, match="out: the places of 'c' and 'c' overlap"):
        _overlap.claim([place(np.zeros((3, 4, 5), np.int32)) for _ in (0,)] * 2)
    del second, fourth
    gc.collect()
    assert _overlap.claim([place(base[:3]), place(base[3:])]).places


def test_files_are_claimed_by_their_bytes(tmp_path: Path) -> None:
    (tmp_path / "m0").write_bytes(bytes(480))
    (tmp_path / "link").symlink_to(tmp_path / "m0")
    places = [
        gg.RawFile(tmp_path / name, (3, 4, 5), "int32", offset)
        for name, offset in (("m0", 0), ("link", 236), ("m0", 240))
    ]
    found = [_outputs.target(EXPECTED, out, []).place() for out in places]
    assert all(one is not None for one in found)
    low, across, high = (one for one in found if one is not None)
    assert low.meets(across)
    assert across.meets(high)
    assert not low.meets(high)
    npy = [_outputs.target(EXPECTED, tmp_path / "c.npy", []).place() for _ in range(2)]
    assert npy[0] is not None
    assert npy[1] is not None
    assert npy[0].meets(npy[1])  # though there is no such file yet
    first = _overlap.claim([npy[0]])
    first.job = 7
    says = rf"job 7 writes its output 'c' to {tmp_path / 'c.npy'}; wait"
    with pytest.raises(gg.InvalidArgumentError, match=says):
        _overlap.claim([npy[1]])
