"""``CkLibrary``: one loaded kernel library whose ABI is checked against the host's and whose statuses become errors."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fmha_cli.codegen.ck_tile.args import (
    ARGS,
    DESCRIBE,
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
from fmha_cli.domain.errors import InternalError, KernelFailure
from fmha_cli.domain.kernel import KernelSpec

HIP_OUT_OF_MEMORY = 2


@dataclass(frozen=True)
class Karg:
    """One member of the kernel's own argument struct."""

    name: str
    offset: int
    size: int
    kind: KargKind


@dataclass(frozen=True)
class Described:
    """A launch as the library computes it, without launching.

    Attributes:
        lds_dynamic: bytes, in addition to the kernel's own declaration (the code object's metadata).
        kargs: the packed argument struct.
        fields: the members of ``kargs``.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    lds_dynamic: int
    kargs: bytes
    fields: tuple[Karg, ...]


class CkLibrary:
    """A kernel library in this process. Load the HIP runtime with global symbols first.

    Args:
        error_text: returns HIP's text for an error number.

    Raises:
        KernelFailure: K110, the library does not load; K111, its ABI differs from the host's.
    """

    def __init__(self, kernel: KernelSpec, path: Path, error_text: Callable[[int], str]) -> None:
        self.kernel, self.path, self._error_text = kernel, path, error_text
        self._args = args_of(kernel.family)
        try:
            self._library = ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_LOCAL)
            self._launch, self._describe = self._library[LAUNCH], self._library[DESCRIBE]
        except (OSError, AttributeError) as fault:
            raise KernelFailure(f"{kernel.name} does not load: {fault}", code="K110", where=str(path)) from fault
        self._check_layouts()
        block, fault_type = (ctypes.POINTER(ctypes_structure(t)) for t in (self._args, FmhaCkFault))
        self._launch.restype = self._describe.restype = ctypes.c_int
        self._launch.argtypes = [block, ctypes.c_void_p, fault_type]
        self._describe.argtypes = [block, ctypes.POINTER(ctypes_structure(FmhaCkLaunch)), fault_type]

    def _check_layouts(self) -> None:
        tables = ((self._args, ARGS), (FmhaCkLaunch, LAUNCH), (FmhaCkFault, FAULT))
        faults = [f for block, prefix in tables for f in layout_faults(self._library, block, prefix, VERSION)]
        if faults:
            raise KernelFailure(
                f"{self.kernel.name} was compiled for another argument block: {faults[0]}",
                code="K111",
                where=str(self.path),
                why="; ".join(faults),
                help="fmha cache prune, then build again",
            )

    def pack(self, block: Any) -> ctypes.Structure:
        """The C form of an argument block. Keep it alive while launches use it.

        Raises:
            InternalError: the block belongs to another family.
        """
        if type(block) is not self._args:
            raise InternalError(f"{self.kernel.family.value} takes {self._args.__name__}, not {type(block).__name__}")
        return pack(block)

    def launch(self, block: ctypes.Structure, stream: Any) -> None:
        """Queue the kernel.

        Raises:
            KernelFailure: K112, the library refused the arguments; H005, HIP refused the launch.
            MemoryError: out of device memory.
        """
        fault = pack(FmhaCkFault())
        self._raise_for(self._launch(ctypes.byref(block), int(stream), ctypes.byref(fault)), fault)

    def describe(self, block: ctypes.Structure) -> Described:
        """The launch that :meth:`launch` would make.

        Raises:
            KernelFailure: K112, the library refused the arguments.
        """
        out, fault = pack(FmhaCkLaunch()), pack(FmhaCkFault())
        self._raise_for(self._describe(ctypes.byref(block), ctypes.byref(out), ctypes.byref(fault)), fault)
        room = (ctypes.c_char * out.kargs_bytes)()
        fields = (ctypes_structure(FmhaCkKarg) * out.field_count)()
        out.kargs, out.kargs_room = ctypes.addressof(room), len(room)
        out.fields, out.fields_room = ctypes.addressof(fields), len(fields)
        self._raise_for(self._describe(ctypes.byref(block), ctypes.byref(out), ctypes.byref(fault)), fault)
        return Described(
            grid=(out.grid_x, out.grid_y, out.grid_z),
            block=(out.block_x, out.block_y, out.block_z),
            lds_dynamic=out.lds_bytes,
            kargs=room.raw,
            fields=tuple(
                Karg(ctypes.string_at(f.name).decode("ascii"), f.offset, f.bytes, KargKind(f.kind)) for f in fields
            ),
        )

    def _raise_for(self, status: int, fault: ctypes.Structure) -> None:
        if status == CkStatus.OK:
            return
        if status == CkStatus.LAUNCH_FAILED:
            text = self._error_text(fault.hip_error)
            if fault.hip_error == HIP_OUT_OF_MEMORY:
                raise MemoryError(f"launching {self.kernel.family.value}: {text}")
            raise KernelFailure(
                f"HIP refused to launch {self.kernel.family.value}: {text}",
                code="H005",
                where=self.kernel.name,
                help="the same launch with --dry-run shows its grid, block and arguments",
            )
        names = [name for name, _ in c_fields(self._args)]
        field = names[fault.field] if fault.field != NO_FIELD and fault.field < len(names) else None
        known = status in CkStatus._value2member_map_
        what = _WORDS.get(CkStatus(status), f"status {status}") if known else f"unknown status {status}"
        raise KernelFailure(
            f"{self.kernel.family.value} refused its arguments: {field or 'no single one'}: {what}",
            code="K112",
            where=self.kernel.name,
        )


_WORDS = {
    CkStatus.BAD_ARGUMENT: "missing, or outside what the kernel takes",
    CkStatus.OVERFLOW: "does not fit the kernel's own type for it",
    CkStatus.EXCEPTION: "C++ threw an exception",
    CkStatus.NO_ROOM: "the buffers for the description are too small",
}
