"""A separate process that calls a kernel library with the stand-in runtime and prints one JSON object.

Usage: library.py STANDIN LIBRARY, with the kernel's canonical name and a list of argument dicts as JSON on
standard input. Each result holds status, field and launch; the described bytes equal the launched ones.
"""

from __future__ import annotations

import ctypes
import json
import struct
import sys
from pathlib import Path
from typing import Any

from fmha_cli.codegen.ck_tile.algorithm import CkAlgorithm
from fmha_cli.codegen.ck_tile.args import (
    ARGS,
    FAULT,
    LAUNCH,
    NO_FIELD,
    VERSION,
    CkStatus,
    FmhaCkFault,
    FmhaCkKarg,
    FmhaCkLaunch,
    KargKind,
    args_of,
)
from fmha_cli.codegen.struct import c_fields, ctypes_structure, layout_faults, pack
from fmha_cli.domain.kernel import parse_kernel
from tests.support.fakes.hip_recorder.recording import PlayedDevice, Recording

FORMATS = {KargKind.SIGNED: "bhiq", KargKind.UNSIGNED: "BHIQ", KargKind.BOOL: "?", KargKind.POINTER: "...Q"}


def value_of(raw: bytes, kind: KargKind) -> Any:
    if kind is KargKind.FLOAT:
        return struct.unpack("<f", raw)[0]
    if kind is KargKind.BOOL:
        return bool(raw[0])
    return int.from_bytes(raw, "little", signed=kind is KargKind.SIGNED)


class Library:
    def __init__(self, recording: Recording, path: Path, name: str) -> None:
        kernel = parse_kernel(name, {"ck_tile": CkAlgorithm})
        self.recording, self.block = recording, args_of(kernel.family)
        self.names = [field for field, _ in c_fields(self.block)]
        self.library = ctypes.CDLL(str(path))
        tables = ((self.block, ARGS), (FmhaCkLaunch, LAUNCH), (FmhaCkFault, FAULT))
        self.faults = [f for block, prefix in tables for f in layout_faults(self.library, block, prefix, VERSION)]
        recording.play(PlayedDevice.of_arch(kernel.arch))
        recording.describe(path, kernel.arch)

    def name(self) -> str:
        function = self.library.fmha_ck_kernel_name
        function.restype, function.argtypes = ctypes.c_int64, [ctypes.c_char_p, ctypes.c_int64]
        room = ctypes.create_string_buffer(function(None, 0) + 1)
        tight = ctypes.create_string_buffer(b"untouched")
        assert function(tight, 3) == len(room) - 1
        assert tight.value == b"untouched"
        function(room, len(room))
        return room.value.decode()

    def call(self, values: dict[str, Any]) -> dict[str, Any]:
        args, fault = pack(self.block(**values)), pack(FmhaCkFault())
        out = pack(FmhaCkLaunch())
        reference = ctypes.byref
        status = self.library.fmha_ck_describe(reference(args), reference(out), reference(fault))
        answer: dict[str, Any] = {"status": CkStatus(status).name, "field": None}
        if fault.field != NO_FIELD:
            answer["field"] = self.names[fault.field]
        self.recording.forget()
        launched = self.library.fmha_ck_launch(reference(args), None, reference(fault))
        assert launched == status
        if status != CkStatus.OK:
            assert self.recording.launches == ()
            return answer
        assert self.library.fmha_ck_describe(None, reference(out), None) == CkStatus.BAD_ARGUMENT
        assert self.library.fmha_ck_describe(reference(args), None, None) == CkStatus.BAD_ARGUMENT
        assert self.library.fmha_ck_launch(None, None, None) == CkStatus.BAD_ARGUMENT
        small = pack(FmhaCkLaunch(kargs=ctypes.addressof(out), kargs_room=4))
        assert self.library.fmha_ck_describe(reference(args), reference(small), reference(fault)) == CkStatus.NO_ROOM
        room = (ctypes.c_char * out.kargs_bytes)(*[b"\xaa"] * out.kargs_bytes)
        fields = (ctypes_structure(FmhaCkKarg) * out.field_count)()
        out.kargs, out.kargs_room = ctypes.addressof(room), len(room)
        out.fields, out.fields_room = ctypes.addressof(fields), len(fields)
        assert self.library.fmha_ck_describe(reference(args), reference(out), reference(fault)) == CkStatus.OK
        (launch,) = self.recording.launches
        rows = [(ctypes.string_at(f.name).decode(), f.offset, f.bytes, KargKind(f.kind)) for f in fields]
        covered = {at for _, offset, size, _ in rows for at in range(offset, offset + size)}
        assert len(covered) == sum(size for _, _, size, _ in rows)
        pairs = enumerate(zip(room.raw, launch.arguments, strict=True))
        return {
            **answer,
            "symbol": launch.kernel,
            "grid": [out.grid_x, out.grid_y, out.grid_z],
            "block": [out.block_x, out.block_y, out.block_z],
            "launched": [list(launch.grid), list(launch.block), launch.dynamic_lds],
            "bytes": len(launch.arguments),
            "covered": len(covered),
            "differing": [at for at, (one, other) in pairs if at in covered and one != other],
            "members": {name: value_of(room.raw[at : at + size], kind) for name, at, size, kind in rows},
            "kinds": {name: kind.name for name, _, _, kind in rows},
        }

    def refused(self, values: dict[str, Any], error: int) -> list[Any]:
        """The status and HIP error of a launch that HIP refuses, and of the next launch."""
        args, fault = pack(self.block(**values)), pack(FmhaCkFault())
        out = []
        for number in (error, 0):
            self.recording.library.fmha_standin_refuse(number)
            status = self.library.fmha_ck_launch(ctypes.byref(args), None, ctypes.byref(fault))
            out.append([CkStatus(status).name, fault.hip_error])
        return out


def main(standin: str, path: str) -> None:
    wanted = json.load(sys.stdin)
    recording = Recording(Path(standin), PlayedDevice.of_arch("gfx942"))
    library = Library(recording, Path(path), wanted["kernel"])
    answers = [library.call(values) for values in wanted["calls"]]
    good = next(values for values, answer in zip(wanted["calls"], answers, strict=True) if answer["status"] == "OK")
    document = {
        "layout": library.faults,
        "name": library.name(),
        "calls": answers,
        "refused": library.refused(good, 719),
    }
    print(json.dumps(document))


if __name__ == "__main__":
    main(*sys.argv[1:])
