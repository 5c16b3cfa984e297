# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""The examples as programs at a small size, and what the demonstration judges with."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))

from photo_similarity_lib import exact, numpy_peer, patches  # noqa: E402


def run(name: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=100, env=os.environ
    )


# ---- the programs ----


def test_first_matmul(tmp_path: Path) -> None:
    done = run("first_matmul.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"[1-9]\d* results checked, 0 refused", done.stdout)
    found = re.search(r"largest difference to NumPy: (\S+)", done.stdout)
    assert found is not None
    assert float(found[1]) < 1e-3


def test_photo_similarity(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("sklearn")
    small = ("--patches", "7000", "--work-dir", str(tmp_path))
    done = run("photo_similarity.py", *small, "--lie-rate", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.endswith(" refused · verified")
    summary = re.fullmatch(
        r"(\d+) x \1 x 768 f32 · \S+ s · \S+ GFLOP/s \(NumPy \S+ in \S+ s\) · "
        r"[1-9]\d* MB sent · (\d+) tiles checked · (\d+) refused · verified",
        last,
    )
    assert summary is not None, last
    assert 5000 < int(summary[1]) <= 7000
    assert int(summary[2]) > int(summary[3]) >= 1
    assert "ok     the liar is named: host-1 (" in done.stdout
    assert "256 of 256 sampled entries bit-equal" in done.stdout
    with image.open(tmp_path / "photo_similarity.png") as picture:
        assert picture.width == 1800
        # Drawn, not blank: every colour of the marks is there.
        colours = {colour for _, colour in picture.getcolors(1 << 24)}
        assert {(255, 196, 61), (255, 140, 66), (236, 239, 244)} <= colours
    assert [path.name for path in tmp_path.iterdir()] == ["photo_similarity.png"]


def test_photo_similarity_fails_where_nobody_is_named(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    small = ("--patches", "300", "--hosts", "2", "--work-dir", str(tmp_path))
    done = run("photo_similarity.py", *small, "--lie-rate", "0", cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILED the liar is host-1, but named is nobody" in done.stdout
    assert done.stdout.splitlines()[-1].endswith("0 refused · FAILED")


def test_photo_similarity_refuses(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = pytest.importorskip("photo_similarity")
    for arguments, message in (
        (["--hosts", "1"], "--hosts 1: one host lies, so at least 2 are needed"),
        (["--stride", "0", "4"], "both must be at least 1"),
        (["--patches", "0"], "--patches 0: must be at least 1"),
    ):
        with pytest.raises(SystemExit) as ended:
            program.main(arguments)
        assert ended.value.code == 2
        assert message in capsys.readouterr().err
    with pytest.raises(SystemExit, match="nowhere is not a program: run scripts/build"):
        program.main(["--patches", "9", "--liar", "nowhere"])
    assert program.main(["--patches", "9", "--memory", "1MiB"]) == 1
    captured = capsys.readouterr()
    assert "FAILED: the local host-0 refuses a setting: memory" in captured.err
    assert "verified" not in captured.out
    monkeypatch.setattr(program.shutil, "disk_usage", lambda _: SimpleNamespace(free=123_456_789))
    with pytest.raises(SystemExit, match=r"has 0\.1 GB free, 2\.4 GB are needed"):
        program.main([])


def test_photo_similarity_sees_wrong_bits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = pytest.importorskip("photo_similarity")
    rng = np.random.default_rng(9)
    a, b = rng.standard_normal((2, 5, 300), np.float32)
    s = np.array([[exact.canonical_dot(x, y) for y in b] for x in a], np.uint32).view(np.float32)
    for name, array in (("a", a), ("b", b), ("s", s)):
        np.save(tmp_path / f"{name}.npy", array)
    verdict = program.Verdict()
    program.judge_bits(tmp_path, verdict)
    assert verdict.failures == []
    np.save(tmp_path / "s.npy", (s.view(np.uint32) ^ 1).view(np.float32))
    program.judge_bits(tmp_path, verdict)
    assert len(verdict.failures) == 1
    assert "0 of 256 sampled entries" in verdict.failures[0]
    assert "FAILED definition" in capsys.readouterr().out


# ---- the definition in integers ----


def bits(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


def nearest(value: Fraction) -> np.float32:
    """The f32 nearest to a rational, ties to even, by comparing neighbours."""
    guess = np.float32(float(value))
    around = [np.nextafter(guess, np.float32(to)) for to in (-np.inf, np.inf)] + [guess]
    return min(around, key=lambda f: (abs(Fraction(float(f)) - value), int(f.view(np.uint32)) & 1))


def by_fractions(a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]) -> int:
    total = np.float32(0)
    for start in range(0, len(a), 256):
        block = np.float32(0)
        for x, y in zip(a[start : start + 256], b[start : start + 256], strict=True):
            block = nearest(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(block)))
        total = block if start == 0 else nearest(Fraction(float(total)) + Fraction(float(block)))
    return bits(float(total))


@pytest.mark.parametrize("terms", [0, 1, 2, 255, 256, 257, 768])
def test_exact_equals_fractions(terms: int) -> None:
    rng = np.random.default_rng(terms)
    a, b = rng.standard_normal((2, terms), np.float32)
    assert exact.canonical_dot(a, b) == by_fractions(a, b)
    a *= np.float32(2) ** rng.integers(-60, 60, terms).astype(np.float32)
    assert exact.canonical_dot(a, b) == by_fractions(a, b)


def test_exact_at_the_edges() -> None:
    def dot(a: list[float], b: list[float]) -> int:
        return int(exact.canonical_dot(np.array(a, np.float32), np.array(b, np.float32)))

    tiny = 2.0**-149
    assert dot([tiny], [1]) == 1
    assert dot([-tiny], [1]) == 0x80000001
    assert dot([2.0**-126], [1]) == 0x00800000
    assert dot([2.0**-126, tiny], [1, -1]) == 0x007FFFFF
    assert dot([5 * 2.0**-76], [2.0**-75]) == 1  # 1.25 of the finest
    assert dot([3 * 2.0**-75], [2.0**-75]) == 2  # 1.5, a tie, to even
    assert dot([2.0**-75], [2.0**-75]) == 0  # 0.5, a tie, to even
    assert dot([1, 2.0**-24], [1, 1]) == bits(1)  # a tie, to even
    assert dot([1, 3 * 2.0**-24], [1, 1]) == bits(1 + 2.0**-22)
    assert dot([1, -1], [1, 1]) == 0
    # One rounding, not two: the product of the second term does not fit f32.
    x = 1 + 2.0**-12
    assert dot([-1, x], [1, x]) == bits(2.0**-11 + 2.0**-24)
    assert dot([3.4028234663852886e38], [1]) == 0x7F7FFFFF
    with pytest.raises(ValueError, match="too large"):
        dot([3e38, 3e38], [1, 1])
    with pytest.raises(ValueError, match="infinity or NaN"):
        dot([float("inf")], [0])
    with pytest.raises(ValueError, match="4097 terms"):
        dot([0.0] * 4097, [0.0] * 4097)


def test_blocks_matter() -> None:
    # 256 terms of 2^-24 vanish one by one beside 1, but not as a block of their own.
    a = np.full(512, 2.0**-24, np.float32)
    a[:256] = 0
    a[0] = 1
    assert exact.canonical_dot(a, np.ones(512, np.float32)) == bits(1 + 2.0**-16)


# ---- NumPy beside it ----


def test_numpy_peer_finds_one_wrong_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "nonsense")
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((300, 64), np.float32), rng.standard_normal((200, 64), np.float32)
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    b /= np.linalg.norm(b, axis=1, keepdims=True)
    c = a @ b.T
    paths = [tmp_path / f"{name}.npy" for name in "abc"]
    for path, array in zip(paths, (a, b, c), strict=True):
        np.save(path, array)
    found = numpy_peer.compare(*paths)
    assert (found.rows, found.wrong_rows) == (300, 0)
    assert found.seconds > 0
    for wrong, largest in ((c[299, 199] + np.float32(0.001), 0.001), (np.float32("nan"), None)):
        c[299, 199] = wrong
        np.save(paths[2], c)
        found = numpy_peer.compare(*paths)
        assert found.wrong_rows == 1
        if largest is not None:
            assert found.largest == pytest.approx(largest, rel=0.1)


# ---- patches ----


def test_patches_are_correlations() -> None:
    rng = np.random.default_rng(2)
    photo = rng.integers(0, 256, (60, 70, 3), np.uint8)
    photo[:20, :20] = 77
    grid = patches.grid_of(photo.shape, 3, 4)
    rows = patches.cut(photo, grid)
    assert rows.shape == (15 * 14, 768)
    assert grid.corner(15) == (3, 4)
    piece = photo[30:46, 40:56].reshape(-1)
    y, x = divmod(grid.columns * 10 + 10, grid.columns)
    assert grid.corner(y * grid.columns + x) == (30, 40)
    other = photo[33:49, 40:56].reshape(-1)
    expected = np.corrcoef(piece, other)[0, 1]
    # Windows hold their pixels by channel, which changes no correlation.
    found = rows[y * grid.columns + x] @ rows[(y + 1) * grid.columns + x]
    assert found == pytest.approx(expected, abs=1e-6)
    assert not rows[0].any()  # of one colour
    norms = np.linalg.norm(rows[~(rows == 0).all(axis=1)], axis=1)
    np.testing.assert_allclose(norms, 1, atol=1e-6)


def test_grid_within() -> None:
    for most in (1, 10, 2500, 21666):
        grid = patches.grid_within((427, 640, 3), most)
        assert 1 <= grid.count <= most
    assert patches.grid_within((427, 640, 3), 21666).count == 21666


def test_choice_is_diverse_even_where_patches_are_few() -> None:
    rng = np.random.default_rng(1)
    photo = rng.integers(0, 256, (64, 64, 3), np.uint8)
    grid = patches.grid_of(photo.shape, 16, 16)
    rows = patches.cut(photo, grid)
    contrasts = patches.contrast(photo, grid)
    best = (np.arange(grid.count), np.linspace(0, 1, grid.count, dtype=np.float32))
    for count in (6, 16, 20):
        chosen = patches.choose(rows, (grid, grid), (contrasts, contrasts), best, count)
        assert len(set(chosen)) == len(chosen) == min(count, grid.count)
