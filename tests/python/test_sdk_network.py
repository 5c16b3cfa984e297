# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""The package with a network: what one call does wrong is that call's error and nobody else's."""

from __future__ import annotations

import copy
import gc
import math
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import e2e
import numpy as np
import numpy.typing as npt
import pytest

import gpugoblin as gg
from gpugoblin import _core, _submission

pytestmark = pytest.mark.timeout(60)

Array = npt.NDArray[Any]
A = np.arange(12, dtype=np.float32).reshape(3, 4)
PRODUCT = A @ A.T


@pytest.fixture(scope="module")
def lab() -> Iterator[gg.LocalLab]:
    with gg.local(hosts=1, memory="64MiB") as lab:
        yield lab


@pytest.fixture
def connection(lab: gg.LocalLab) -> Iterator[gg.LocalLab]:
    """The lab, whose connection must be the same afterwards."""
    before = lab._client.stage(1)
    os.close(before[1])
    yield lab
    after = lab._client.stage(1)
    os.close(after[1])
    assert after[2] == before[2], "the connection was ended and made anew"


def waiting(lab: gg.Lab, **more: Any) -> gg.Job:
    """A small job that does not end: its policy asks for a trusted host, and there is none."""
    job: gg.Job = lab.submit("matmul", a=A, b=A.T, policy="validator", **more)
    return job


# ---- bounds and types: the connection stays ----


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda lab: lab.submit("k" * 257), ValueError, "^kind is .*257 bytes.*256 at most"),
        (lambda lab: lab.submit("mat\0mul"), ValueError, "^kind is .*NUL"),
        (lambda lab: lab.submit("\ud800"), ValueError, "^kind is .*Unicode"),
        (lambda lab: lab.submit(""), ValueError, "^kind is empty"),
        (lambda lab: lab.submit(7), TypeError, "^kind is 7 "),
        (lambda lab: lab.submit("matmul", args=[A]), TypeError, "^args is "),
        (lambda lab: lab.submit("matmul", args={"x" * 300: A}), ValueError, "300 bytes"),
        (lambda lab: lab.submit("matmul", args={"x\0": A}), ValueError, "NUL"),
        (
            lambda lab: lab.submit("matmul", args={f"x{i}": i for i in range(2000)}),
            ValueError,
            "2000",
        ),
        (lambda lab: lab.submit("matmul", a=np.ones((1,) * 17), b=A), ValueError, "'a' has 17 dim"),
        (lambda lab: lab.matmul(np.ones((1,) * 64), A), ValueError, "'a' has 64 dim"),
        (lambda lab: lab.submit("matmul", a=A, b=A.T, n=2**63), ValueError, "'n' is 9223.*64-bit"),
        (lambda lab: lab.submit("matmul", a=A, b=A.T, n=10**5000), ValueError, "'n' is .*64-bit"),
        (lambda lab: lab.submit("matmul", a=A, b=A.T, out_dtype=math.nan), ValueError, "out_dtype"),
        (lambda lab: lab.submit("matmul", a=A, b=A.T, weight="1"), TypeError, "^weight is '1' "),
        (lambda lab: lab.submit("matmul", a=A, b=A.T, policy=3), TypeError, "^policy is 3 "),
        (lambda lab: lab.submit("matmul", a=A, b=A.T, out={"x": A}), ValueError, "out names 'x'"),
        (lambda lab: lab.submit("matmul", a=A, b=A.T, out={3: A}), ValueError, "out names 3"),
        (lambda lab: lab.submit("matmul", a=A, b=A.T, out=3), TypeError, "out is int"),
        (lambda lab: lab.matmul(A, A.T, timeout="3"), TypeError, "^timeout is '3' "),
        (lambda lab: lab.matmul(A, A.T, timeout=math.nan), ValueError, "^timeout is nan"),
        (lambda lab: lab.matmul(A, A.T, timeout=-1), ValueError, "^timeout is -1"),
        (lambda lab: lab.matmul(A, A.T, progress="yes"), TypeError, "^progress is 'yes' "),
        (lambda lab: lab.matmul(A, A.T, out_dtype="f33"), TypeError, "^out_dtype is "),
        (lambda lab: lab.matmul(A, A.T, replicas=2), ValueError, "only policy='replicate'"),
        (lambda lab: lab.job("x"), TypeError, "^number is 'x' "),
        (lambda lab: lab.job(1.0), TypeError, "^number is 1.0 "),
        (lambda lab: lab.job(True), TypeError, "^number is True "),
        (lambda lab: lab.job(-1), ValueError, "^number is -1"),
        (lambda lab: lab.job(0), ValueError, "^number is 0"),
        (lambda lab: lab.job(2**64), ValueError, "^number is 184"),
        (lambda lab: lab.job(2**63 - 1), LookupError, "no job 9223"),
    ],
)
def test_wrong_arguments_are_errors_of_their_call(
    connection: gg.LocalLab, call: Callable[[gg.Lab], Any], error: type[Exception], says: str
) -> None:
    jobs = len(connection.jobs())
    with pytest.raises(error, match=says) as caught:
        call(connection)
    assert isinstance(caught.value, gg.GoblinError)
    assert "incompatible" not in str(caught.value)
    assert "Unable to cast" not in str(caught.value)
    assert len(connection.jobs()) == jobs


def test_waiting_takes_seconds(connection: gg.LocalLab) -> None:
    job = connection.submit("matmul", a=A, b=A.T)
    waits: list[Callable[..., Any]] = [job.wait, job.result]
    for wait in waits:
        for wrong in ("3", True, [1]):
            with pytest.raises(gg.ArgumentTypeError, match=r"^timeout is "):
                wait(wrong)
        for beyond in (-1, math.nan):
            with pytest.raises(gg.InvalidArgumentError, match=r"^timeout is "):
                wait(beyond)
        with pytest.raises(gg.ArgumentTypeError, match=r"^progress is 'no' "):
            wait(progress="no")
    np.testing.assert_array_equal(job.result(math.inf), PRODUCT)
    np.testing.assert_array_equal(job.result(float(np.float32(0))), PRODUCT)


def test_what_a_submission_can_just_hold(connection: gg.LocalLab) -> None:
    """At the bounds the lab node answers; it does not end the connection."""
    with pytest.raises(gg.InvalidArgumentError, match=r"no array argument|no argument"):
        connection.submit("matmul", args={f"{i:0256}": [i] for i in range(60)})
    with pytest.raises(gg.InvalidArgumentError, match=r"no argument"):
        connection.submit("matmul", args={f"x{i}": i for i in range(1024)})
    with pytest.raises(gg.GoblinError, match=r"kind 'kkk"):
        connection.submit("k" * 256)
    deep = np.ones((1,) * 15 + (2,))
    with pytest.raises(gg.InvalidArgumentError, match=r"\(1, 1, .*2\)"):
        connection.matmul(deep, np.ones(3))


def test_more_files_than_a_submission_carries(connection: gg.LocalLab, tmp_path: Path) -> None:
    paths = [tmp_path / f"{i}.npy" for i in range(17)]
    for path in paths:
        np.save(path, A)
    with pytest.raises(gg.InvalidArgumentError, match=r"17 arguments .*'x0' to 'x16'.*16 at most"):
        connection.submit("matmul", args={f"x{i}": path for i, path in enumerate(paths)})
    with pytest.raises(gg.InvalidArgumentError, match=r"no array argument"):
        connection.submit("matmul", args={f"x{i}": path for i, path in enumerate(paths[:16])})


def test_names_that_are_no_utf8(connection: gg.LocalLab, tmp_path: Path) -> None:
    latin = tmp_path / os.fsdecode(b"gr\xfcn.npy")
    np.save(latin, A)
    np.testing.assert_array_equal(connection.matmul(latin, A.T), PRODUCT)
    np.testing.assert_array_equal(connection.matmul(A, A.T, out=latin), PRODUCT)
    np.testing.assert_array_equal(np.load(latin), PRODUCT)


def test_the_extension_sends_nothing_that_ends_the_connection(connection: gg.LocalLab) -> None:
    """Behind the package's checks: whatever it is given, the lab node could read."""
    good: dict[str, Any] = {
        "token": b"t" * 16,
        "kind": "matmul",
        "inputs": [],
        "params": {},
        "outputs": [],
        "policy": 0,
        "replicas": 0,
        "weight": 1,
        "dry_run": False,
    }
    array = {
        "name": "a",
        "dtype": 12,
        "shape": [1],
        "strides": [4],
        "storage": 1,
        "stage": 0,
        "fd_index": 0,
        "path": b"",
        "offset": 0,
        "digest": b"",
    }
    null = os.open(os.devnull, os.O_RDONLY)
    try:
        for bad, fds in (
            ({"kind": "k" * 257}, 0),
            ({"kind": "a\0b"}, 0),
            ({"policy": 9}, 0),
            ({"params": {"n" * 257: 1}}, 0),
            ({"params": {f"n{i}": i for i in range(1025)}}, 0),
            ({"inputs": [{**array, "shape": [1] * 17, "strides": [4] * 17}]}, 0),
            ({"inputs": [{**array, "strides": [4, 4]}]}, 0),
            ({"inputs": [{**array, "shape": [-1]}]}, 0),
            ({"inputs": [{**array, "dtype": 99}]}, 0),
            ({"inputs": [{**array, "storage": 9}]}, 0),
            ({"inputs": [array] * 1025}, 0),
            ({"inputs": [{**array, "path": b"x" * 4097}]}, 0),
            ({"inputs": [{**array, "path": b"x" * 4096}] * 1024}, 0),
            ({}, 17),
        ):
            with pytest.raises(gg.InvalidArgumentError, match=r"cannot be sent"):
                connection._client.submit({**good, **bad}, [null] * fds, 0)
        oddities: list[dict[str, Any]] = [{"weight": -1}, {"kind": 3}, {"inputs": [{}]}]
        for odd in [*oddities, {"params": {"n": 2**64}}]:
            with pytest.raises(Exception, match=r".+"):
                connection._client.submit({**good, **odd}, [], 0)
    finally:
        os.close(null)


def test_connections_stay_in_their_process(connection: gg.LocalLab) -> None:
    job = connection.submit("matmul", a=A, b=A.T)
    for value in (connection, job):
        with pytest.raises(TypeError, match=r"cannot be pickled: pass .*address.*connect\("):
            pickle.dumps(value)
    assert copy.copy(job).number == job.number


def test_numbers_and_arrays_in_each_others_place(connection: gg.LocalLab) -> None:
    with pytest.raises(ValueError, match=r"'a' is a number, but an array is expected"):
        connection.matmul(3, A)
    with pytest.raises(ValueError, match=r"'out_dtype' is an array, but a number is expected"):
        connection.submit("matmul", a=A, b=A.T, out_dtype=[1])


# ---- dtypes ----


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (np.array([[1, None]], dtype=object), "'a'.*Python objects.*astype"),
        (np.array([["x"]]), "'a' has dtype <U1.*text has to become numbers"),
        (np.array([[b"x"]]), "'a' has dtype .S1.*np.frombuffer"),
        (np.array([["2020-01-01"]], "M8[D]"), r"'a' has dtype datetime64.*astype"),
        (np.array([[1]], "m8[s]"), "'a' has dtype timedelta64.*astype"),
        (np.zeros((1, 1), [("x", "f4")]), r"'a'.*fields one by one.*a\['x'\]"),
        (np.ones((1, 1), np.longdouble), r"'a' has dtype (longdouble|float128).*np.float64"),
        (np.ones((1, 1), np.clongdouble), r"'a' has dtype (clongdouble|complex256).*np.complex128"),
        (np.ones((1, 1), ">U1"), "'a' has dtype"),
    ],
)
def test_dtypes_that_nobody_computes_with(connection: gg.LocalLab, value: Any, says: str) -> None:
    with pytest.raises(gg.DTypeError, match=says):
        connection.matmul(value, value)


def test_dtypes_that_the_kind_does_not_take() -> None:
    with gg.local(hosts=1, memory="64MiB", plugins=[e2e.TEST_PLUGINS / "faulty.so"]) as lab:
        (kind,) = (kind for kind in lab.kinds() if kind.name == "faulty")
        assert kind.arrays[0].dtypes == ("f64",)
        says = r"'x' has dtype f32; it takes f64: convert it with x\.astype\(np\.float64\)"
        with pytest.raises(gg.DTypeError, match=says):
            lab.submit("faulty", x=np.ones(3, np.float32))


@pytest.mark.parametrize("dtype", [">f4", ">f8", ">c16", ">i4", ">i8"])
def test_foreign_byte_order_is_converted(
    connection: gg.LocalLab, tmp_path: Path, dtype: str
) -> None:
    a = A.astype(dtype)
    mapped = np.memmap(tmp_path / "m", dtype, "w+", 0, (3, 4))
    mapped[:] = a
    np.save(tmp_path / "a.npy", a)
    for value in (a, mapped, tmp_path / "a.npy"):
        c = connection.matmul(value, a.T)
        np.testing.assert_array_equal(c, PRODUCT)
        assert c.dtype.isnative
    out = np.zeros((3, 3), dtype)
    assert connection.matmul(a, a.T, out=out) is out
    np.testing.assert_array_equal(out, PRODUCT)


def test_dlpack_and_bfloat16(connection: gg.LocalLab) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    from test_sdk_dlpack import Producer

    np.testing.assert_array_equal(connection.matmul(Producer(A), Producer(A.T)), PRODUCT)
    short = A.astype(ml_dtypes.bfloat16)
    bits = short.view(np.uint16)
    c = connection.matmul(Producer(bits, code=(4, 16, 1)), Producer(bits.T, code=(4, 16, 1)))
    assert c.tobytes() == connection.matmul(short, short.T).tobytes()
    with pytest.raises(gg.DTypeError, match=r"'b' lies on .*cuda:2"):
        connection.matmul(A, Producer(A.T, device=(2, 2)))


# ---- places of results ----


def test_two_running_jobs_and_one_out(lab: gg.LocalLab) -> None:
    out = np.zeros((6, 3), np.float32)
    job = waiting(lab, out=out[:3])
    says = rf"output 'c': job {job.number} writes its output 'c' to the same memory; wait"
    with pytest.raises(gg.InvalidArgumentError, match=says):
        waiting(lab, out=out[2:5])
    beside = waiting(lab, out=out[3:])
    job.cancel()
    again = waiting(lab, out=out[:3])  # the first has ended
    lab.job(again.number).cancel()  # by somebody else
    np.testing.assert_array_equal(lab.matmul(A, A.T, out=out[:3]), PRODUCT)
    beside.cancel()
    assert (out[3:] == 0).all()


def test_out_of_a_job_that_nobody_holds_is_free(lab: gg.LocalLab) -> None:
    out = np.zeros((3, 3), np.float32)
    job = waiting(lab, out=out)
    number = job.number
    del job
    gc.collect()
    np.testing.assert_array_equal(lab.matmul(A, A.T, out=out), PRODUCT)
    lab.job(number).cancel()


def test_two_running_jobs_and_one_file(lab: gg.LocalLab, tmp_path: Path) -> None:
    path = tmp_path / "c.npy"
    job = waiting(lab, out=path)
    inode = path.stat().st_ino
    with gg.connect(lab.address) as other:
        for one in (lab, other):
            with pytest.raises(gg.InvalidArgumentError, match=rf"'c': job {job.number} writes"):
                waiting(one, out=path)
    assert [p.name for p in tmp_path.iterdir()] == ["c.npy"]
    assert path.stat().st_ino == inode  # still the file that the first writes to
    job.cancel()
    np.testing.assert_array_equal(lab.matmul(A, A.T, out=path), PRODUCT)


def test_a_refused_out_leaves_the_file(lab: gg.LocalLab, tmp_path: Path) -> None:
    path = tmp_path / "c.npy"
    np.save(path, A)
    with pytest.raises(gg.InvalidArgumentError, match=r"policy|replicas|validator|'none'"):
        lab.matmul(A, A.T, out=path, policy="none")
    with pytest.raises(gg.InvalidArgumentError, match=r"\(3, 4\)"):
        lab.matmul(A, A, out=path)
    raw = gg.RawFile(tmp_path / "raw", (3, 3), "f4", offset=1 << 61)
    with pytest.raises(gg.GoblinError, match=r"raw|c"):
        lab.matmul(A, A.T, out=raw)
    assert not raw.path.exists()
    np.testing.assert_array_equal(np.load(path), A)
    assert [p.name for p in tmp_path.iterdir()] == ["c.npy"]


def test_out_and_inputs_do_not_meet(connection: gg.LocalLab) -> None:
    square = np.eye(4, dtype=np.float32)
    with pytest.raises(gg.InvalidArgumentError, match=r"out overlaps argument 'a' in memory"):
        connection.matmul(square, np.eye(4, dtype=np.float32), out=square)
    flat = np.lib.stride_tricks.as_strided(square, (3, 3), (0, 4))
    with pytest.raises(gg.InvalidArgumentError, match=r"out overlaps itself"):
        connection.matmul(A, A.T, out=flat)
    with pytest.raises(gg.InvalidArgumentError, match=r"out is read-only"):
        connection.matmul(A, A.T, out=np.broadcast_to(np.float32(0), (3, 3)))


# ---- plugins of a local network ----


@pytest.mark.parametrize("name", ["truncated", "no-kinds", "newer-major"])
def test_plugins_that_cannot_be_used(tmp_path: Path, name: str) -> None:
    path = e2e.TEST_PLUGINS / f"{name}.so"
    if name == "truncated":
        whole = (e2e.TEST_PLUGINS / "faulty.so").read_bytes()
        path = tmp_path / "truncated.so"
        path.write_bytes(whole[: len(whole) // 2])
    says = r".*ABI 2\.\d.*ABI 1\.\d.*upgrade" if name == "newer-major" else ".+"
    with pytest.raises(
        gg.InvalidArgumentError, match=rf"plugins\[0\]: {path} is no plugin that [^:]*: {says}"
    ):
        gg.local(hosts=1, plugins=[path], directory=tmp_path / "state")
    assert not (tmp_path / "state").exists()


def test_a_network_in_a_folder_by_its_relative_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with gg.local(hosts=1, memory="64MiB", directory="state") as lab:
        monkeypatch.chdir(tmp_path / "elsewhere")
        np.testing.assert_array_equal(lab.matmul(A, A.T), PRODUCT)
        lab.network.lab.restart()
        np.testing.assert_array_equal(lab.matmul(A, A.T), PRODUCT)
    assert list((tmp_path / "state").iterdir()) == []


def test_an_environment_that_is_no_utf8(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GOBLIN_ODD", os.fsdecode(b"\xff"))
    odd = tmp_path / os.fsdecode(b"st\xe4te")
    with gg.local(hosts=1, memory="64MiB", directory=odd) as lab:
        np.testing.assert_array_equal(lab.matmul(A, A.T), PRODUCT)


def test_two_plugins_of_one_kind(tmp_path: Path) -> None:
    faulty = e2e.TEST_PLUGINS / "faulty.so"
    (tmp_path / "link.so").symlink_to(faulty)
    (tmp_path / "copy.so").write_bytes(faulty.read_bytes())
    with pytest.raises(
        gg.InvalidArgumentError, match=r"plugins\[1\]: .*copy.so brings the kind fau"
    ):
        gg.local(hosts=1, plugins=[faulty, tmp_path / "copy.so"], directory=tmp_path / "state")
    with gg.local(hosts=1, memory="64MiB", plugins=[faulty, tmp_path / "link.so"]) as lab:
        assert "faulty" in {kind.name for kind in lab.kinds()}


def test_bounds_are_those_of_the_protocol() -> None:
    assert _core.BOUNDS["rank"] == 16
    assert _core.BOUNDS["name_bytes"] == 256
    assert _core.BOUNDS["files"] == 16
    assert _submission.STAGED == 1
