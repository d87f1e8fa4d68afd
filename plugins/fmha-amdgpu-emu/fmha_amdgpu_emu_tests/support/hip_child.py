"""A separate process, ``python hip_child.py LIBRARY CODE SEED [CASE ...]``, that prints one JSON object.

The emulator has the real runtime's name, so the test process must not load it.
"""

from __future__ import annotations

import json
import sys
import time
import traceback

import numpy as np

from fmha_amdgpu_emu_tests.support.hip_cases import CASES
from fmha_amdgpu_emu_tests.support.hip_device import Device


def main(library: str, code: str, seed: str, *wanted: str) -> None:
    device = Device(library, code)
    answer = {}
    for name, run in CASES.items():
        if wanted and name not in wanted:
            continue
        started = time.perf_counter()
        try:
            run(device, np.random.default_rng(int(seed)))
            fault = ""
        except Exception:  # noqa: BLE001 - whatever it is, this case failed and the others go on
            fault = traceback.format_exc()
        observed = device.observed()
        answer[name] = {"fault": fault, "observed": observed, "seconds": time.perf_counter() - started}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
