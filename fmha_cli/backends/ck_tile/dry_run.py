"""The launches of a plan, as CK's real host code describes them in a separate process."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from fmha_cli.backends.ck_tile.arguments import block_of
from fmha_cli.backends.ck_tile.auxiliary import auxiliaries_of
from fmha_cli.backends.ck_tile.library import CkLibrary, Karg
from fmha_cli.backends.ck_tile.quantisation import scales_of
from fmha_cli.backends.ck_tile.shapes import holdable
from fmha_cli.backends.ck_tile.workspaces import list_zeroed
from fmha_cli.backends.gpu.call import calls_of
from fmha_cli.backends.gpu.dry_run import ARENA, Place, auxiliary_places, places_of, pointer_text, zeroed_note
from fmha_cli.codegen.ck_tile.args import KargKind
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.features import QScale
from fmha_cli.domain.plan import Plan, Stage
from fmha_cli.domain.protocols import BoundTensor, KernelArgument, LaunchView
from fmha_cli.toolchain.rocm.metadata import KernelMetadata, kernels
from fmha_cli.toolchain.rocm.offload import code_objects

_WHOLE = {1: "b", 2: "h", 4: "i", 8: "q"}


def describe_launches(
    plan: Plan,
    artifacts: Sequence[Path],
    tensors: Mapping[str, BoundTensor],
    device: DeviceFacts,
    recorder: Path | None,
) -> tuple[LaunchView, ...]:
    """See ``fmha_cli.domain.protocols.DryRun``.

    Raises:
        KernelFailure: K110-K112.
    """
    named = ctypes.CDLL(str(recorder), mode=ctypes.RTLD_GLOBAL | os.RTLD_NOW).fmha_launched
    named.restype = ctypes.c_char_p
    calls = calls_of(
        plan,
        lambda part: scales_of(part.problem, part.main, {}),
        holdable(tensors),
        ARENA,
        lambda part, scales: auxiliary_places(auxiliaries_of(part, None)),
    )
    out = []
    paths = dict(zip(plan.stages, artifacts, strict=True))
    for call, stage in ((one, stage) for one in calls for stage in one.plan.stages):
        path, places = paths[stage], tuple(places_of(call))
        library = CkLibrary(stage.kernel, path, lambda number: f"HIP error {number}")
        block = library.pack(block_of(stage, call))
        launch = library.describe(block)
        library.launch(block, 0)  # a library may hold several kernels, and only its launch says which one it takes
        symbol = named().decode()
        out.append(
            LaunchView(
                family=stage.family.value,
                kernel=stage.kernel.name,
                symbol=symbol,
                grid=launch.grid,
                block=launch.block,
                lds_static=_metadata(path, stage, symbol).lds_bytes,
                lds_dynamic=launch.lds_dynamic,
                argument_bytes=len(launch.kargs),
                arguments=tuple(_argument(field, launch.kargs, places) for field in launch.fields),
                notes=_notes(stage, call.plan, tensors),
            )
        )
    return tuple(out)


def _metadata(path: Path, stage: Stage, symbol: str) -> KernelMetadata:
    objects = [o for o in code_objects(path.read_bytes()) if o.arch == stage.kernel.arch]
    return next(k for o in objects for k in kernels(o.data) if k.name == symbol)


def _argument(field: Karg, data: bytes, places: Sequence[Place]) -> KernelArgument:
    raw = data[field.offset : field.offset + field.size]
    return KernelArgument(
        name=field.name,
        offset=field.offset,
        bytes=field.size,
        kind=field.kind.name.lower(),
        value=value_of(field, raw, places),
    )


def value_of(field: Karg, raw: bytes, places: Sequence[Place] = ()) -> int | float | bool | str | None:
    """A member's value. For a pointer, the tensor that it points into."""
    match field.kind:
        case KargKind.FLOAT:
            return float(struct.unpack("<f" if field.size == 4 else "<d", raw)[0])
        case KargKind.BOOL:
            return bool(raw[0])
        case KargKind.BYTES:
            return raw.hex()
        case KargKind.SIGNED:
            return int(struct.unpack(f"<{_WHOLE[field.size]}", raw)[0])
        case KargKind.UNSIGNED:
            return int(struct.unpack(f"<{_WHOLE[field.size].upper()}", raw)[0])
    return pointer_text(int.from_bytes(raw, "little"), places)


def _notes(stage: Stage, plan: Plan, tensors: Mapping[str, BoundTensor]) -> tuple[str, ...]:
    out = []
    if plan.problem.qscale is QScale.TENSOR:
        out.append("the scales assume descales of 1; the actual values are in the tensors")
    names = [name for name in list_zeroed(plan) if name in tensors]
    if names and stage.kernel == plan.main:
        out.append(zeroed_note(names))
    return tuple(out)
