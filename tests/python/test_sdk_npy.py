# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Headers of .npy files that somebody spoilt: refused as a wrong argument, or read within the file.

GOBLIN_NPY_MINUTES: how long to go on with other headers (a seed is printed with a failure).
"""

from __future__ import annotations

import os
import random
import struct
import time
from pathlib import Path

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin._files import FileView, npy_view

ROUNDS = 1500
MINUTES = float(os.environ.get("GOBLIN_NPY_MINUTES", "0"))
WORDS = (
    b"'descr'", b"'fortran_order'", b"'shape'", b"True", b"False", b"None", b"(", b")", b"{", b"}",
    b"[", b"]", b",", b":", b"'", b'"', b"\\", b"#", b"\n", b"\0", b"\xff", b"-1", b"0", b"1e9",
    b"9" * 30, b"18446744073709551616", b"0x10", b"<f4", b">f8", b"|O", b"<U5", b"|V0", b"f" * 9,
    b"lambda: 0", b"__import__", b"1L", b"(" * 300, b"-" * 300, b"1," * 400, b"L", b" " * 70,
)  # fmt: skip


def whole(version: int, header: bytes, data: bytes = b"\0" * 64) -> bytes:
    length = struct.pack(
        "<H" if version == 1 else "<I", len(header) & (0xFFFF if version == 1 else ~0)
    )
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + data


def seeds() -> list[bytes]:
    headers = [
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 4), }\n",
        b"{'descr': '>f8', 'fortran_order': True, 'shape': (8,), }\n",
        b"{'descr': '|b1', 'fortran_order': False, 'shape': (), }\n",
        b"{'descr': '<c16', 'fortran_order': False, 'shape': (0, 5), }\n",
        b"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }\n",
    ]
    return [whole(version, header) for header in headers for version in (1, 2, 3)]


def spoil(rng: random.Random, file: bytes) -> bytes:
    bytes_ = bytearray(file)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(bytes_) + 1)
        choice = rng.randrange(6)
        if choice == 0:
            bytes_[at:at] = rng.choice(WORDS)
        elif choice == 1:
            del bytes_[at : at + rng.randint(1, 20)]
        elif choice == 2:
            word = rng.choice(WORDS)
            bytes_[at : at + len(word)] = word
        elif choice == 3 and at < len(bytes_):
            bytes_[at] = rng.randrange(256)
        elif choice == 4 and at < len(bytes_):
            bytes_[at] ^= 1 << rng.randrange(8)
        else:
            del bytes_[at:]
        if not bytes_:
            bytes_ += b"\x93"
    # Mostly with a length that is right, so that the header's text is looked at.
    if rng.random() < 0.7 and bytes_[:6] == b"\x93NUMPY" and len(bytes_) > 12:
        end = bytes_.find(b"\n")
        version = bytes_[6]
        size = 2 if version == 1 else 4
        if end > 8 + size:
            bytes_[8 : 8 + size] = (end + 1 - 8 - size & (1 << 8 * size) - 1).to_bytes(
                size, "little"
            )
    return bytes(bytes_)


def read(path: Path, file: bytes) -> bool:
    """Whether it was taken; anything but a refusal that names the argument is a failure."""
    path.write_bytes(file)
    try:
        view = npy_view("a", path)
    except (gg.InvalidArgumentError, gg.ArgumentTypeError):
        return False
    if isinstance(view, FileView):
        low, high = view.extent()
        assert low >= 0
        assert high <= len(file)
    else:
        assert isinstance(view, np.ndarray)
        assert view.nbytes <= len(file)
    return True


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 4)\n",  # ends too early
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (True, 4), }\n",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 4), }\n",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 1" + b"0" * 30 + b"), }\n",
        b"{'descr': '>f4', 'fortran_order': False, 'shape': (0, " + b"1, " * 70 + b"), }\n",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': " + b"-" * 500 + b"1, }\n",
        b"{'descr': 'lambda: 0', 'fortran_order': False, 'shape': (4, 4), }\n",
        b"",
        b"\n",
    ],
)
def test_headers_that_are_none(tmp_path: Path, header: bytes) -> None:
    for version in (1, 2):
        assert not read(tmp_path / "a.npy", whole(version, header))


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::SyntaxWarning", "ignore::UserWarning"
)
@pytest.mark.timeout(0 if MINUTES else 60)
def test_spoilt_headers(tmp_path: Path) -> None:
    seed = int(os.environ.get("GOBLIN_TEST_SEED", "1" if "CI" in os.environ else time.time_ns()))
    rng, files = random.Random(seed), seeds()
    path = tmp_path / "a.npy"
    taken = sum(read(path, file) for file in files)
    assert taken >= 6
    end, rounds = time.monotonic() + 60 * MINUTES, 0
    while rounds < ROUNDS or time.monotonic() < end:
        file = spoil(rng, rng.choice(files))
        try:
            taken += read(path, file)
        except Exception:
            print(f"GOBLIN_TEST_SEED={seed}, round {rounds}: {file!r}")
            raise
        rounds += 1
    print(f"{rounds} headers, {taken} taken")
    assert taken > rounds // 100
