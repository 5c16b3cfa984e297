# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""The package with a real network: coordinator, lab node and hosts as processes."""

from __future__ import annotations

import concurrent.futures
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import gpugoblin as gg

RNG = np.random.default_rng(7)


@pytest.fixture(scope="module")
def lab() -> Iterator[gg.LocalLab]:
    with gg.local(hosts=2, validators=1, memory="128MiB") as lab:
        yield lab


def random(shape: tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
    kind = np.dtype(dtype).kind
    if kind == "b":
        return RNG.random(shape) < 0.2
    if kind in "iu":
        return RNG.integers(0, 100, shape).astype(dtype)
    values = RNG.standard_normal(shape)
    if kind == "c":
        values = values + 1j * RNG.standard_normal(shape)
    return values.astype(dtype)


def check(c: Any, a: Any, b: Any) -> None:
    """Against NumPy: the same to the bit for integers, within rounding for the rest."""
    expected = np.matmul(a, b)
    assert c.shape == expected.shape
    if c.dtype.kind in "biu":
        np.testing.assert_array_equal(c, expected)
        return
    assert c.dtype == expected.dtype
    exact = np.matmul(a.astype(np.complex128), b.astype(np.complex128))
    scale = np.matmul(abs(a).astype(float), abs(b).astype(float)) + 1e-30
    assert np.max(abs(c - exact) / scale, initial=0) <= 4 * np.finfo(c.dtype).eps


# ---- what a first look shows ----


def test_hosts_kinds_status(lab: gg.LocalLab) -> None:
    hosts = lab.hosts()
    assert {host.host for host in hosts} == {host.pin for host in lab.network.hosts}
    assert all(host.connected and host.threads == 1 for host in hosts)
    assert [host.host for host in hosts if host.validator] == [lab.network.hosts[2].pin]
    kinds = {kind.name: kind for kind in lab.kinds()}
    assert [array.name for array in kinds["matmul"].arrays] == ["a", "b"]
    assert "f32" in kinds["matmul"].arrays[0].dtypes
    assert lab.status()["hosts connected"] == "3"
    held = {"tasks prepared", "leases", "inputs hashed", "inputs on offer", "grants"}
    assert all(int(lab.status()[name]) >= 0 for name in held)


def test_job_tells_about_itself(lab: gg.LocalLab) -> None:
    a, b = random((300, 200), "f4"), random((200, 100), "f4")
    job = lab.submit("matmul", a=a, b=b)
    check(job.result(30), a, b)
    assert job.result() is job.result()
    assert (job.status, job.done, job.kind) == ("done", True, "matmul/1")
    assert job.progress.fraction == 1.0
    assert job.progress.accepted == job.progress.tasks > 0
    cost = job.cost
    assert cost.flops == 2 * 300 * 200 * 100
    assert cost.checks >= job.progress.tasks
    assert cost.bytes_sent > 0
    explanation = job.explain()
    assert explanation.policy == "algebraic"
    assert sum(host.accepted for host in explanation.hosts) == job.progress.tasks
    assert explanation.liars == ()
    assert f"job {job.number}" in str(explanation)
    assert "done" in repr(job)
    assert "<progress" in job._repr_html_()
    assert job.number in [other.number for other in lab.jobs()]
    again = lab.job(job.number)
    np.testing.assert_array_equal(again.result(), job.result())
    job.forget()
    with pytest.raises(gg.NotFoundError, match=f"no job {job.number}"):
        lab.job(job.number)
    assert job.result()[0, 0] == again.result()[0, 0]  # mapped files outlive their names


# ---- numbers ----


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i4", "i8", "f2", "f4", "f8", "c8", "c16"])
def test_dtypes(lab: gg.LocalLab, dtype: str) -> None:
    a, b = random((33, 65), dtype), random((65, 17), dtype)
    c = lab.matmul(a, b)
    if dtype == "i1":
        assert c.dtype == np.int32
        np.testing.assert_array_equal(c, a.astype(np.int32) @ b.astype(np.int32))
    else:
        check(c, a, b)


def test_bfloat16(lab: gg.LocalLab) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a = random((20, 30), "f4").astype(ml_dtypes.bfloat16)
    b = random((30, 10), "f4").astype(ml_dtypes.bfloat16)
    c = lab.matmul(a, b)
    assert c.dtype == a.dtype
    exact = a.astype("f8") @ b.astype("f8")
    np.testing.assert_allclose(c.astype("f8"), exact, atol=0.05)
    wide = lab.matmul(a, b, out_dtype="f32")
    assert wide.dtype == np.float32
    np.testing.assert_allclose(wide, exact, atol=1e-4)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (random((40, 30), "f8").T, random((40, 20), "f8")),
        (random((30, 40), "f8")[::-1, ::-1], random((40, 20), "f8")[:, ::-2]),
        (random((60, 40), "f8")[::2, 1::3], random((26, 13), "f8")[::2]),
        (np.asfortranarray(random((30, 40), "f8")), random((40, 20), "f8")),
        (random((3, 1, 5, 4), "f8"), random((2, 4, 6), "f8")),
        (np.broadcast_to(random((5, 4), "f8"), (3, 5, 4)), random((3, 4, 2), "f8")),
        (random((9,), "f8"), random((9,), "f8")),
        (random((9,), "f8"), random((9, 4), "f8")),
        (random((2, 4, 9), "f8"), random((9,), "f8")),
        (random((0, 9), "f8"), random((9, 4), "f8")),
        (random((3, 0), "f8"), random((0, 4), "f8")),
        (random((1, 1), "f8"), random((1, 1), "f8")),
        (random((5, 4), ">f8"), random((4, 3), "f8")),
    ],
)
def test_shapes_and_strides(lab: gg.LocalLab, a: Any, b: Any) -> None:
    check(lab.matmul(a, b), a, b)


def test_an_array_with_itself_is_copied_once(
    lab: gg.LocalLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    real = lab._client
    monkeypatch.setattr(lab, "_client", Recorder(real, sizes))
    a = random((50, 40), "f4")
    check(lab.matmul(a, a.T), a, a.T)
    assert sizes == [a.nbytes]


class Recorder:
    """A client that notes how much is staged."""

    def __init__(self, client: Any, sizes: list[int]) -> None:
        self._client, self._sizes = client, sizes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def stage(self, size: int) -> Any:
        self._sizes.append(size)
        return self._client.stage(size)


@pytest.mark.parametrize("policy", ["algebraic", "validator", "replicate"])
def test_policies_give_the_same_bits(lab: gg.LocalLab, policy: str) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 150, 150), np.float32)
    c = lab.matmul(a, b, policy=policy)
    assert c.tobytes() == lab.matmul(a, b).tobytes()


def test_larger_than_a_host(lab: gg.LocalLab) -> None:
    a, b = random((6000, 700), "f8"), random((700, 6000), "f8")  # 288 MB of result
    job = lab.submit("matmul", a=a, b=b)
    c = job.result(60)
    assert job.progress.tasks > 4
    rows = RNG.integers(0, 6000, 20)
    check(c[rows], a[rows], b)
    job.forget()


# ---- files ----


def test_files_in_place(lab: gg.LocalLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(lab, "_client", Recorder(lab._client, sizes))
    a, b = random((70, 50), "f4"), random((50, 30), "f4")
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "f.npy", np.asfortranarray(a))
    (tmp_path / "b.raw").write_bytes(b"12345678" + b.tobytes())
    raw = gg.RawFile(tmp_path / "b.raw", (50, 30), "float32", offset=8)
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    for left in (tmp_path / "a.npy", str(tmp_path / "f.npy"), mapped):
        check(lab.matmul(left, raw), a, b)
    check(lab.matmul(mapped[::-2, 1:], raw.map()[1:, ::-1]), a[::-2, 1:], b[1:, ::-1])
    check(lab.matmul(mapped.T, mapped), a.T, a)
    assert sizes == []


def test_out(lab: gg.LocalLab, tmp_path: Path) -> None:
    a, b = random((70, 50), "f4"), random((50, 30), "f4")
    c = lab.matmul(a, b)
    out = np.empty((70, 30), np.float32)
    assert lab.matmul(a, b, out) is out
    assert out.tobytes() == c.tobytes()
    strided = np.zeros((70, 60), np.float32)
    lab.matmul(a, b, out=strided[:, ::2])
    np.testing.assert_array_equal(strided[:, ::2], c)
    assert not strided[:, 1::2].any()
    made = lab.matmul(a, b, out=tmp_path / "c.npy")
    np.testing.assert_array_equal(made, c)
    np.testing.assert_array_equal(np.load(tmp_path / "c.npy"), c)
    mapped = np.memmap(tmp_path / "m", np.float32, "w+", 16, (70, 30))
    assert lab.matmul(a, b, out=mapped) is mapped
    np.testing.assert_array_equal(mapped, c)
    raw = gg.RawFile(tmp_path / "raw", (70, 30), "float32", offset=64)
    np.testing.assert_array_equal(lab.matmul(a, b, out=raw), c)
    assert (tmp_path / "raw").read_bytes()[64:] == c.tobytes()
    with pytest.raises(gg.InvalidArgumentError, match=r"out has shape \(30, 70\)"):
        lab.matmul(a, b, out=np.empty((30, 70), np.float32))


def test_a_result_belongs_to_its_caller(lab: gg.LocalLab) -> None:
    a = random((20, 20), "f8")
    job = lab.submit("matmul", a=a, b=a)
    first = job.result()
    second = lab.job(job.number).result()
    first[:] = 0
    check(second, a, a)


# ---- refusals ----


def test_wrong_arguments(lab: gg.LocalLab) -> None:
    a = random((4, 3), "f4")
    with pytest.raises(ValueError, match=r"\(4, 3\)"):
        lab.matmul(a, a)
    with pytest.raises(gg.InvalidArgumentError, match=r"a is i16 and b is f32.*astype"):
        lab.matmul(a.astype("i2"), a.T)
    with pytest.raises(ValueError, match="'b' is missing"):
        lab.submit("matmul", a=a)
    with pytest.raises(ValueError, match="no array argument 'x'"):
        lab.submit("matmul", a=a, b=a.T, x=a)
    with pytest.raises(ValueError, match="no argument 'alpha'"):
        lab.submit("matmul", a=a, b=a.T, alpha=2)
    with pytest.raises(ValueError, match="'out_dtype' is 99"):
        lab.submit("matmul", a=a, b=a.T, out_dtype=99)
    with pytest.raises(gg.NotFoundError, match="matmul"):
        lab.submit("matmull", a=a, b=a.T)
    with pytest.raises(gg.GoblinError, match="matmul"):
        lab.submit("matmul/77", a=a, b=a.T)
    with pytest.raises(ValueError, match="Matmul"):
        lab.submit("Matmul", a=a, b=a.T)
    with pytest.raises(ValueError, match="'none' is refused"):
        lab.matmul(a, a.T, policy="none")
    with pytest.raises(TypeError, match=r"'a'.*Python objects"):
        lab.matmul(np.array([[None]]), a)
    with pytest.raises(gg.NotFoundError, match="no job 999999"):
        lab.job(999999)


def test_sizes_are_checked_before_anything_is_copied(
    lab: gg.LocalLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(lab, "_client", Recorder(lab._client, sizes))
    a = np.zeros((1000, 1001), np.float32)
    with pytest.raises(ValueError, match=r"\(1000, 1001\)"):
        lab.matmul(a, a)
    assert sizes == []


# ---- several at once, cancelling ----


def test_jobs_beside_each_other(lab: gg.LocalLab) -> None:
    pairs = [(random((200, 100), "f4"), random((100, 50), "f4")) for _ in range(6)]
    jobs = [lab.submit("matmul", a=a, b=b, weight=1 + i) for i, (a, b) in enumerate(pairs)]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        results = list(pool.map(lambda job: job.result(30), jobs))
    for c, (a, b) in zip(results, pairs, strict=True):
        check(c, a, b)


def test_futures(lab: gg.LocalLab) -> None:
    a, b = random((100, 100), "f4"), random((100, 100), "f4")
    futures = [lab.submit("matmul", a=a, b=b).as_future() for _ in range(4)]
    done, late = concurrent.futures.wait(futures, timeout=30)
    assert not late
    assert len({future.result().tobytes() for future in done}) == 1
    ended = lab.submit("matmul", a=a, b=b)
    ended.result()
    assert ended.as_future().result(30).shape == (100, 100)


def large() -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    return np.broadcast_to(np.ones(4000), (12000, 4000)), np.broadcast_to(
        np.ones(12000), (4000, 12000)
    )


def test_cancel(lab: gg.LocalLab) -> None:
    a, b = large()
    job = lab.submit("matmul", a=a, b=b)
    with pytest.raises(TimeoutError, match=r"within 0\.01 s"):
        job.result(0.01)
    assert not job.done
    job.cancel()
    assert job.wait(10)
    assert job.status == "cancelled"
    with pytest.raises(gg.JobCancelledError, match=f"job {job.number}"):
        job.result()
    job.cancel()
    future = lab.submit("matmul", a=a, b=b).as_future()
    assert future.cancel()
    assert future.cancelled()
    assert lab.jobs()[-1].wait(10)
    assert lab.jobs()[-1].status == "cancelled"
    with pytest.raises(TimeoutError):
        lab.matmul(a, b, timeout=0.05)
    assert lab.jobs()[-1].wait(10)
    assert lab.jobs()[-1].status == "cancelled"


PROGRAM = """
import sys, numpy as np, gpugoblin as gg
with gg.connect(sys.argv[1]) as lab:
    print("up", flush=True)
    a, b = np.broadcast_to(np.ones(4000), (12000, 4000)), np.ones((4000, 12000))
    try:
        lab.matmul(a, b)
    except KeyboardInterrupt:
        job = lab.jobs()[-1]
        job.wait(10)
        print("interrupted", job.status, flush=True)
"""


def test_ctrl_c_cancels(lab: gg.LocalLab) -> None:
    before = len(lab.jobs())
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, lab.address], stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "up\n"
    while len(lab.jobs()) == before:
        pass
    program.send_signal(signal.SIGINT)
    output, _ = program.communicate(timeout=20)
    assert output == "interrupted cancelled\n"
    assert program.returncode == 0


# ---- the network itself ----


def test_hosts_do_not_change_the_bits() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((2, 900, 900), np.float32)
    bits = set()
    for hosts, memory in ((1, "256MiB"), (3, "64MiB")):
        with gg.local(hosts=hosts, memory=memory) as lab:
            bits.add(lab.matmul(a, b).tobytes())
    assert len(bits) == 1


# ---- over TLS ----


def test_tls(tmp_path: Path) -> None:
    key = tmp_path / "identity"
    with gg.local(hosts=1, lab_options={"clients.allow": gg.own_pin(key)}) as lab:
        where = f"127.0.0.1:{lab.network.lab.port}"
        pin = lab.network.lab.pin
        with pytest.raises(gg.CorruptError):
            gg.connect(f"{where}#{'00' * 32}", identity=key)
        with pytest.raises(gg.InvalidArgumentError, match="does not admit"):
            gg.connect(f"{where}#{pin}", identity=tmp_path / "other")
        with gg.connect(f"{where}#{pin}", identity=key) as remote:
            assert not remote.is_local
            a, b = random((500, 900), "f4"), random((700, 900), "f4").T
            c = remote.matmul(a, b)
            assert c.tobytes() == lab.matmul(a, b).tobytes()
            np.save(tmp_path / "a.npy", a)
            made = remote.matmul(tmp_path / "a.npy", b, out=tmp_path / "c.npy")
            np.testing.assert_array_equal(made, c)
            np.testing.assert_array_equal(np.load(tmp_path / "c.npy"), c)
            out = np.empty_like(c)
            assert remote.matmul(a[::-1], b, out=out) is out
            np.testing.assert_array_equal(out, c[::-1])
            assert remote.matmul(a[:0], b).shape == (0, 700)
            with pytest.raises(ValueError, match=r"\(500, 900\)"):
                remote.matmul(a, a)
            # A result that lies in a file of the lab node's machine is refused, and nobody is hurt.
            in_file = lab.submit("matmul", a=a, b=b, out=tmp_path / "there.npy")
            in_file.result(30)
            with pytest.raises(gg.NotFoundError, match="a file on the lab node's machine"):
                remote.job(in_file.number).result(30)
            job = remote.submit("matmul", a=a, b=b)
            lab.network.lab.restart()
            assert job.result(30).tobytes() == c.tobytes()
