# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Photographs into matrices of normalised patches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

SIDE = 16  #: of a patch, in pixels
# Below this norm, in grey levels, a patch is one colour: what is left of it is rounding.
_FLAT = 1.0
# A block of patches that is normalised at a time, to need little memory.
_BLOCK = 4096


@dataclass(frozen=True)
class Grid:
    """Where the patches of a photograph lie; patch i is at row i // columns, column i % columns."""

    rows: int
    columns: int
    down: int  #: pixels from one row to the next
    across: int

    @property
    def count(self) -> int:
        """How many patches."""
        return self.rows * self.columns

    def corner(self, index: int) -> tuple[int, int]:
        """Upper left pixel of a patch: y, x."""
        return index // self.columns * self.down, index % self.columns * self.across


def grid_of(shape: tuple[int, ...], down: int, across: int) -> Grid:
    """The grid with these strides on a photograph of shape (height, width, 3)."""
    return Grid((shape[0] - SIDE) // down + 1, (shape[1] - SIDE) // across + 1, down, across)


def grid_within(shape: tuple[int, ...], most: int) -> Grid:
    """The finest grid, with strides about as 3 to 4, that has at most `most` patches."""
    for across in range(1, max(shape)):
        for down in (max(across * 3 // 4, 1), across):
            grid = grid_of(shape, down, across)
            if grid.count <= most:
                return grid
    raise ValueError(f"--patches {most} leaves no patch; ask for at least 1")


def cut(photo: npt.NDArray[np.uint8], grid: Grid) -> npt.NDArray[np.float32]:
    """All patches of a photograph, each of zero mean and unit norm.

    A dot product of two such rows is their correlation, -1 to 1. Patches of one colour are zeros.

    Returns
    -------
    ndarray of float32, shape (grid.count, 768)
    """
    windows = np.lib.stride_tricks.sliding_window_view(photo, (SIDE, SIDE, photo.shape[2]))
    windows = windows[:: grid.down, :: grid.across, 0]
    rows = windows.reshape(grid.count, -1)
    result = np.empty(rows.shape, np.float32)
    for start in range(0, grid.count, _BLOCK):
        block = rows[start : start + _BLOCK].astype(np.float64)
        block -= block.mean(axis=1, keepdims=True)
        norms = np.linalg.norm(block, axis=1, keepdims=True)
        result[start : start + _BLOCK] = np.where(
            norms < _FLAT, 0, block / np.maximum(norms, _FLAT)
        )
    return result


def contrast(photo: npt.NDArray[np.uint8], grid: Grid) -> npt.NDArray[np.float32]:
    """Standard deviation of the grey levels in each patch."""
    grey = photo.astype(np.float32).mean(axis=2)
    windows = np.lib.stride_tricks.sliding_window_view(grey, (SIDE, SIDE))
    windows = windows[:: grid.down, :: grid.across]
    return np.asarray(windows.std(axis=(2, 3)).reshape(-1), np.float32)


def choose(
    patches: npt.NDArray[np.float32],
    grids: tuple[Grid, Grid],
    contrasts: tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]],
    best: tuple[npt.NDArray[np.intp], npt.NDArray[np.float32]],
    count: int,
) -> list[int]:
    """Patches of the first photograph worth showing.

    They and their best matches are rich in contrast, unlike each other, and apart.

    Parameters
    ----------
    patches : ndarray, shape (grids[0].count, 768)
        Of the first photograph.
    contrasts : two ndarrays
        Of both photographs' patches.
    best : two ndarrays, shape (grids[0].count,)
        For each patch the index of its best match in the second photograph, and its similarity.
    """
    rich = [values >= np.quantile(values, 0.6) for values in contrasts]
    score = np.where(rich[0], best[1], best[1] - 3)
    score = np.where(rich[1][best[0]], score, score - 3)
    places = (_corners(grids[0]), _corners(grids[1])[best[0]])
    chosen: list[int] = []
    # Asks for less where a coarse grid has too few such patches.
    for likeness, apart in ((0.45, 50.0), (0.8, 30.0), (2.0, 0.0)):
        free = score.copy()
        for index in chosen:
            free[_near(patches, places, index, likeness, apart)] = -np.inf
        while len(chosen) < min(count, len(score)):
            index = int(np.argmax(free))
            # The last pass takes anything.
            if free[index] < (-1.0 if apart else -10.0):
                break
            chosen.append(index)
            free[_near(patches, places, index, likeness, apart)] = -np.inf
    return chosen


def _corners(grid: Grid) -> npt.NDArray[np.int64]:
    cells = np.stack(np.divmod(np.arange(grid.count), grid.columns), axis=1)
    return np.asarray(cells * (grid.down, grid.across), np.int64)


def _near(
    patches: npt.NDArray[np.float32],
    places: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]],
    index: int,
    likeness: float,
    apart: float,
) -> npt.NDArray[np.bool_]:
    """Which patches are too like this one, or too close, they or their matches; always itself."""
    near = np.abs(patches @ patches[index]) > likeness
    for place in places:
        near |= np.linalg.norm(place - place[index], axis=1) < apart
    near[index] = True
    return np.asarray(near, np.bool_)
