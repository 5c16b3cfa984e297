# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Draws where one photograph resembles patches of the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from photo_similarity_lib.patches import SIDE, Grid

_WIDTH, _MARGIN, _GAP = 1800, 40, 24
_BACKGROUND, _TEXT, _FAINT = (14, 17, 22), (236, 239, 244), (150, 158, 170)
_COLOURS = (
    (255, 196, 61),
    (239, 71, 111),
    (6, 214, 160),
    (17, 138, 240),
    (190, 130, 255),
    (255, 140, 66),
)
# Similarity -1, -0.5, 0, 0.5, 1: opposite is blue, unrelated dark, alike bright.
_SCALE = np.array(
    [(96, 205, 255), (25, 88, 150), (12, 14, 22), (196, 62, 38), (255, 236, 150)], np.float64
)
_THUMB = 104


@dataclass(frozen=True)
class Match:
    """One chosen patch of the first photograph and the second photograph's similarity to it."""

    corner: tuple[int, int]  #: y, x in the first photograph
    best: tuple[int, int]  #: y, x of the most similar patch in the second
    similarity: npt.NDArray[np.float32]  #: shape (grid.rows, grid.columns)

    @property
    def peak(self) -> float:
        """The similarity of the best match."""
        return float(self.similarity.max())


def draw(
    photos: Sequence[npt.NDArray[np.uint8]],
    names: Sequence[str],
    matches: Sequence[Match],
    grid: Grid,
    subtitle: str,
    path: Path,
) -> None:
    """Writes the picture; `grid` is the second photograph's, one to six matches are drawn."""
    matches = matches[: len(_COLOURS)]
    big = (_WIDTH - 2 * _MARGIN - _GAP) // 2
    big_height = big * photos[0].shape[0] // photos[0].shape[1]
    panel = (_WIDTH - 2 * _MARGIN - 2 * _GAP) // 3
    wide = panel - _THUMB - 12
    tall = wide * photos[1].shape[0] // photos[1].shape[1]
    top = 138
    below = top + big_height + 84
    rows = -(-len(matches) // 3)
    canvas = Image.new("RGB", (_WIDTH, below + rows * (tall + 58) + 96), _BACKGROUND)
    pen = ImageDraw.Draw(canvas)
    pen.text((_MARGIN, 30), "Where does one photograph resemble another?", _TEXT, _font(42))
    pen.text((_MARGIN, 88), subtitle, _FAINT, _font(21))

    corners = ([match.corner for match in matches], [match.best for match in matches])
    captions = ("six of its patches", "the patch most like each of them")
    for side in range(2):
        left = _MARGIN + side * (big + _GAP)
        photo = Image.fromarray(photos[side]).resize((big, big_height), Image.Resampling.LANCZOS)
        canvas.paste(photo, (left, top))
        for number, (y, x) in enumerate(corners[side]):
            _mark(pen, (left, top), big / photos[side].shape[1], (y, x), number)
        text = f"{names[side]}: {captions[side]}"
        pen.text((left, top + big_height + 10), text, _TEXT, _font(22))

    for number, match in enumerate(matches):
        left = _MARGIN + number % 3 * (panel + _GAP)
        high = below + number // 3 * (tall + 58)
        _panel(canvas, pen, (left, high), (wide, tall), match, photos, grid, number)
    _bar(canvas, pen, canvas.height - 78)
    canvas.save(path)


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def coloured(similarity: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """Similarities in -1 to 1 as colours; shape (…, 3)."""
    at = np.clip(similarity, -1, 1)
    stops = np.linspace(-1, 1, len(_SCALE))
    parts = [np.interp(at, stops, _SCALE[:, part]) for part in range(3)]
    return np.asarray(np.rint(np.stack(parts, axis=-1)), np.uint8)


def _mark(
    pen: ImageDraw.ImageDraw,
    origin: tuple[int, int],
    scale: float,
    corner: tuple[int, int],
    number: int,
) -> None:
    """A numbered square around a patch."""
    y, x = corner
    left, top = origin[0] + round(x * scale), origin[1] + round(y * scale)
    size = round(SIDE * scale)
    pen.rectangle((left - 4, top - 4, left + size + 3, top + size + 3), None, (0, 0, 0), 2)
    pen.rectangle((left - 2, top - 2, left + size + 1, top + size + 1), None, _COLOURS[number], 3)
    # Beside the square, on the side where there is room.
    at = left + size + 18 if x < 560 else left - 18
    pen.ellipse((at - 13, top - 13, at + 13, top + 13), _COLOURS[number], (0, 0, 0))
    pen.text((at, top), str(number + 1), (0, 0, 0), _font(19), anchor="mm")


def _panel(
    canvas: Image.Image,
    pen: ImageDraw.ImageDraw,
    origin: tuple[int, int],
    size: tuple[int, int],
    match: Match,
    photos: Sequence[npt.NDArray[np.uint8]],
    grid: Grid,
    number: int,
) -> None:
    """The patch, its best match, and the map."""
    left, top = origin
    colour = _COLOURS[number]
    pen.ellipse((left, top, left + 28, top + 28), colour)
    pen.text((left + 14, top + 14), str(number + 1), (0, 0, 0), _font(20), anchor="mm")
    pen.text((left + 38, top + 2), f"best match {match.peak:+.2f}", _TEXT, _font(21))
    high = top + 36
    for photo, (y, x), place, label in (
        (photos[0], match.corner, high, "patch"),
        (photos[1], match.best, high + size[1] - _THUMB - 22, "best match"),
    ):
        piece = Image.fromarray(photo[y : y + SIDE, x : x + SIDE])
        canvas.paste(piece.resize((_THUMB, _THUMB), Image.Resampling.NEAREST), (left, place))
        pen.rectangle((left, place, left + _THUMB - 1, place + _THUMB - 1), None, colour, 3)
        pen.text((left, place + _THUMB + 3), label, _FAINT, _font(17))
    canvas.paste(_map(match.similarity, photos[1].shape, grid, size), (left + _THUMB + 12, high))
    scale = size[0] / photos[1].shape[1]
    y, x = match.best
    corner = (left + _THUMB + 12 + round(x * scale), high + round(y * scale))
    end = (corner[0] + round(SIDE * scale), corner[1] + round(SIDE * scale))
    pen.rectangle((corner[0] - 2, corner[1] - 2, end[0] + 2, end[1] + 2), None, colour, 2)


def _map(
    similarity: npt.NDArray[np.float32],
    shape: tuple[int, ...],
    grid: Grid,
    size: tuple[int, int],
) -> Image.Image:
    """Each patch's similarity at the patch's middle; the rim, where no middle lies, repeats it."""
    scale = size[0] / shape[1]
    middle = (SIDE - 1) / 2
    y = (np.arange(size[1]) / scale - middle) / grid.down
    x = (np.arange(size[0]) / scale - middle) / grid.across
    return Image.fromarray(coloured(_interpolated(similarity, y, x)))


def _interpolated(
    values: npt.NDArray[np.float32], y: npt.NDArray[np.float64], x: npt.NDArray[np.float64]
) -> npt.NDArray[np.float32]:
    """Linear between grid points."""
    columns = np.arange(values.shape[1])
    across = np.stack([np.interp(x, columns, row) for row in values])
    low = np.clip(np.floor(y).astype(int), 0, len(values) - 1)
    high = np.minimum(low + 1, len(values) - 1)
    part = np.clip(y - low, 0, 1)[:, None]
    return np.asarray(across[low] * (1 - part) + across[high] * part, np.float32)


def _bar(canvas: Image.Image, pen: ImageDraw.ImageDraw, top: int) -> None:
    """The colour bar."""
    width, height, left = 760, 20, (_WIDTH - 760) // 2
    ramp = coloured(np.linspace(-1, 1, width, dtype=np.float32))
    canvas.paste(Image.fromarray(np.repeat(ramp[None], height, axis=0)), (left, top))
    pen.rectangle((left, top, left + width, top + height), None, _FAINT)
    for value in (-1.0, -0.5, 0.0, 0.5, 1.0):
        at = left + round((value + 1) / 2 * width)
        pen.line((at, top + height, at, top + height + 6), _FAINT)
        pen.text((at, top + height + 20), f"{value:g}", _TEXT, _font(18), anchor="mm")
    pen.text((left - 16, top + 10), "the opposite", _FAINT, _font(19), anchor="rm")
    pen.text((left + width + 16, top + 10), "the same", _FAINT, _font(19), anchor="lm")
