"""The code objects of a ``CodeObjectUpstream``: from its pinned source into the cache, and their launches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ctypes import sizeof
from pathlib import Path
from typing import Any

from fmha_cli.backends.gpu.call import Call, calls_of
from fmha_cli.backends.gpu.dry_run import ARENA, auxiliary_places, block_members, launch_notes, places_of
from fmha_cli.backends.hip.argument_check import check_arguments
from fmha_cli.backends.hip.upstream import CodeObjectUpstream
from fmha_cli.codegen.struct import ctypes_structure, host_layout
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Artifact, Plan, Stage
from fmha_cli.domain.protocols import BoundTensor, BuildContext, LaunchView
from fmha_cli.domain.rules import unbuildable
from fmha_cli.sources.pins import pin_of
from fmha_cli.sources.store import fetch_source
from fmha_cli.toolchain.cache.key import BuildKey
from fmha_cli.toolchain.kernels import copy_build, copy_key
from fmha_cli.toolchain.notice import as_text


def build(upstream: CodeObjectUpstream, kernel: KernelSpec, context: BuildContext) -> Artifact:
    """The code object of a kernel, from the cache or copied from the pinned source now.

    Raises:
        UnsupportedError: upstream has no such kernel.
        EnvironmentProblem: the source is missing, or the cache cannot be used.
    """

    def file() -> Path:
        speak = as_text(context.notify, context.phase)
        folder = fetch_source(upstream.source, context.cache_root, offline=context.offline, notify=speak)
        return folder / upstream.path(kernel)

    return copy_build(key_of(upstream, kernel), file, context)


def key_of(upstream: CodeObjectUpstream, kernel: KernelSpec) -> BuildKey:
    """The key under which :func:`build` keeps a kernel.

    Raises:
        UnsupportedError: upstream has no such kernel.
    """
    reasons = upstream.refusals(kernel)
    if reasons:
        raise unbuildable(kernel, reasons)
    return copy_key(kernel, pin_of(upstream.source).digest, upstream.path(kernel))


def describe_launches(
    upstream: CodeObjectUpstream,
    plan: Plan,
    artifacts: Sequence[Path],
    tensors: Mapping[str, BoundTensor],
    device: DeviceFacts,
) -> tuple[LaunchView, ...]:
    """Implement ``fmha_cli.domain.protocols.DryRun``.

    Raises:
        KernelFailure: H009, a code object takes other arguments.
    """
    calls = calls_of(
        plan,
        lambda part: upstream.situation_of(part.problem, device),
        tensors,
        ARENA,
        lambda part, situation: auxiliary_places(upstream.auxiliaries_of(situation)),
    )
    paths = dict(zip(plan.stages, artifacts, strict=True))
    return tuple(_views(upstream, paths, calls))


def _views(
    upstream: CodeObjectUpstream, paths: Mapping[Stage, Path], calls: Sequence[Call[Any]]
) -> Iterator[LaunchView]:
    for call in calls:
        places = tuple(places_of(call))
        for stage in call.plan.stages:
            params, launch = upstream.params_of(stage, call), upstream.launch_of(stage, call)
            block: type = type(params)
            found = check_arguments(paths[stage].read_bytes(), stage.kernel, upstream.symbol(stage.kernel), params)
            yield LaunchView(
                family=stage.family.value,
                kernel=stage.kernel.name,
                symbol=found.name,
                grid=launch.grid,
                block=launch.block,
                lds_static=found.lds_bytes,
                lds_dynamic=launch.shared,
                argument_bytes=sizeof(ctypes_structure(block)),
                arguments=tuple(block_members(params, host_layout(block), places)),
                notes=tuple(launch_notes(upstream, stage, call, launch)),
            )
