# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""The package without a network: arguments, outputs, addresses, errors, reports."""

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

import numpy as np
import numpy.typing as npt
import pytest

import gpugoblin as gg
from gpugoblin import _arrays, _core, _dtypes, _errors, _outputs, _places, _programs
from gpugoblin._progress import words
from gpugoblin._records import Cost, Explanation, KindInfo, Progress
from gpugoblin._submission import check_policy, check_weight, plan_outputs


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


class OnlyDLPack:
    """Something with DLPack and nothing else."""

    def __init__(self, array: npt.NDArray[Any], device: int = 1) -> None:
        self.array, self.device = array, device

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0


def test_dlpack(tmp_path: Path) -> None:
    array = np.arange(12.0).reshape(3, 4)
    op = _arrays.operand("a", OnlyDLPack(array.T))
    np.testing.assert_array_equal(sent(tmp_path, op), array.T)
    with pytest.raises(gg.DTypeError, match="'a' lies on another device"):
        _arrays.operand("a", OnlyDLPack(array, device=2))


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
    with pytest.raises(gg.InvalidArgumentError, match=r"'a': not a \.npy file"):
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


# ---- outputs ----

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
    with path.open("rb") as older:
        target = _outputs.target(EXPECTED, str(path), [])
        assert older.read() == b"older"
    assert target.file is not None
    made = np.load(path)
    assert (made.shape, made.dtype) == ((3, 4, 5), np.int32)
    target.mapped()[:] = 5
    assert (np.load(path) == 5).all()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.npy"]


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
        "refused": 1,
        "failed": 0,
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
