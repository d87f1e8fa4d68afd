"""The null backend: a device that every machine has, kernels that need no compiler, and every way to fail.

Tests run the whole command line on it. It computes attention in numpy and has one kernel for each ``Behaviour``, so
``fmha validate --backend null --all-kernels`` reaches every verdict through the real code path. ``auto`` never chooses
this backend. Its correct kernels rank before all others.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources

from fmha_cli import api, plugin
from fmha_null.kernels import (
    ARCH,
    Behaviour,
    NullAlgorithm,
    behaviour_of,
    combine_kernels,
    main_kernels,
    null_kernel,
    rank_of,
)

DEFAULT_SPLITS = 2

DEVICES = "NULL_BACKEND_DEVICES"
"""Variable: the number of devices, ``null:0`` and so on. Without it there is one, ``null``."""


class NullBackend:
    """See ``fmha_cli.plugin.Backend`` for the contract of the methods."""

    name = "null"
    algorithm: type[plugin.Algorithm] = NullAlgorithm
    dropout_stream = "fmha"
    probes_in_parent = True
    automatic = False
    runtimes = ("null",)

    def probe(self) -> plugin.Availability:
        number = int(os.environ.get(DEVICES, "0"))
        ids = [f"null:{n}" for n in range(number)] or ["null"]
        devices = tuple(plugin.DeviceFacts(id=id, archs=(ARCH,), name="numpy") for id in ids)
        return plugin.Availability(state=plugin.State.OK, devices=devices, version="1")

    def archs(self) -> tuple[str, ...]:
        return (ARCH,)

    def kernels(self, arch: plugin.ArchSpec) -> Iterable[api.KernelSpec]:
        if arch.name == ARCH:
            yield from main_kernels()
            yield from combine_kernels()

    def rules(self) -> tuple[plugin.Rule, ...]:
        return plugin.CORE_RULES

    def decide(self, problem: api.Problem, device: plugin.DeviceFacts) -> Iterable[api.Decision]:
        for kernel in main_kernels():
            reasons = plugin.reasons_against(self.rules(), problem, kernel, device)
            if reasons:
                yield api.Unsupported(self.name, kernel.arch, kernel, tuple(reasons))
            else:
                yield api.Supported(kernel, rank_of(kernel), behaviour_of(kernel).value)

    def plan(self, problem: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Plan:
        if kernel.family is not plugin.Family.FWD_SPLITKV:
            return plugin.Plan(problem, (plugin.Stage(kernel),))
        own = 1 + problem.batch if behaviour_of(kernel) is Behaviour.SPLIT_BY_BATCH else DEFAULT_SPLITS
        splits = problem.splits or own
        rows = problem.heads * sum(problem.query_lengths())
        combine = null_kernel(kernel.signature.dtype, plugin.Family.FWD_SPLITKV_COMBINE)
        stages = (plugin.Stage(kernel, (("splits", str(splits)),)), plugin.Stage(combine))
        spaces = (
            plugin.Workspace("o_acc", splits * rows * problem.hdim_v * 4),
            plugin.Workspace("lse_acc", splits * rows * 4),
        )
        return plugin.Plan(problem, stages, spaces, splits)

    def promises(
        self, problem: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts
    ) -> frozenset[plugin.Invariance]:
        """The same for every kernel, and not true of those with a planted order."""
        return frozenset((plugin.Invariance.REPEATS, plugin.Invariance.BATCH, plugin.Invariance.THREADS))

    def build(self, stage: plugin.Stage, context: plugin.BuildContext) -> plugin.Artifact:
        planted = behaviour_of(stage.kernel) is Behaviour.BUILD_ERROR
        return plugin.no_build(stage, context, failure="planted: behaviour build_error" if planted else None)

    def cache_key(self, stage: plugin.Stage, context: plugin.BuildContext) -> object:
        return plugin.no_build_key(stage)

    def inspect(self, kernel: api.KernelSpec, artifact: plugin.Artifact) -> dict[str, object]:
        return {"instructions": {}, "matrix_instructions": 0, "registers": None, "spills": None}

    def upstream_name(self, kernel: api.KernelSpec) -> str | None:
        return None

    def open(self, device: plugin.DeviceFacts) -> plugin.Session:
        from fmha_null.session import NullSession  # only the worker needs numpy

        return NullSession(device.id)


backend: plugin.Backend = NullBackend()


@plugin.hookimpl
def fmha_register_backends() -> Sequence[plugin.Backend]:
    return (backend,)


@plugin.hookimpl
def fmha_register_arch_specs() -> Mapping[str, str]:
    return {ARCH: resources.files(__name__).joinpath("null.json").read_text("utf-8")}
