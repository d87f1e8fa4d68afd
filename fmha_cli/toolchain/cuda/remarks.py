"""The remarks of NVIDIA's assembler about the speed of matrix code: the lines of a build log with a number C75xx.

Source: the output of ptxas 13.0.88, for example ``ptxas info : (C7510) Potential Performance Loss: wgmma.mma_async
instructions are serialized due to ...``. It prints remarks even without ``-v``, and NVRTC passes them on.
"""

from __future__ import annotations

import re

_REMARK = re.compile(r"\((C75\d\d)\)\s+(\S.*)")
_LINE = re.compile(r" in around line \d+")


def remarks_of(log: str) -> tuple[str, ...]:
    """The distinct remarks of a build log in order, such as ``C7510: Potential Performance Loss: ...``.

    Line numbers of the PTX are left out, so a remark about several lines appears once.
    """
    found = (f"{match[1]}: {_LINE.sub('', match[2]).strip()}" for match in _REMARK.finditer(log))
    return tuple(dict.fromkeys(found))
