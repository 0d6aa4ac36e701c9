"""The loss of a training and a few of its digits: as a PNG file, and as text for a terminal."""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opserve_client.demo.network import Array

Pixels = NDArray[np.uint8]
"""Rows, columns, and red, green, blue."""
Color = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Guess:
    """A test digit: its image (8, 8) in 0..1, the digit, and the network's guess."""

    image: Array
    digit: int
    guess: int

    @property
    def is_right(self) -> bool:
        """Whether the guess is the digit."""
        return self.digit == self.guess


_WHITE, _GREY, _INK, _BLUE = (255, 255, 255), (221, 225, 230), (70, 78, 88), (30, 100, 200)
_GREEN, _RED = (20, 130, 70), (200, 40, 40)
_HEIGHT, _WIDTH = 400, 940
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 580, 44, 344  # the area of the curve
_DIGITS_LEFT, _DIGITS_TOP, _CELL, _GAP, _ACROSS = 630, 44, 64, 12, 4
_SCALE = 3  # pixels of a dot of the glyphs
_GLYPHS = {
    "0": "111101101101111",
    "1": "010110010010111",
    "2": "111001111100111",
    "3": "111001111001111",
    "4": "101101111001001",
    "5": "111100111001111",
    "6": "111100111101111",
    "7": "111001010010010",
    "8": "111101111101111",
    "9": "111101111001111",
    ".": "000000000000010",
    " ": "000000000000000",
    "l": "110010010010111",
    "o": "000111101101111",
    "s": "011100010001110",
    "t": "010111010010011",
    "e": "111101111100111",
    "p": "110101110100100",
}
"""Characters of 3 x 5 dots, row by row."""
_BRAILLE = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of the dots of a character, by row and column."""
_SHADES = " ░▒▓█"


def picture(losses: Sequence[float], guesses: Sequence[Guess]) -> bytes:
    """Returns a PNG file: the loss by step on the left, digits and guesses on the right."""
    pixels: Pixels = np.full((_HEIGHT, _WIDTH, 3), _WHITE, np.uint8)
    _draw_curve(pixels, losses)
    for place, guess in enumerate(guesses):
        row, column = divmod(place, _ACROSS)
        top = _DIGITS_TOP + row * (_CELL + 3 * _GAP)
        left = _DIGITS_LEFT + column * (_CELL + _GAP)
        shades = np.repeat(np.repeat(guess.image, _CELL // 8, axis=0), _CELL // 8, axis=1)
        pixels[top : top + _CELL, left : left + _CELL] = (255 * (1 - shades[..., None])).round()
        color = _GREEN if guess.is_right else _RED
        _write(pixels, str(guess.guess), (top + _CELL + 6, left + _CELL // 2 - 5), color)
    return _png(pixels)


def lines_of_curve(losses: Sequence[float], *, columns: int = 60, rows: int = 8) -> list[str]:
    """Returns the loss by step as lines of Braille characters, 2 x 4 dots each."""
    dots = np.zeros((4 * rows, 2 * columns), bool)
    heights = np.interp(np.linspace(0, 1, 2 * columns), np.linspace(0, 1, len(losses)), losses)
    top = max(float(heights.max()), 1e-9)
    levels = np.round((1 - heights / top) * (4 * rows - 1)).astype(int)
    for column, level in enumerate(levels):
        before = levels[max(column - 1, 0)]
        dots[min(level, before) : max(level, before) + 1, column] = True
    labels = {0: f"{top:.2f}", rows - 1: "0.00"}
    return [
        f"{labels.get(row, ''):>5} ┤"
        + "".join(
            _character(dots[4 * row : 4 * row + 4, 2 * column : 2 * column + 2])
            for column in range(columns)
        )
        for row in range(rows)
    ]


def lines_of_digits(guesses: Sequence[Guess]) -> list[str]:
    """Returns digits side by side in shades, and the guess under each."""
    images = [_shaded(guess.image) for guess in guesses]
    rows = ["  ".join(parts) for parts in zip(*images, strict=True)]
    words = (
        f"{guess.guess}" if guess.is_right else f"{guess.guess}, not {guess.digit}"
        for guess in guesses
    )
    return [*rows, "  ".join(f"{word:^16}" for word in words)]


def _draw_curve(pixels: Pixels, losses: Sequence[float]) -> None:
    top = max(losses)
    step = 0.5 if top > 1 else 0.1
    for tick in range(int(top / step) + 1):
        row = _BOTTOM - round((_BOTTOM - _TOP) * tick * step / top)
        pixels[row, _LEFT:_RIGHT] = _GREY if tick else _INK
        _write(pixels, f"{tick * step:.1f}", (row - 7, _LEFT - 48), _INK)
    for quarter in range(5):
        column = _LEFT + (_RIGHT - _LEFT) * quarter // 4
        label = str(len(losses) * quarter // 4)
        _write(pixels, label, (_BOTTOM + 10, column - 6 * len(label)), _INK)
    _write(pixels, "loss", (_TOP - 30, _LEFT), _INK)
    _write(pixels, "steps", (_BOTTOM + 34, _RIGHT - 60), _INK)
    places = np.linspace(0, 1, _RIGHT - _LEFT)
    heights = np.interp(places, np.linspace(0, 1, len(losses)), losses) / top
    rows = np.round(_BOTTOM - heights * (_BOTTOM - _TOP)).astype(int)
    for column, row in enumerate(rows):
        before = rows[max(column - 1, 0)]
        pixels[min(row, before) - 1 : max(row, before) + 1, _LEFT + column] = _BLUE


def _write(pixels: Pixels, text: str, place: tuple[int, int], color: Color) -> None:
    top, left = place
    for number, character in enumerate(text):
        dots = np.array(list(_GLYPHS[character]), int).reshape(5, 3).astype(bool)
        glyph = np.repeat(np.repeat(dots, _SCALE, axis=0), _SCALE, axis=1)
        start = left + number * 4 * _SCALE
        pixels[top : top + 5 * _SCALE, start : start + 3 * _SCALE][glyph] = color


def _character(dots: NDArray[np.bool_]) -> str:
    bits = sum(
        _BRAILLE[row][column] for row in range(4) for column in range(2) if dots[row, column]
    )
    return chr(0x2800 + bits)


def _shaded(image: Array) -> list[str]:
    """A line for each row of an image, two characters for each pixel."""
    levels = np.round(np.clip(image, 0, 1) * (len(_SHADES) - 1)).astype(int)
    return ["".join(_SHADES[level] * 2 for level in row) for row in levels]


def _png(pixels: Pixels) -> bytes:
    """Returns the pixels as a PNG file: 8 bits of red, green and blue, rows without filters."""
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks)


def _chunk(name: bytes, content: bytes) -> bytes:
    check = zlib.crc32(name + content)
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", check)
