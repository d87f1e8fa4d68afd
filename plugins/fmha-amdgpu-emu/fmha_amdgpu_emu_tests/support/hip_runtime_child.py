"""A separate process, ``python hip_runtime_child.py LIBRARY CODE WHAT``, that prints one JSON object.

``cases``: every case of hip_runtime_cases.py. ``absent``: hip-python's error for each function that the runtime lacks.
``modules``: the kernel ``beyond`` of each further code object named. ``services``: the kernels of hip_services.hip.
"""

from __future__ import annotations

import json
import re
import sys
import traceback
from functools import partial
from typing import Any

import numpy as np

from fmha_amdgpu_emu_tests.support.hip_device import U32, Device, HipFault
from fmha_amdgpu_emu_tests.support.hip_runtime_cases import CASES, fails

_ARGUMENT = re.compile(r"^\s+\w+ \(`~?\.?([\w.]+)`", re.MULTILINE)
_OTHER_NAMES = {"hipGetDeviceProperties": "hipGetDevicePropertiesR0600", "hipChooseDevice": "hipChooseDeviceR0600"}


def cases(device: Device) -> dict[str, str]:
    answer = {}
    for name, run in CASES.items():
        try:
            run(device)
            answer[name] = ""
        except Exception:  # noqa: BLE001 - whatever it is, this case failed and the others go on
            answer[name] = traceback.format_exc()
        device.observed()
    return answer


def _number(hip: Any, kind: str) -> Any:
    """A value for an argument that is a number or the member of an enumeration; None for every other kind."""
    known = getattr(hip, kind.rpartition(".")[2], None)
    if kind in ("int", "float"):
        return 0
    return next(iter(known)) if isinstance(known, type) and hasattr(known, "__members__") else None


def _asked(hip: Any, name: str, symbol: str) -> str:
    """What hip-python says of a function that the runtime lacks, if all that it takes are numbers: nothing is read through a pointer."""
    function = getattr(hip, name)
    head, _, kinds = (function.__doc__ or "").partition("Returns:")[0].partition("Args:")
    arguments = [_number(hip, kind) for kind in _ARGUMENT.findall(kinds)]
    if None in arguments or (not arguments and not head.startswith(f"{name}()")):
        return "not asked"
    try:
        function(*arguments)
    except RuntimeError as fault:
        return "by name" if f"undefined symbol: {symbol}'" in str(fault) else str(fault)
    return "no error"


def absent(device: Device) -> dict[str, Any]:
    """Each function of hip-python: ``present`` in the runtime, or what hip-python says of the missing one."""
    hip = device.hip
    functions = [getattr(hip, name) for name in dir(hip) if name.startswith("hip")]
    names = [f.__name__ for f in functions if callable(f) and not isinstance(f, type)]
    symbols = {name: _OTHER_NAMES.get(name, name) for name in names}
    return {
        name: "present" if hasattr(device.library, symbol) else _asked(hip, name, symbol)
        for name, symbol in symbols.items()
    }


def modules(device: Device, paths: list[str]) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    for path in paths:
        x = np.zeros(64, np.float32)
        try:
            device.module = device.call("hipModuleLoad", path.encode())
            device.launch("beyond", 1, 64, x, U32(0))
            device.call("hipModuleUnload", device.module)
            answer[path] = bool((x == 1).all())
        except HipFault as fault:
            answer[path] = fault.number
    return answer


def services(device: Device) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    for name in ("says", "allocates"):
        x = np.full(64, 7, np.int32)
        fails(719, partial(device.launch, name, 1, 64, x))
        answer[name] = [device.observed()["fault"], bool((x == 7).all())]
    return answer


def main(library: str, code: str, what: str, *more: str) -> None:
    device = Device(library, code)
    answers: dict[str, Any] = {
        "cases": cases,
        "absent": absent,
        "modules": lambda d: modules(d, list(more)),
        "services": services,
    }
    json.dump(answers[what](device), sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
