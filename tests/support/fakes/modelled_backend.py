"""A test backend that runs the kernel model in the worker, for backward passes and appended caches.

The null backend has only forward kernels. This one exercises the judge on everything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import numpy as np
from fmha_null import NullBackend
from fmha_null.kernels import null_kernel

from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.features import Direction
from fmha_cli.domain.kernel import Algorithm, Family, KernelSpec
from fmha_cli.domain.plan import Plan, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BoundTensor, Session
from fmha_cli.domain.signature import Need
from fmha_cli.domain.tensors import Element, Role, shapes_of
from fmha_cli.oracle.tensors import Array, appended_cache, numpy_dtype
from fmha_cli.run.checks import meaningful
from tests.support.models.kernel_model import model_forward
from tests.support.models.kernel_model_backward import model_backward

ENTRY = f"{__name__}:backend"


class Slip(StrEnum):
    """The fault in the modelled kernel."""

    NONE = "none"
    LAST_ROW_UNWRITTEN = "last_row_unwritten"
    LAST_ROW_NAN = "last_row_nan"
    ONE_ROW_NEIGHBOURS = "one_row_neighbours"
    ONE_ROW_LARGE = "one_row_large"
    CACHE_NOT_APPENDED = "cache_not_appended"
    OLD_KEY_CHANGED = "old_key_changed"
    DQ_RACE = "dq_race"
    O_RACE = "o_race"
    DQ_WRONG = "dq_wrong"
    DK_UNWRITTEN = "dk_unwritten"
    STALE_ROW = "stale_row"
    """The last row is that of the first launch."""


@dataclass(frozen=True, kw_only=True)
class ModelledAlgorithm(Algorithm):
    slip: Slip = Slip.NONE


class ModelledBackend(NullBackend):
    name = "modelled"
    algorithm = ModelledAlgorithm

    def open(self, device: DeviceFacts) -> Session:
        return ModelledSession()


class ModelledSession:
    launches = 0
    kept: Array | None = None

    def load(self, plan: Plan, artifacts: Sequence[Path]) -> None:
        self.plan = plan
        algorithm = plan.main.algorithm
        assert isinstance(algorithm, ModelledAlgorithm)
        self.slip = algorithm.slip

    def bind(self, arena: memoryview, tensors: Mapping[str, BoundTensor], threads: int) -> None:
        self.tensors: dict[str, Array] = {}
        for name, tensor in tensors.items():
            dtype = numpy_dtype(Element(tensor.dtype))
            flat = np.frombuffer(arena, dtype, (len(arena) - tensor.offset) // dtype.itemsize, tensor.offset)
            strides = [stride * dtype.itemsize for stride in tensor.strides]
            self.tensors[name] = np.lib.stride_tricks.as_strided(flat, tensor.shape, strides)

    def upload(self) -> None: ...

    def launch(self) -> tuple[int, ...]:
        p = self.plan.problem
        roles = {name: shape.role for name, shape in shapes_of(p).items()}
        inputs = {name: np.array(x) for name, x in self.tensors.items() if roles[name] is not Role.OUTPUT}
        for name, value in self.outputs(p, inputs).items():
            target, meaning = self.tensors[name], meaningful(p, name)
            np.copyto(target, value, where=True if meaning is None else meaning)
        self.launches += 1
        return (0,) * len(self.plan.stages)

    def outputs(self, p: Problem, inputs: dict[str, Array]) -> dict[str, Array]:
        out: dict[str, Array] = {}
        if p.direction.forward:
            result = model_forward(p, inputs)
            out = {"o": result.o, **({"lse": result.lse} if "lse" in self.tensors else {})}
            out |= {} if self.slip is Slip.CACHE_NOT_APPENDED else appended_cache(p, inputs)
        if p.direction.backward:
            out |= {n: x for n, x in model_backward(p, inputs).items() if n in self.tensors}
        match self.slip:
            case Slip.LAST_ROW_UNWRITTEN:
                out["o"][..., -1, :] = self.tensors["o"][..., -1, :]
            case Slip.LAST_ROW_NAN:
                out["o"][..., -1, :] = np.nan
            case Slip.ONE_ROW_NEIGHBOURS:
                out["o"][0, 3, 21] = out["o"][0, 3, 20]
            case Slip.ONE_ROW_LARGE:
                out["o"][0, 3, 21] *= 1 + 2**-6
            case Slip.OLD_KEY_CHANGED:
                out["k"][0, 0, 0, 0] += 1
            case Slip.DQ_RACE | Slip.O_RACE:
                racing = out["dq" if self.slip is Slip.DQ_RACE else "o"]
                racing.view(np.uint32 if racing.itemsize == 4 else np.uint16).flat[0] ^= self.launches % 2
            case Slip.DQ_WRONG:
                out["dq"].flat[0] += 1
            case Slip.DK_UNWRITTEN:
                out.pop("dk")
            case Slip.STALE_ROW:
                self.kept = out["o"][-1, -1, -1].copy() if self.kept is None else self.kept
                out["o"][-1, -1, -1] = self.kept
        return out

    def download(self) -> None: ...

    def evict_caches(self) -> None: ...

    def close(self) -> None: ...


backend = ModelledBackend()


def modelled_plan(problem: Problem, slip: Slip = Slip.NONE, *, deterministic: bool = False) -> Plan:
    """A plan of a forward stage, a backward stage, or both."""

    def kernel(family: Family) -> KernelSpec:
        null = null_kernel(DType.FP32, family)
        signature = replace(
            null.signature, dtype=problem.dtype, dtype_out=problem.dtype_out, deterministic=Need.of(deterministic)
        )
        return replace(null, backend="modelled", signature=signature, algorithm=ModelledAlgorithm(slip=slip))

    families = {
        Direction.FWD: (Family.FWD,),
        Direction.BWD: (Family.BWD_DQ_DK_DV,),
        Direction.FWD_BWD: (Family.FWD, Family.BWD_DQ_DK_DV),
    }
    return Plan(problem, tuple(Stage(kernel(family)) for family in families[problem.direction]))
