"""The two byte patterns that mean "never written", and their meaning as elements.

Both are NaN in every float type that a kernel writes (fp32, fp16, bf16, fp8_e4m3fn, fp8_e5m2), except in the fp8 types of
the kind fnuz, where they are the largest numbers. As an element of 16 or 32 bits neither is the NaN that arithmetic makes
(0x7fc00000, 0xffc00000 and their short forms; on NVIDIA GPUs 0x7fffffff and 0x7fff), so a NaN that a kernel computed
differs from memory that it never wrote. Guards hold one pattern and outputs the other, and they swap from run to run. A kernel that copies a guard
over another guard is therefore caught in the second run at the latest.
"""

from __future__ import annotations

from enum import Enum

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

_UNSIGNED: dict[int, type[np.unsignedinteger]] = {1: np.uint8, 2: np.uint16, 4: np.uint32}


class Pattern(Enum):
    """A 16-bit word that fills memory."""

    FFFF = 0xFFFF
    FF7F = 0x7FFF
    """In memory (little-endian) the bytes ff 7f."""

    @property
    def other(self) -> Pattern:
        return Pattern.FF7F if self is Pattern.FFFF else Pattern.FFFF

    def element(self, itemsize: int) -> int:
        """The pattern as one element; a byte takes the word's high byte, which is NaN in both fp8 types. 0x7fff gives
        way to the NaN next to it.
        """
        word = self.value - (self is Pattern.FF7F)
        return {1: word >> 8, 2: word, 4: word << 16 | word}[itemsize]

    def bytes(self, start: int, count: int) -> Bytes:
        """``count`` bytes of the pattern as it is in memory from byte offset ``start`` on."""
        words = np.full(count // 2 + 2, self.value, dtype="<u2").view(np.uint8)
        return words[start % 2 : start % 2 + count]


def as_words(array: npt.NDArray[np.generic]) -> npt.NDArray[np.unsignedinteger]:
    """The elements as unsigned integers of the same size; a view, any strides."""
    return array.view(_UNSIGNED[array.dtype.itemsize])


def fill_words(array: npt.NDArray[np.generic], pattern: Pattern) -> None:
    """Set every element to the pattern."""
    as_words(array)[...] = pattern.element(array.dtype.itemsize)


def holds(array: npt.NDArray[np.generic], pattern: Pattern) -> npt.NDArray[np.bool_]:
    """Where elements still hold the pattern."""
    same: npt.NDArray[np.bool_] = as_words(array) == pattern.element(array.dtype.itemsize)
    return same
