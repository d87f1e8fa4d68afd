"""A separate process, ``python hip_runtime_child.py LIBRARY CODE WHAT``, that prints one JSON object.

``cases``: every case of hip_runtime_cases.py. ``absent``: hip-python's error for each function that the runtime lacks.
``modules``: the kernel ``beyond`` of each further code object named. ``services``: the kernels of hip_services.hip.
"""

from __future__ import annotations

import json
import os
import re
import sys
import traceback
from functools import partial
from typing import Any

import numpy as np
from hip_device import U32, Device, HipFault
from hip_runtime_cases import CASES, fails

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


def _example(hip: Any, kind: str) -> Any:
    """A value that hip-python accepts for an argument of this type."""
    known = getattr(hip, kind.rpartition(".")[2], None)
    if kind in ("int", "float"):
        return 0
    if isinstance(known, type) and hasattr(known, "__members__"):
        return next(iter(known))
    return known() if isinstance(known, type) and not kind.startswith("hip.") and "_t" not in kind[-2:] else None


def _asked(hip: Any, name: str, symbol: str) -> str:
    function = getattr(hip, name)
    said = "nothing"
    head = (function.__doc__ or "").partition("Returns:")[0].partition("Args:")[2]
    documented = [_example(hip, kind) for kind in _ARGUMENT.findall(head)]
    tries = [documented] if documented else []
    tries += [[fill] * count for count in range(14) for fill in (0, None, b"x")]
    for arguments in tries:
        try:
            function(*arguments)
        except RuntimeError as fault:
            if f"undefined symbol: {symbol}'" in str(fault):
                return "by name"
            said = str(fault)
        except Exception as fault:  # noqa: BLE001 - hip-python refuses such arguments before it looks for the symbol
            said = repr(fault)
    return said


def absent(device: Device) -> dict[str, Any]:
    """hip-python's error for each missing function. Each is called in a fork, since some arguments crash hip-python."""
    hip, answer = device.hip, {}
    names = [
        n
        for n in dir(hip)
        if n.startswith("hip") and callable(getattr(hip, n)) and not isinstance(getattr(hip, n), type)
    ]
    for name in names:
        symbol = _OTHER_NAMES.get(name, name)
        if hasattr(device.library, symbol):
            answer[name] = "present"
            continue
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            os.write(writer, _asked(hip, name, symbol).encode()[:4000])
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as stream:
            answer[name] = stream.read() or "crashed"
        os.waitpid(child, 0)
    return answer


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
