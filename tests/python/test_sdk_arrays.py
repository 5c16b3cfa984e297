# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""The package without a network: arrays as arguments, files, outputs."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import gpugoblin as gg
from gpugoblin import _arrays, _dtypes


def sent(tmp_path: Path, op: _arrays.Operand) -> npt.NDArray[Any]:
    """What the lab node would see of an operand in memory."""
    path = tmp_path / "staged"
    path.write_bytes(b"\0" * op.copied_bytes)
    fd = os.open(path, os.O_RDWR)
    try:
        op.write_to(fd)
    finally:
        os.close(fd)
    assert path.stat().st_size == op.copied_bytes
    data = path.read_bytes()
    dtype = _dtypes.storage_dtype(op.dtype)
    return np.ndarray(op.shape, dtype, data, 0, op.strides)


BASE = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)


@pytest.mark.parametrize(
    ("array", "copied"),
    [
        (BASE, 480),
        (BASE.T, 480),
        (BASE.transpose(2, 0, 3, 1), 480),
        (np.asfortranarray(BASE), 480),
        (BASE[:, ::-1, ::2, 1:], 192),
        (BASE[::-1, ::-1, ::-1, ::-1], 480),
        (np.broadcast_to(BASE[0, 0], (7, 4, 5)), 80),
        (np.broadcast_to(BASE[:1, :, :1, :], (2, 3, 4, 5)), 60),
        (np.broadcast_to(np.float32(3), (6, 6)), 4),
        (BASE[:, :0], 0),
        (BASE[0, 0, 0, 0], 4),
        (BASE[:, 1:2], 160),
    ],
)
def test_memory_is_sent_once_and_looks_the_same(
    tmp_path: Path, array: npt.NDArray[Any], copied: int
) -> None:
    op = _arrays.operand("a", np.asarray(array))
    assert op.copied_bytes == copied
    np.testing.assert_array_equal(sent(tmp_path, op), array)
    np.testing.assert_array_equal(op.contiguous(), array)
    assert all(stride % 4 == 0 and stride >= 0 for stride in op.strides)


def test_random_views_look_the_same(tmp_path: Path) -> None:
    seed = int(np.random.default_rng().integers(2**32))
    print("seed", seed)
    rng = np.random.default_rng(seed)
    for _ in range(100):
        rank = int(rng.integers(1, 5))
        base = rng.integers(0, 1000, rng.integers(1, 7, rank))
        cut = tuple(
            slice(None, None, int(rng.choice([-2, -1, 1, 2, 3])))
            if rng.random() < 0.7
            else slice(2)
            for _ in range(rank)
        )
        view = base[cut].transpose(rng.permutation(rank))
        if rng.random() < 0.3:
            view = np.broadcast_to(view[..., :1], view.shape)
        op = _arrays.operand("a", view)
        np.testing.assert_array_equal(sent(tmp_path, op), view)
        np.testing.assert_array_equal(op.contiguous(), view)


@pytest.mark.parametrize("name", [n for n in _dtypes.NUMBERS if n != "bf16"])
def test_every_dtype_has_its_number(tmp_path: Path, name: str) -> None:
    number = _dtypes.NUMBERS[name]
    dtype = _dtypes.numpy_dtype(number)
    array = np.ones((3, 2), dtype)
    op = _arrays.operand("a", array)
    assert op.dtype == number
    assert op.copied_bytes == 6 * _dtypes.itemsize(number)
    np.testing.assert_array_equal(sent(tmp_path, op), array)
    foreign = np.arange(6).astype(dtype).reshape(2, 3).astype(dtype.newbyteorder(">"))
    np.testing.assert_array_equal(sent(tmp_path, _arrays.operand("a", foreign)), foreign)


def test_bfloat16_by_ml_dtypes(tmp_path: Path) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.arange(6).astype(ml_dtypes.bfloat16).reshape(2, 3)
    op = _arrays.operand("a", array.T)
    assert op.dtype == _dtypes.BFLOAT16
    np.testing.assert_array_equal(sent(tmp_path, op), array.T)
    assert _dtypes.numpy_dtype(_dtypes.BFLOAT16) == array.dtype


def test_bfloat16_without_ml_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_dtypes, "bfloat16", lambda: None)
    with pytest.raises(gg.UnsupportedError, match="pip install ml_dtypes"):
        _dtypes.numpy_dtype(_dtypes.BFLOAT16)
    assert _dtypes.storage_dtype(_dtypes.BFLOAT16) == np.uint16


def test_bfloat16_of_torch() -> None:
    torch = pytest.importorskip("torch")
    op = _arrays.operand("a", torch.arange(6).to(torch.bfloat16).reshape(2, 3).T)
    assert (op.dtype, op.shape) == (_dtypes.BFLOAT16, (3, 2))
    with pytest.raises(gg.DTypeError, match=r"tensor\.detach\(\)"):
        _arrays.operand("a", torch.ones(2, requires_grad=True))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.array([1, "x", None], dtype=object), r"'a'.*Python objects.*astype"),
        (np.array(["x"]), r"'a'.*text has to become numbers"),
        (np.array([b"x"]), r"'a'.*bytes have to become numbers"),
        (np.array(["2020-01-01"], "datetime64[D]"), r"'a'.*datetime64.*astype"),
        (np.array([1], "timedelta64[s]"), r"'a'.*timedelta64"),
        (np.ones(2, np.longdouble), r"'a'.*longdouble|float128.*float64"),
        (np.zeros(2, [("x", "f4")]), r"'a'.*fields"),
        ([[1, 2], [3]], r"'a' is no array of numbers"),
        (object(), r"'a' is object"),
        (None, r"'a' is NoneType"),
        ({"x": 1}, r"'a' is dict"),
        (np.ma.masked_array([1, 2], [False, True]), r"'a' is masked"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused(value: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message) as caught:
        _arrays.operand("a", value)
    assert isinstance(caught.value, gg.DTypeError)


def test_array_protocol_and_lists(tmp_path: Path) -> None:
    class Wrapper:
        def __array__(self, dtype: Any = None, copy: Any = None) -> npt.NDArray[Any]:
            return np.eye(2)

    np.testing.assert_array_equal(sent(tmp_path, _arrays.operand("a", Wrapper())), np.eye(2))
    np.testing.assert_array_equal(sent(tmp_path, _arrays.operand("a", [[1, 2]])), [[1, 2]])


def test_numbers() -> None:
    assert _arrays.parameter("n", np.int32(3)) == 3
    assert _arrays.parameter("n", True) == 1
    assert isinstance(_arrays.parameter("n", np.float32(0.5)), float)
    assert _arrays.is_number(1)
    assert not _arrays.is_number(np.zeros(()))
    with pytest.raises(gg.InvalidArgumentError, match=r"'n' is .* 64-bit"):
        _arrays.parameter("n", 2**63)


# ---- files ----


@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_is_viewed_in_place(tmp_path: Path, order: Any) -> None:
    array = np.asarray(np.arange(12.0).reshape(3, 4), order=order)
    np.save(tmp_path / "x.npy", array)
    for path in (tmp_path / "x.npy", str(tmp_path / "x.npy")):
        op = _arrays.operand("a", path)
        assert op.file is not None
        assert op.copied_bytes == 0
        np.testing.assert_array_equal(op.file.array(), array)
        assert op.file.extent() == (op.file.offset, op.file.offset + 96)


def test_npy_of_foreign_byte_order_is_copied(tmp_path: Path) -> None:
    array = np.arange(4.0).astype(">f8")
    np.save(tmp_path / "x.npy", array)
    op = _arrays.operand("a", tmp_path / "x.npy")
    assert op.file is None
    np.testing.assert_array_equal(sent(tmp_path, op), array)


def test_files_that_are_not_what_they_should_be(tmp_path: Path) -> None:
    with pytest.raises(gg.NotFoundError, match=r"'a': there is no file .*none\.npy"):
        _arrays.operand("a", tmp_path / "none.npy")
    (tmp_path / "x.bin").write_bytes(b"12345678")
    with pytest.raises(gg.InvalidArgumentError, match=r"RawFile"):
        _arrays.operand("a", tmp_path / "x.bin")
    (tmp_path / "bad.npy").write_bytes(b"12345678")
    with pytest.raises(gg.InvalidArgumentError, match=r"'a': .*bad\.npy: not a \.npy file"):
        _arrays.operand("a", tmp_path / "bad.npy")
    np.save(tmp_path / "cut.npy", np.zeros(100))
    os.truncate(tmp_path / "cut.npy", 200)
    with pytest.raises(gg.InvalidArgumentError, match="cut short"):
        _arrays.operand("a", tmp_path / "cut.npy")
    with pytest.raises(gg.InvalidArgumentError, match=r"8 bytes, but shape \(3,\) of f32"):
        _arrays.operand("a", gg.RawFile(tmp_path / "x.bin", 3, "float32"))


def test_raw_file(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.int16)
    (tmp_path / "x").write_bytes(b"head" + array.tobytes())
    raw = gg.RawFile(tmp_path / "x", (2, 3), np.int16, offset=4)
    np.testing.assert_array_equal(raw.map(), array.reshape(2, 3))
    op = _arrays.operand("a", raw)
    assert op.file is not None
    np.testing.assert_array_equal(op.file.array(), array.reshape(2, 3))
    assert gg.RawFile("x", 2, "bf16").dtype == _dtypes.BFLOAT16
    with pytest.raises(gg.InvalidArgumentError, match="offset 3 is no multiple"):
        gg.RawFile("x", 2, "int16", offset=3)
    with pytest.raises(gg.InvalidArgumentError, match="negative"):
        gg.RawFile("x", (2, -1), "int16")
    with pytest.raises(TypeError, match="no dtype"):
        gg.RawFile("x", 2, "nonsense")


def memmap(tmp_path: Path, mode: Any = "r", offset: int = 0) -> np.memmap[Any, Any]:
    path = tmp_path / f"m{offset}"
    if not path.exists():
        path.write_bytes(b"\1" * offset + np.arange(60, dtype=np.int32).tobytes())
    return np.memmap(path, np.int32, mode, offset, (3, 4, 5))


@pytest.mark.parametrize("offset", [0, 4, 8192])
def test_views_of_memory_maps_are_files(tmp_path: Path, offset: int) -> None:
    whole = memmap(tmp_path, offset=offset)
    views: list[Any] = [
        whole,
        whole.T,
        whole[1:, ::2],
        whole[::-1, :, ::-1],
        np.asarray(whole)[2],
        whole[1, 2, 3:4],
        np.broadcast_to(whole[0], (2, 4, 5)),
    ]
    for view in views:
        op = _arrays.operand("a", view)
        assert op.file is not None, view.shape
        assert op.copied_bytes == 0
        np.testing.assert_array_equal(op.file.array(), view)


def test_maps_that_are_no_files_are_copied(tmp_path: Path) -> None:
    private = memmap(tmp_path, "c")
    private[0, 0, 0] = 77
    assert _arrays.operand("a", private).file is None
    assert sent(tmp_path, _arrays.operand("a", private))[0, 0, 0] == 77
    whole = memmap(tmp_path)
    assert _arrays.operand("a", whole + 1).file is None  # an np.memmap by type only
    assert _arrays.operand("a", whole.view(">i4")).file is None
    bytes_view = np.memmap(tmp_path / "m0", np.uint8, "r")
    odd = np.ndarray((3,), np.int32, bytes_view, offset=2)
    assert _arrays.operand("a", odd).file is None
    replaced = memmap(tmp_path, offset=8)
    (tmp_path / "new").write_bytes(bytes(300))
    (tmp_path / "new").replace(tmp_path / "m8")
    op = _arrays.operand("a", replaced)
    assert op.file is None
    assert sent(tmp_path, op)[0, 0, 1] == 1


# ---- torch ----


class FakeTensor:
    """As much of torch.Tensor as the package looks at, over a NumPy array."""

    __module__ = "torch"

    def __init__(
        self, array: npt.NDArray[Any], dtype: str = "torch.float32", device: str = "cpu"
    ) -> None:
        self.array, self.dtype = array, dtype
        self.device = types.SimpleNamespace(type=device)
        self.requires_grad = self.is_sparse = False

    def resolve_conj(self) -> FakeTensor:
        return self

    resolve_neg = resolve_conj

    def view(self, dtype: Any) -> FakeTensor:
        return FakeTensor(self.array.view(dtype), "torch.int16")

    def numpy(self) -> npt.NDArray[Any]:
        if self.dtype == "torch.bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.array


def test_what_torch_hands_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("torch")
    monkeypatch.setattr(module, "int16", np.int16, raising=False)
    monkeypatch.setitem(sys.modules, "torch", module)
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    op = _arrays.operand("a", FakeTensor(array.T))
    np.testing.assert_array_equal(sent(tmp_path, op), array.T)
    bits = np.arange(6, dtype=np.uint16).reshape(2, 3)
    op = _arrays.operand("a", FakeTensor(bits, "torch.bfloat16"))
    assert op.dtype == _dtypes.BFLOAT16
    np.testing.assert_array_equal(sent(tmp_path, op).view(np.uint16), bits)
    tensor = FakeTensor(array)
    tensor.requires_grad = True
    with pytest.raises(gg.DTypeError, match=r"'a' requires a gradient.*tensor\.detach\(\)"):
        _arrays.operand("a", tensor)
    with pytest.raises(gg.DTypeError, match=r"'a' lies on .*tensor\.cpu\(\)"):
        _arrays.operand("a", FakeTensor(array, device="cuda"))
    sparse = FakeTensor(array)
    sparse.is_sparse = True
    with pytest.raises(gg.DTypeError, match=r"to_dense\(\)"):
        _arrays.operand("a", sparse)
