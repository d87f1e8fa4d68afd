"""The cuDNN backend with one number of the parameters changed: the one that a file names, whose path is in ``CHANGED_NUMBER``.

A worker finds ``changed`` here. It reads the file for each launch that it prepares, so one worker serves many changes.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

from fmha_cli.backends.cuda import launch
from fmha_cli.backends.cuda.cubin_backend import CubinBackend
from fmha_cli.backends.cudnn_oss.upstream import UPSTREAM
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.protocols import Session
from tests.support.generators.cudnn_oss.numbers import leaves

VARIABLE = "CHANGED_NUMBER"
_packed = launch.pack_params


class Changed(CubinBackend):
    def open(self, device: DeviceFacts) -> Session:
        changes = dict(leaves("sm90" if device.archs[0] == "sm_90a" else "sm100"))

        def packed(params: Any, encode: Any) -> ctypes.Structure:
            block = _packed(params, encode)
            if name := Path(os.environ[VARIABLE]).read_text("utf-8"):
                changes[name](block)
            return block

        launch.pack_params = packed
        return super().open(device)


changed = Changed(UPSTREAM, driven=True)
