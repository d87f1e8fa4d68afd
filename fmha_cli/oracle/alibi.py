"""The standard ALiBi slopes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def standard_slopes(heads: int) -> npt.NDArray[np.float32]:
    """(heads,) fp32: 2^(-8h/n), h = 1..n, for n a power of two, else those of n' = 2^floor(log2 n) and then
    every second one of 2n'.

    Source: Press et al., "Train Short, Test Long" (2021), ``get_slopes`` of the authors' fairseq fork.
    """
    below = 1 << (heads.bit_length() - 1)
    first = [2.0 ** (-8 * h / below) for h in range(1, below + 1)]
    more = [2.0 ** (-8 * h / (2 * below)) for h in range(1, 2 * (heads - below), 2)]
    return np.array(first + more, dtype=np.float32)
