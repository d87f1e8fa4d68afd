"""The launches of a plan: the session's own parameter blocks and grids, made without a device or a driver."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from fmha_cli.backends.cuda.launch import INT_BYTES, Launch, argument_bytes
from fmha_cli.backends.cuda.tables import check_exports
from fmha_cli.backends.cuda.tensor_maps import BYTES, TensorMap
from fmha_cli.backends.cuda.upstream import Upstream
from fmha_cli.backends.gpu.call import Call, calls_of
from fmha_cli.backends.gpu.dry_run import ARENA, Place, auxiliary_places, places_of, pointer_text, zeroed_note
from fmha_cli.codegen.struct import Layout, c_fields, host_layout
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.plan import Plan, Stage
from fmha_cli.domain.protocols import BoundTensor, KernelArgument, LaunchView

_KINDS = {
    ctypes.c_void_p: "pointer",
    ctypes.c_float: "float",
    ctypes.c_bool: "bool",
    ctypes.c_uint16: "unsigned",
    ctypes.c_uint32: "unsigned",
    ctypes.c_uint64: "unsigned",
}


def describe_launches(
    upstream: Upstream,
    plan: Plan,
    artifacts: Sequence[Path],
    tensors: Mapping[str, BoundTensor],
    device: DeviceFacts,
) -> tuple[LaunchView, ...]:
    """Implement ``fmha_cli.domain.protocols.DryRun``.

    Raises:
        KernelFailure: a cubin does not match the host's launch (``check_exports``).
    """
    calls = calls_of(
        plan,
        lambda part: upstream.situation_of(part.problem, device),
        tensors,
        ARENA,
        lambda part, situation: auxiliary_places(upstream.auxiliaries_of(situation)),
    )
    paths = dict(zip(plan.stages, artifacts, strict=True))
    return tuple(
        _view(upstream, stage, paths[stage], call, places)
        for call in calls
        for places in [tuple(places_of(call))]
        for stage in call.plan.stages
    )


def _view(upstream: Upstream, stage: Stage, path: Path, call: Call[Any], places: Sequence[Place]) -> LaunchView:
    expected = upstream.expect_exports(stage.kernel)
    abi = check_exports(path.read_bytes(), stage.kernel, expected)
    found, separate = abi.kernel, abi.fields if expected.separate else None
    params, launch = upstream.params_of(stage, call), upstream.launch_of(stage, call)
    size = len(argument_bytes(params, launch.extra, lambda wanted: bytes(BYTES), separate, abi.lead))
    layout = separate or tuple((name, abi.lead + at, n) for name, at, n in host_layout(expected.block))
    return LaunchView(
        family=stage.family.value,
        kernel=stage.kernel.name,
        symbol=found.name,
        grid=launch.grid,
        block=launch.block,
        lds_static=found.shared_bytes,
        lds_dynamic=launch.shared,
        argument_bytes=size,
        arguments=(
            *_members(params, layout, places),
            *_extra(expected.extra, launch, size),
        ),
        notes=tuple(_notes(upstream, stage, call, launch)),
    )


def _members(params: Any, layout: Layout, places: Sequence[Place]) -> Iterator[KernelArgument]:
    """Every field of the block. A field that is a structure is replaced by its own fields."""
    block: type = type(params)
    kinds = {name: kind.ctype for name, kind in c_fields(block)}
    for name, offset, size in layout:
        value, kind = getattr(params, name), kinds[name]
        if not issubclass(kind, ctypes.Structure):
            yield _member(name, offset, size, kind, value, places)
            continue
        given = (*value, *(0,) * (len(kind._fields_) - len(value)))  # ctypes makes the members behind the value zero
        for (part, inner), number in zip(kind._fields_, given, strict=True):
            mark = getattr(kind, part)
            yield _member(f"{name}.{part}", offset + mark.offset, mark.size, inner, number, places)


def _member(name: str, offset: int, size: int, ctype: Any, value: Any, places: Sequence[Place]) -> KernelArgument:
    kind, shown = _KINDS.get(ctype, "signed"), value
    if isinstance(value, TensorMap):
        kind, shown = "bytes", f"{pointer_text(value.address, places)}: {value.text()}"
    elif isinstance(value, tuple):
        kind, shown = "bytes", ", ".join(map(str, value))
    elif kind == "pointer":
        shown = pointer_text(value, places)
    elif kind == "float" and not isfinite(value):
        shown = str(value)  # JSON has no such number
    return KernelArgument(name=name, offset=offset, bytes=size, kind=kind, value=shown)


def _extra(names: Sequence[str], launch: Launch, end: int) -> Iterator[KernelArgument]:
    """The ``int`` parameters that follow the block."""
    start = end - INT_BYTES * len(launch.extra)
    for index, (name, value) in enumerate(zip(names, launch.extra, strict=True)):
        at = start + index * INT_BYTES
        yield KernelArgument(name=name, offset=at, bytes=INT_BYTES, kind="signed", value=value)


def _notes(upstream: Upstream, stage: Stage, call: Call[Any], launch: Launch) -> Iterator[str]:
    if not upstream.launches(call.situation):
        yield "not launched: there is nothing to attend to, so the host fills the outputs"
    elif launch.empty:
        yield "not launched: its grid is empty"
    if launch.cleared:
        yield f"before it, timed with it: {', '.join(launch.cleared)} zeroed"
    names = [name for name in upstream.list_zeroed(call.plan) if name in call.tensors]
    if names and stage is call.plan.stages[0]:
        yield zeroed_note(names)
