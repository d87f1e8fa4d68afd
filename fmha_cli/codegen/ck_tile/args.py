"""The C ABI of a CK-Tile kernel library: symbols, version, status codes, and the argument block of each family.

Every library exports ``{ARGS}_abi_table/_abi_names``, and the same for ``LAUNCH`` and ``FAULT``.
``struct.layout_faults`` uses them to prove that the three layouts equal the host's. Every library also exports three
functions, none of which throws:

- ``int fmha_ck_launch(const Args*, void* stream, FmhaCkFault*)`` queues the kernel on a ``hipStream_t``.
- ``int fmha_ck_describe(const Args*, FmhaCkLaunch*, FmhaCkFault*)`` computes the same launch without a device.
- ``int64_t fmha_ck_kernel_name(char* out, int64_t room)`` writes CK's own ``GetName()`` with a final 0 if there is room
  for it. It returns the length without the 0, or -1 if memory ran out.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar

from fmha_cli.codegen.ck_tile.args_blocks import (
    CkAppendkvArgs,
    CkBwdArgs,
    CkFwdArgs,
    CkPagedkvArgs,
    CkPrefillArgs,
    CkSplitkvArgs,
)
from fmha_cli.codegen.struct import ArgumentBlock, Int32, Int64, Pointer, Rows, UInt32
from fmha_cli.domain.kernel import Family

VERSION = 1
ARGS = "fmha_ck"
"""Prefix of the ABI table for the family's argument block."""
LAUNCH = "fmha_ck_launch"
"""Name of the launching entry, and prefix of the table for ``FmhaCkLaunch``."""
FAULT = "fmha_ck_fault"
"""Prefix of the table for ``FmhaCkFault``."""
DESCRIBE = "fmha_ck_describe"

NO_FIELD = -1
"""``FmhaCkFault.field`` if no single field is at fault."""


class CkStatus(IntEnum):
    """The return values of both entries."""

    OK = 0
    BAD_ARGUMENT = 1
    """A size below its minimum, heads not a multiple of kv_heads, or a missing pointer that this kernel needs."""
    OVERFLOW = 2
    """A value that does not fit the kernel's own type for it."""
    LAUNCH_FAILED = 3
    """HIP refused the launch; ``FmhaCkFault.hip_error`` says why."""
    NO_ROOM = 4
    """``fmha_ck_describe``: the caller's buffers are too small; ``kargs_bytes`` and ``field_count`` say how large."""
    EXCEPTION = 5
    """C++ threw; nothing was launched."""


class MaskType(IntEnum):
    """``ck_tile::GenericAttentionMaskEnum`` (``ops/fmha/block/block_masking.hpp``)."""

    NONE = 0
    TOP_LEFT = 1
    BOTTOM_RIGHT = 2
    GENERIC = 3


class KargKind(IntEnum):
    """C kind of one member of the kernel's own argument struct."""

    SIGNED = 0
    UNSIGNED = 1
    FLOAT = 2
    POINTER = 3
    BOOL = 4
    BYTES = 5
    """A struct of CK's that has no kind in this enumeration."""


class FmhaCkFault(ArgumentBlock):
    """Why an entry did not return ``OK``.

    Attributes:
        field: index of the field in the argument block, or ``NO_FIELD``.
        hip_error: ``hipError_t``.
    """

    rows: ClassVar[Rows] = (
        (Int32, "field", NO_FIELD),
        (Int32, "hip_error", 0),
    )


class FmhaCkKarg(ArgumentBlock):
    """One member of the kernel's argument struct: where it is and how to read it.

    Attributes:
        name: address of a C string with the library's lifetime; a union's member is ``drop_seed``.
        offset, bytes: its position and size in the struct.
        kind: ``KargKind``.
    """

    rows: ClassVar[Rows] = (
        (Pointer, "name", 0),
        (UInt32, "offset bytes", 0),
        (Int32, "kind", 0),
    )


class FmhaCkLaunch(ArgumentBlock):
    """A launch as the hardware gets it. The caller sets the first four fields, ``fmha_ck_describe`` sets the rest.

    Attributes:
        kargs: buffer for the kernel's arguments (one struct by value); 0 = not wanted.
        kargs_room: bytes of the buffer ``kargs``.
        fields: array of ``FmhaCkKarg``; 0 = not wanted.
        fields_room: elements of the array ``fields``.
        kargs_bytes: size of the kernel's argument struct.
        field_count: number of its members.
        lds_bytes: dynamic LDS of the launch, in addition to what the kernel declares itself (code object's metadata).
        blocks_per_cu: the occupancy that the compiler was asked for.
    """

    rows: ClassVar[Rows] = (
        (Pointer, "kargs", 0),
        (Int64, "kargs_room", 0),
        (Pointer, "fields", 0),
        (Int64, "fields_room kargs_bytes field_count", 0),
        (UInt32, "grid_x grid_y grid_z block_x block_y block_z lds_bytes blocks_per_cu", 0),
    )


_ARGS: dict[Family, type] = {
    Family.FWD: CkFwdArgs,
    Family.FWD_SPLITKV: CkSplitkvArgs,
    Family.FWD_SPLITKV_COMBINE: CkSplitkvArgs,
    Family.FWD_PAGEDKV: CkPagedkvArgs,
    Family.FWD_APPENDKV: CkAppendkvArgs,
    Family.BATCH_PREFILL: CkPrefillArgs,
    Family.BWD_DOT_DO_O: CkBwdArgs,
    Family.BWD_DQ_DK_DV: CkBwdArgs,
    Family.BWD_CONVERT_DQ: CkBwdArgs,
}


def args_of(family: Family) -> type:
    """The argument block that a family's libraries take."""
    return _ARGS[family]
