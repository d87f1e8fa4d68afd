"""The C ABI of a CK-Tile kernel library: symbols, version, status codes, and the argument block of each family.

Every library exports ``{ARGS}_abi_table/_abi_names`` (and the same for ``LAUNCH`` and ``FAULT``), from which
``struct.layout_faults`` proves the three layouts equal to the host's, and three functions, none of which throws:

- ``int fmha_ck_launch(const Args*, void* stream, FmhaCkFault*)`` queues the kernel on a ``hipStream_t``;
- ``int fmha_ck_describe(const Args*, FmhaCkLaunch*, FmhaCkFault*)`` computes the same launch without a device;
- ``int64_t fmha_ck_kernel_name(char* out, int64_t room)`` writes CK's own ``GetName()`` with a final 0 where there is room
  for it, and returns its length without the 0; -1 when memory ran out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from fmha_cli.codegen.ck_tile.args_backward import CkBwdArgs
from fmha_cli.codegen.ck_tile.args_cache import CkAppendkvArgs, CkSplitkvArgs
from fmha_cli.codegen.ck_tile.args_forward import CkFwdArgs, CkPagedkvArgs, CkPrefillArgs
from fmha_cli.codegen.struct import Int32, Int64, Pointer, UInt32
from fmha_cli.kernel import Family

VERSION = 1
ARGS = "fmha_ck"
"""Prefix of the ABI table of the family's argument block."""
LAUNCH = "fmha_ck_launch"
"""The launching entry, and the prefix of the table of ``FmhaCkLaunch``."""
FAULT = "fmha_ck_fault"
"""Prefix of the table of ``FmhaCkFault``."""
DESCRIBE = "fmha_ck_describe"
KERNEL_NAME = "fmha_ck_kernel_name"

NO_FIELD = -1
"""``FmhaCkFault.field`` when no single field is to blame."""


class Status(IntEnum):
    """What both entries return."""

    OK = 0
    BAD_ARGUMENT = 1
    """A size below its minimum, heads not a multiple of kv_heads, a pointer that this kernel needs and has not."""
    OVERFLOW = 2
    """A value that does not fit the kernel's own type for it."""
    LAUNCH_FAILED = 3
    """HIP refused; ``FmhaCkFault.hip_error`` says why."""
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
    """A struct of CK's without a name here."""


@dataclass(frozen=True, kw_only=True)
class FmhaCkFault:
    """Why an entry did not return ``OK``.

    Attributes:
        field: index of the argument block's field, in its order, or ``NO_FIELD``.
        hip_error: ``hipError_t``.
    """

    field: Int32 = NO_FIELD
    hip_error: Int32 = 0


@dataclass(frozen=True, kw_only=True)
class FmhaCkKarg:
    """One member of the kernel's argument struct: where it lies and how to read it.

    Attributes:
        name: address of a C string with the library's lifetime; a union's member is ``drop_seed``.
        offset, bytes: its place in the struct.
        kind: ``KargKind``.
    """

    name: Pointer = 0
    offset: UInt32 = 0
    bytes: UInt32 = 0
    kind: Int32 = 0


@dataclass(frozen=True, kw_only=True)
class FmhaCkLaunch:
    """A launch as the hardware gets it. The caller sets the first four fields, ``fmha_ck_describe`` the rest.

    Attributes:
        kargs, kargs_room: buffer for the kernel's arguments (one struct by value), and its bytes; 0 = not wanted.
        fields, fields_room: array of ``FmhaCkKarg``, and its elements; 0 = not wanted.
        kargs_bytes, field_count: size of the struct, and its members.
        lds_bytes: dynamic LDS of the launch, beside what the kernel declares itself (see the code object's metadata).
        blocks_per_cu: the occupancy that the compiler was asked for.
    """

    kargs: Pointer = 0
    kargs_room: Int64 = 0
    fields: Pointer = 0
    fields_room: Int64 = 0
    kargs_bytes: Int64 = 0
    field_count: Int64 = 0
    grid_x: UInt32 = 0
    grid_y: UInt32 = 0
    grid_z: UInt32 = 0
    block_x: UInt32 = 0
    block_y: UInt32 = 0
    block_z: UInt32 = 0
    lds_bytes: UInt32 = 0
    blocks_per_cu: UInt32 = 0


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
    """The argument block of a family's libraries."""
    return _ARGS[family]
