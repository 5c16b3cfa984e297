# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""A job's bits do not depend on who computed it or how it was cut: they are the definition's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import canonical
import e2e
import numpy as np
import numpy.typing as npt
import pytest

import gpugoblin as gg

pytestmark = pytest.mark.timeout(120)

Array = npt.NDArray[Any]

# Hosts and their memory: each cuts the work in another way.
NETWORKS: tuple[tuple[int, tuple[str, ...]], ...] = (
    (1, ("64MiB",)),
    (1, ("256MiB",)),
    (2, ("96MiB", "96MiB")),
    (3, ("64MiB", "96MiB", "256MiB")),
)


def random(seed: int, shape: tuple[int, ...], dtype: str) -> Array:
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(shape) < 0.05
    if dtype.startswith("int"):
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    if dtype == "uint16":  # the bits of bf16
        return (rng.standard_normal(shape).astype(np.float32).view(np.uint32) >> 16).astype(dtype)
    values: Array = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def operands() -> dict[str, tuple[Array, Array]]:
    """Name → operands; the names say what is special about them."""
    deep_a, deep_b = random(1, (300, 12000), "float32"), random(2, (12000, 500), "float32")
    special = deep_a[:, :600].copy()
    special[3, 7], special[5, 9], special[200, 100] = np.nan, np.inf, -np.inf
    special[7] *= np.float32(1e-42)  # subnormal
    special[9] = -0.0
    return {
        "square f32": (random(3, (1700, 900), "float32"), random(4, (900, 1500), "float32")),
        "deep f32": (deep_a, deep_b),  # k > 4096: cut along k under small caps
        "very deep f64": (random(5, (40, 40000), "float64"), random(6, (40000, 50), "float64")),
        "special f32": (special, random(7, (600, 400), "float32")),
        "transposed f64": (random(8, (500, 700), "float64").T, random(9, (900, 500), "float64").T),
        "strided f32": (random(10, (900, 1200), "float32")[::-2, ::3], deep_b[:400, ::-1]),
        "f16": (random(11, (400, 5000), "float16"), random(12, (5000, 300), "float16")),
        "i8": (random(13, (700, 5000), "int8"), random(14, (5000, 300), "int8")),
        "i64": (random(15, (200, 700), "int64"), random(16, (700, 200), "int64")),
        "bool": (random(17, (300, 500), "bool"), random(18, (500, 300), "bool")),
        "c64": (random(19, (300, 5000), "complex64"), random(20, (5000, 200), "complex64")),
        "c128": (random(21, (200, 300), "complex128"), random(22, (300, 200), "complex128")),
        "batch": (random(23, (6, 1, 200, 300), "float32"), random(24, (3, 300, 250), "float32")),
        "vector": (random(25, (4000,), "float32"), random(26, (4000, 3000), "float32")),
    }


OPERANDS = operands()


@pytest.fixture(scope="module")
def results() -> dict[str, list[Array]]:
    """Name → the result of every network."""
    found: dict[str, list[Array]] = {name: [] for name in OPERANDS}
    for hosts, memory in NETWORKS:
        each = [{"memory": cap} for cap in memory]
        with gg.local(hosts=hosts, host_options=each, cache="256MiB") as lab:
            for name, (a, b) in OPERANDS.items():
                # A product of bool has no cheap check: a second host has to agree.
                if name != "bool" or hosts > 1:
                    found[name].append(np.array(lab.matmul(a, b)))
    return found


@pytest.mark.parametrize("name", OPERANDS)
def test_same_bits_on_every_network(name: str, results: dict[str, list[Array]]) -> None:
    assert len(results[name]) >= 2
    assert len({e2e.sha256(result) for result in results[name]}) == 1


@pytest.mark.parametrize("name", OPERANDS)
def test_the_bits_of_the_definition(name: str, results: dict[str, list[Array]]) -> None:
    a, b = OPERANDS[name]
    c = results[name][0]
    rng = np.random.default_rng(len(name))
    if a.ndim == 1:
        a, c = a[None, :], c[None, :]
    # Whole rows and columns of every product would take the scalar reference minutes.
    rows = np.unique(np.r_[0, a.shape[-2] - 1, rng.integers(0, a.shape[-2], 8)])
    if name == "special f32":
        rows = np.unique(np.r_[rows, 3, 5, 7, 9, 200])
    columns = np.unique(np.r_[0, b.shape[-1] - 1, rng.integers(0, b.shape[-1], 8)])
    for index in np.ndindex(c.shape[:-2]):
        part_a = np.broadcast_to(a, (*c.shape[:-2], *a.shape[-2:]))[index][rows]
        part_b = np.broadcast_to(b, (*c.shape[:-2], *b.shape[-2:]))[index][:, columns]
        expected = canonical.matmul(part_a, part_b, c.dtype)
        got = np.ascontiguousarray(c[index][np.ix_(rows, columns)])
        assert got.tobytes() == expected.tobytes(), (name, index)


def test_integers_against_exact_arithmetic(results: dict[str, list[Array]]) -> None:
    """Independent of any code of ours: Python's own integers."""
    a, b = OPERANDS["i64"]
    c = results["i64"][0]
    for i, j in ((0, 0), (17, 33), (199, 199)):
        exact = sum(int(x) * int(y) for x, y in zip(a[i], b[:, j], strict=True))
        assert int(c[i, j]) == (exact + 2**63) % 2**64 - 2**63
    a, b = OPERANDS["i8"]
    np.testing.assert_array_equal(results["i8"][0], a.astype(np.int32) @ b.astype(np.int32))


def test_floats_against_the_written_definition(results: dict[str, list[Array]]) -> None:
    """Blocks of 256 terms, one fma a term, blocks added in order: exact rationals rounded once."""
    a, b = OPERANDS["square f32"]
    c = results["square f32"][0]
    for i, j in ((0, 0), (1234, 777), (1699, 1499)):
        assert c[i, j].tobytes() == canonical.by_hand(a[i], b[:, j]).tobytes()


def test_bf16(tmp_path: Path) -> None:
    """From raw files: NumPy has no bfloat16 of its own."""
    bits_a, bits_b = random(27, (300, 5000), "uint16"), random(28, (5000, 200), "uint16")
    bits_a.tofile(tmp_path / "a")
    bits_b.tofile(tmp_path / "b")
    a = gg.RawFile(tmp_path / "a", bits_a.shape, "bf16")
    b = gg.RawFile(tmp_path / "b", bits_b.shape, "bf16")
    results = []
    for hosts, memory in ((1, "64MiB"), (2, "256MiB")):
        with gg.local(hosts=hosts, memory=memory) as lab:
            lab.matmul(a, b, out=gg.RawFile(tmp_path / "c", (300, 200), "bf16"))
            results.append(np.fromfile(tmp_path / "c", np.uint16).reshape(300, 200))
    assert results[0].tobytes() == results[1].tobytes()
    rows, columns = np.r_[0, 7, 299], np.r_[0, 100, 199]
    expected = canonical.matmul(
        bits_a[rows], bits_b[:, columns], np.dtype(np.uint16), canonical.BFLOAT16
    )
    assert np.ascontiguousarray(results[0][np.ix_(rows, columns)]).tobytes() == expected.tobytes()


def test_many_small_jobs_at_once_keep_their_bits() -> None:
    pairs = [
        (random(i, (60, 90), "float32"), random(90 + i, (90, 70), "float32")) for i in range(8)
    ]
    with gg.local(hosts=2, memory="64MiB") as lab:
        alone = [e2e.sha256(lab.matmul(a, b)) for a, b in pairs]
        jobs = [lab.submit("matmul", a=a, b=b, weight=1 + i) for i, (a, b) in enumerate(pairs)]
        assert [e2e.sha256(job.result(30)) for job in jobs] == alone
