"""The launches of a plan: the session's own parameter blocks and grids, made without a device or a driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from fmha_cli.backends.cuda.launch import INT_BYTES, argument_bytes
from fmha_cli.backends.cuda.tables import check_exports
from fmha_cli.backends.cuda.tensor_maps import BYTES, TensorMap
from fmha_cli.backends.cuda.upstream import CubinUpstream
from fmha_cli.backends.gpu.call import Call, calls_of
from fmha_cli.backends.gpu.dry_run import (
    ARENA,
    Place,
    auxiliary_places,
    block_members,
    launch_notes,
    places_of,
    pointer_text,
)
from fmha_cli.backends.gpu.launching import Launch
from fmha_cli.codegen.struct import host_layout
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.plan import Plan, Stage
from fmha_cli.domain.protocols import BoundTensor, KernelArgument, LaunchView


def describe_launches(
    upstream: CubinUpstream,
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


def _view(upstream: CubinUpstream, stage: Stage, path: Path, call: Call[Any], places: Sequence[Place]) -> LaunchView:
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
            *block_members(_shown(params, places), layout, places),
            *_extra(expected.extra, launch, size),
        ),
        notes=tuple(launch_notes(upstream, stage, call, launch)),
    )


def _extra(names: Sequence[str], launch: Launch, end: int) -> Iterator[KernelArgument]:
    """The ``int`` parameters that follow the block."""
    start = end - INT_BYTES * len(launch.extra)
    for index, (name, value) in enumerate(zip(names, launch.extra, strict=True)):
        at = start + index * INT_BYTES
        yield KernelArgument(name=name, offset=at, bytes=INT_BYTES, kind="signed", value=value)


def _shown(params: Any, places: Sequence[Place]) -> Any:
    """The parameter block with a text in place of each descriptor."""
    values = ((field.name, getattr(params, field.name)) for field in fields(params))
    maps = {name: value for name, value in values if isinstance(value, TensorMap)}
    return replace(params, **{n: f"{pointer_text(m.address, places)}: {m.text()}" for n, m in maps.items()})
