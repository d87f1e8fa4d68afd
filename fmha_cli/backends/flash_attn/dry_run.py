"""What a plan would launch: the session's own parameter blocks and grids, made without a device or a driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ctypes import c_bool, c_float, c_void_p
from pathlib import Path
from typing import Any

from fmha_cli.backends.arena_views import extent
from fmha_cli.backends.flash_attn.abi import check_abi
from fmha_cli.backends.flash_attn.arguments import params_of
from fmha_cli.backends.flash_attn.auxiliary import auxiliaries_of
from fmha_cli.backends.flash_attn.launches import Launch, launch_of
from fmha_cli.backends.flash_attn.library import INT_BYTES, argument_bytes
from fmha_cli.backends.flash_attn.places import Call
from fmha_cli.backends.flash_attn.situation import situation_of
from fmha_cli.backends.flash_attn.zeroing import zeroed
from fmha_cli.backends.pointers import Place, pointer_text
from fmha_cli.codegen.flash_attn.params import FaBwdParams, FaFwdParams, PhiloxCudaState
from fmha_cli.codegen.struct import c_fields, host_layout
from fmha_cli.device import DeviceFacts
from fmha_cli.plan import Plan, Stage
from fmha_cli.protocols import BoundTensor, KernelArgument, LaunchView

ARENA = 0x5000_0000_0000
AUXILIARIES = 0x7000_0000_0000
"""Addresses at which the tensors are said to lie; nothing reads there."""

_SPACE = 1 << 32
_KINDS = {c_void_p: "pointer", c_float: "float", c_bool: "bool"}


def describe_launches(
    plan: Plan, artifacts: Sequence[Path], tensors: Mapping[str, BoundTensor], device: DeviceFacts
) -> tuple[LaunchView, ...]:
    """See ``fmha_cli.protocols.DryRun``.

    Raises:
        KernelFailure: a cubin differs from what the host would launch (``check_abi``).
    """
    situation = situation_of(plan.problem, device)
    addresses = {name: AUXILIARIES + i * _SPACE for i, name in enumerate(auxiliaries_of(situation))}
    call = Call(plan, situation, tensors, ARENA, addresses)
    places = tuple(_places(call))
    return tuple(_view(stage, path, call, places) for stage, path in zip(plan.stages, artifacts, strict=True))


def _places(call: Call) -> Iterator[Place]:
    for name, bound in call.tensors.items():
        start = call.address(name)
        yield start, start + max(1, extent(bound)), name
    for name, address in call.auxiliaries.items():
        yield address, address + _SPACE, name


def _view(stage: Stage, path: Path, call: Call, places: Sequence[Place]) -> LaunchView:
    found = check_abi(path.read_bytes(), stage.kernel).kernel
    params, launch = params_of(stage, call), launch_of(stage, call)
    size = len(argument_bytes(params, launch.extra))
    return LaunchView(
        family=stage.family.value,
        kernel=stage.kernel.name,
        symbol=found.name,
        grid=launch.grid,
        block=launch.block,
        lds_static=found.shared_bytes,
        lds_dynamic=launch.smem,
        argument_bytes=size,
        arguments=(*_members(params, places), *_extra(launch, size)),
        notes=tuple(_notes(stage, call, launch)),
    )


def _members(params: FaFwdParams | FaBwdParams, places: Sequence[Place]) -> Iterator[KernelArgument]:
    """Every field of the block."""
    block: type = type(params)
    kinds = {name: kind.ctype for name, kind in c_fields(block)}
    for name, offset, size in host_layout(block):
        value: Any = getattr(params, name)
        if kinds[name] is PhiloxCudaState:
            for part, (word, number) in enumerate(zip(("seed", "offset"), value, strict=True)):
                at = offset + part * (size // 2)
                yield KernelArgument(
                    name=f"{name}.{word}", offset=at, bytes=size // 2, kind="unsigned", value=int(number)
                )
            continue
        kind = _KINDS.get(kinds[name], "signed")
        shown = pointer_text(value, places) if kind == "pointer" else value
        yield KernelArgument(name=name, offset=offset, bytes=size, kind=kind, value=shown)


def _extra(launch: Launch, end: int) -> Iterator[KernelArgument]:
    """``nsplits`` of the kernel that converts dQ."""
    start = end - INT_BYTES * len(launch.extra)
    for index, value in enumerate(launch.extra):
        at = start + index * INT_BYTES
        yield KernelArgument(name="nsplits", offset=at, bytes=INT_BYTES, kind="signed", value=value)


def _notes(stage: Stage, call: Call, launch: Launch) -> Iterator[str]:
    if not call.situation.launches:
        yield "not launched: there is nothing to attend to, the host fills the outputs"
    elif launch.empty:
        yield "not launched: its grid is empty"
    names = [name for name in zeroed(call.plan) if name in call.tensors]
    if names and stage is call.plan.stages[0]:
        yield f"before it, not timed: {', '.join(names)} zeroed"
