"""``MemEfficientSituation``: a problem on a device, in the words of the kernels' parameters.

Source: ``attention_forward_generic.cu`` and ``attention_backward_generic.cu`` in ``xformers/csrc/attention/cuda/fmha`` of
xformers 0.0.28.post3; ``xformers/ops/fmha/cutlass.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

from fmha_cli.backends.cuda.sequences import Sequences
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.mask import Align

NO_MASK, TOP_LEFT, BOTTOM_RIGHT = 0, 1, 2
"""``CustomMaskType``."""


@dataclass(frozen=True)
class MemEfficientSituation(Sequences):
    """One problem on one device."""

    device: DeviceFacts

    @property
    def mask_type(self) -> int:
        """``custom_mask_type``."""
        mask = self.problem.mask
        return NO_MASK if mask.right is None else TOP_LEFT if mask.align is Align.TOP_LEFT else BOTTOM_RIGHT

    @property
    def window(self) -> int:
        """``window_size``: the keys that a row sees, its diagonal included; 0 where the window hides no key."""
        mask = self.problem.mask
        hides = mask.left is not None and any(q - 1 + mask.delta(q, k) > mask.left for q, k in self.lengths)
        return (mask.left or 0) + 1 if hides else 0
