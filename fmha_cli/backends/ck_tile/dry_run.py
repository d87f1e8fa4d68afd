"""The launches of a plan: CK's real host code runs against the recording stand-in, in a separate process."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from fmha_cli.backends.ck_tile.arguments import block_of
from fmha_cli.backends.ck_tile.auxiliary import auxiliaries_of
from fmha_cli.backends.ck_tile.library import CkLibrary, Described, Karg
from fmha_cli.backends.ck_tile.quantisation import scales_of
from fmha_cli.backends.ck_tile.shapes import holdable
from fmha_cli.backends.ck_tile.standin.recording import PlayedDevice, RecordedLaunch, Recording
from fmha_cli.backends.ck_tile.workspaces import list_zeroed
from fmha_cli.backends.gpu.call import calls_of
from fmha_cli.backends.gpu.dry_run import ARENA, Place, auxiliary_places, places_of, pointer_text, zeroed_note
from fmha_cli.codegen.ck_tile.args import KargKind
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import KernelFailure
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
        KernelFailure: K110-K112; K114, the host code launches something other than what it describes.
    """
    assert recorder is not None
    recording = Recording(recorder, PlayedDevice.of_arch(plan.main.arch))
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
        library = CkLibrary(stage.kernel, path, lambda number: f"HIP error {number} ({recording.complaint})")
        recording.describe(path, stage.kernel.arch)
        block = library.pack(block_of(stage, call))
        recording.forget()
        library.launch(block, 0)
        launch = _only(recording.launches, stage)
        described = library.describe(block)
        _compare(launch, described, stage)
        out.append(
            LaunchView(
                family=stage.family.value,
                kernel=stage.kernel.name,
                symbol=launch.kernel,
                grid=launch.grid,
                block=launch.block,
                lds_static=_metadata(path, stage, launch.kernel).lds_bytes,
                lds_dynamic=launch.dynamic_lds,
                argument_bytes=len(launch.arguments),
                arguments=tuple(_argument(field, launch.arguments, places) for field in described.fields),
                notes=_notes(stage, call.plan, tensors),
            )
        )
    return tuple(out)


def _only(launches: Sequence[RecordedLaunch], stage: Stage) -> RecordedLaunch:
    if len(launches) != 1:
        raise KernelFailure(
            f"{stage.family.value}: the host code made {len(launches)} launches, not one",
            code="K114",
            where=stage.kernel.name,
        )
    return launches[0]


def _compare(launch: RecordedLaunch, described: Described, stage: Stage) -> None:
    """Check that the launch is the one that the library describes. Padding between members is not compared."""
    same = (launch.grid, launch.block, launch.dynamic_lds) == (described.grid, described.block, described.lds_dynamic)
    members = (slice(f.offset, f.offset + f.size) for f in described.fields)
    same = same and len(launch.arguments) == len(described.kargs)
    if not same or any(launch.arguments[m] != described.kargs[m] for m in members):
        raise KernelFailure(
            f"{stage.family.value}: the host code launches something other than it describes",
            code="K114",
            where=stage.kernel.name,
            help="report it with the kernel's name",
        )


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
