# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""What a newcomer gets wrong first: the message names the remedy, ready to be typed."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import gpugoblin as gg
from gpugoblin import _arrays, _places, _submission

pytestmark = pytest.mark.timeout(60)

A = np.arange(12, dtype=np.float32).reshape(3, 4)
HALF = A.astype(np.float16)


@pytest.fixture(scope="module")
def lab() -> Iterator[gg.LocalLab]:
    with gg.local(hosts=1, memory="64MiB") as lab:
        yield lab


# ---- dtypes ----

NUMPY = [np.dtype(code) for code in "?bhilBHILefdFD"]


def test_mixed_dtypes_name_numpys_common_one(lab: gg.LocalLab) -> None:
    for left, right in itertools.permutations(NUMPY, 2):
        a, b = np.zeros((2, 2), left), np.zeros((2, 2), right)
        with pytest.raises(gg.InvalidArgumentError, match="does not mix dtypes") as caught:
            lab.submit("matmul", a=a, b=b)
        common = np.result_type(left, right)
        wide = "bool_" if common == np.bool_ else common.name
        said = str(caught.value)
        for name, own in (("a", left), ("b", right)):
            assert (f"{name}.astype(np.{wide})" in said) == (own != common), said
    with pytest.raises(
        gg.InvalidArgumentError, match=r"b with b\.astype\(np\.float64\), or a with"
    ):
        lab.submit("matmul", a=A.astype(np.float64), b=A.T.astype(np.float32))
    with pytest.raises(
        gg.InvalidArgumentError, match=r"both, a with a\.astype\(np\.float32\) and b"
    ):
        lab.submit("matmul", a=HALF, b=HALF.T.astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize("dtype", ["f32", "float32", "f4", np.float32, np.dtype(np.float32)])
def test_out_dtype_in_the_words_of_numpy_and_of_the_network(
    lab: gg.LocalLab, dtype: npt.DTypeLike
) -> None:
    want = HALF.astype(np.float32) @ HALF.T.astype(np.float32)
    for got in (
        lab.matmul(HALF, HALF.T, out_dtype=dtype, progress=False),
        lab.submit("matmul", a=HALF, b=HALF.T, out_dtype=dtype).result(30),
        lab.submit("matmul", args={"a": HALF, "b": HALF.T, "out_dtype": dtype}).result(30),
    ):
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, want)


def test_i8_is_eight_bits_for_out_dtype_and_none_is_the_default(lab: gg.LocalLab) -> None:
    bytes_ = np.ones((2, 2), np.int8)
    for asked, dtype in (("i8", np.int8), ("int8", np.int8), (None, np.int32), ("i32", np.int32)):
        assert lab.submit("matmul", a=bytes_, b=bytes_, out_dtype=asked).result(30).dtype == dtype
        assert lab.matmul(bytes_, bytes_, out_dtype=asked, progress=False).dtype == dtype
    with pytest.raises(gg.DTypeError, match=r"^out_dtype is 'f33'; it is one of .*f32.*NumPy"):
        lab.submit("matmul", a=A, b=A.T, out_dtype="f33")


@pytest.mark.parametrize(
    ("dtype", "says"),
    [
        (
            ">f4",
            r"dtype '>f4', which is of the other byte order: pass np\.memmap\(path, '>f4', 'r'",
        ),
        (np.dtype(np.int64).newbyteorder(), r"'>i8', which is of the other byte order"),
        ("f32", r"'f32' is not what NumPy calls this dtype: write 'float32'"),
        ("f16", r"'f16' is not what NumPy calls this dtype: write 'float16'"),  # NumPy's float128
        ("u64", r"write 'uint64'"),
        ("zz", r"'zz' is no dtype: write it as NumPy does"),
        (object, r"dtype object, which the network does not compute with"),
    ],
)
def test_raw_files_have_numpys_dtypes(dtype: npt.DTypeLike, says: str) -> None:
    with pytest.raises(gg.DTypeError, match=rf"^RawFile.*{says}"):
        gg.RawFile("a.bin", 4, dtype)


def test_what_raw_files_look_like(lab: gg.LocalLab, tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    A.astype(">f4").tofile(path)
    foreign = np.memmap(path, ">f4", "r", 0, A.shape)  # what the message says to pass
    np.testing.assert_array_equal(lab.matmul(foreign, A.T, progress=False), A @ A.T)
    for dtype, name in (("i8", "int64"), (np.int8, "int8"), ("f2", "float16"), ("bf16", "bf16")):
        file = gg.RawFile(path, (2, 3), dtype, 8)
        assert repr(file) == f"RawFile({str(path)!r}, (2, 3), {name!r}, offset=8)"
        assert eval(repr(file), {"RawFile": gg.RawFile}) == file


@pytest.mark.parametrize(
    ("value", "takes", "says"),
    [
        (
            A,
            ("i32", "f64"),
            r"^argument 'a' has dtype f32; it takes i32, f64: .*a\.astype\(np\.float64\)",
        ),
        (
            A,
            ("f16", "bf16"),
            r"convert it with a\.astype\(np\.float16\)",
        ),  # nothing holds it: first
        (A, ("bf16",), r"it takes bf16: convert it first"),
        (
            A.astype(ml_dtypes.bfloat16),
            ("u8", "f32"),
            r"has dtype bf16; .*a\.astype\(np\.float32\)",
        ),
        (A, ("f32", "f64"), None),
        (3, ("f64",), None),
    ],
)
def test_the_conversion_to_what_a_kind_takes(
    value: Any, takes: tuple[str, ...], says: str | None
) -> None:
    array = gg.ArrayInfo("a", "", takes, 1, 2, False)
    other = gg.ArrayInfo("b", "", ("f64",), 1, 2, True)
    kind = gg.KindInfo("k", 1, "", (other, array), (), (), "algebraic", "")
    said = _submission.wrong_dtype({"a": value}, kind)
    assert said == "" if says is None else re.search(says, said), said


def test_bytes_are_neither_paths_nor_numbers() -> None:
    with pytest.raises(gg.DTypeError, match=r"is bytes: .*os\.fsdecode.*np\.frombuffer"):
        _arrays.operand("a", b"a.npy")


# ---- names ----


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"polcy": "replicate"}, r"no argument 'polcy'.*arrays are: a, b.*out.*mean 'policy'\?"),
        ({"replica": 2}, r"did you mean 'replicas'\?"),
        ({"out_type": "f32"}, r"did you mean 'out_dtype'\?"),
        ({"mode": "fast"}, r"no argument 'mode'.*every kind takes policy, replicas, weight, out$"),
        ({"timeout": 5}, r"submit\(\) takes no 'timeout'.*job\.result\(\)"),
        ({"progress": True}, r"submit\(\) takes no 'progress'.*job\.result\(\)"),
        ({"policy": "replicat"}, r"^policy is 'replicat'; .*did you mean 'replicate'\?"),
        ({"replicas": 3}, r"^replicas is 3, which only policy='replicate' uses: pass that"),
        ({"x": [object()]}, r"'x' is list, which is no array"),  # the value, not the name, is named
    ],
)
def test_misspelt_names(lab: gg.LocalLab, more: dict[str, Any], says: str) -> None:
    with pytest.raises(gg.InvalidArgumentError, match=says):
        lab.submit("matmul", a=A, b=A.T, **more)


def test_names_in_the_wrong_case_and_of_an_older_kind(lab: gg.LocalLab) -> None:
    with pytest.raises(gg.InvalidArgumentError, match=r"no argument 'A'.*did you mean 'a'\?"):
        lab.submit("matmul/1", A=A, b=A.T)
    with pytest.raises(gg.NotFoundError, match=r"no kind 'matmul/9'.*did you mean matmul/1\?"):
        lab.submit("matmul/9", A=A)


# ---- paths ----


def test_the_home_directory(
    lab: gg.LocalLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    np.save(tmp_path / "a.npy", A)
    made: list[str | Path] = ["~/c.npy", Path("~/d.npy")]
    for out in made:
        lab.matmul("~/a.npy", A.T, out=out, progress=False)
        np.testing.assert_array_equal(np.load(Path(out).expanduser()), A @ A.T)
    assert gg.RawFile("~/r.bin", 3, "f4").path == tmp_path / "r.bin"
    assert _places.parse("~/lab.sock").socket == str(tmp_path / "lab.sock")
    with pytest.raises(gg.NotFoundError, match=r"no file .*/~nobody-at-all/a\.npy"):
        _arrays.operand("a", "~nobody-at-all/a.npy")
    monkeypatch.chdir(tmp_path)
    np.save(tmp_path / "b~.npy", A)
    assert _arrays.operand("a", "b~.npy").shape == A.shape


def test_files_of_other_kinds(tmp_path: Path) -> None:
    np.savez(tmp_path / "z.npz", a=A)
    for name, says in (
        ("z.npz", r"z\.npz is an archive.*np\.load\(path\)\['name'\]"),
        (".", r"is no regular file but a directory: name a file in it"),
    ):
        with pytest.raises(gg.InvalidArgumentError, match=says):
            _arrays.operand("a", os.fspath(tmp_path / name))


def test_an_address_that_lacks_port_and_pin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(gg.UnavailableError, match=r"of another machine: host:port#pin"):
        gg.connect("localhost", timeout=0)


# ---- out ----


@pytest.mark.parametrize(
    "out",
    [
        lambda: np.empty((3, 4), np.float32),
        lambda: np.empty((3, 3)),
        lambda: np.broadcast_to(np.float32(0), (3, 3)),
    ],
)
def test_out_that_does_not_fit_says_what_does(
    lab: gg.LocalLab, out: Callable[[], npt.NDArray[Any]]
) -> None:
    with pytest.raises(gg.InvalidArgumentError, match=r"^out .*np\.empty\(\(3, 3\), np\.float32\)"):
        lab.matmul(A, A.T, out=out(), progress=False)
