"""Our choice, plan, launch and parameters for one problem, and the places of the tensors that they refer to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from fmha_cli.backends.cuda.driver import archs_of
from fmha_cli.backends.gpu.call import Call as Binding
from fmha_cli.backends.gpu.call import Strides
from fmha_cli.backends.gpu.launching import Launch
from fmha_cli.backends.mem_efficient.arguments import auxiliaries_of, params_of
from fmha_cli.backends.mem_efficient.scratch import COPIES, Storage, storage_of
from fmha_cli.backends.mem_efficient.situation import MemEfficientSituation
from fmha_cli.backends.mem_efficient.upstream import UPSTREAM
from fmha_cli.codegen.mem_efficient.traits import Traits, traits_of
from fmha_cli.codegen.struct import pack
from fmha_cli.domain.decision import Supported, Unsupported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.features import Bias
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.run.layout import layout_of
from tests.support.referees.upstream_host.client import Call, FakeTensor
from tests.support.referees.xformers_host.blocks import Backward, Forward
from tests.support.referees.xformers_host.calls import apart, bias_view, call_of, device_of, small_arrays
from tests.support.referees.xformers_host.client import PackedKernel, Way

ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
KNOWN = (*ARCHS, "sm_90a", "sm_100a", "sm_103a", "sm_120a")
ARENA, SMALL, SMALL_STEP = 1 << 44, 1 << 46, 1 << 24
"""Device addresses of the arena and of the small arrays; upstream's own memory starts at 2 ** 50."""


@dataclass(frozen=True)
class EfficientProblem:
    """A problem on a device of an architecture, and the layout of its tensors."""

    problem: Problem
    arch: str
    gaps: bool = False

    @property
    def facts(self) -> DeviceFacts:
        """The device as a probe describes it, with every architecture whose kernels it accepts."""
        device = device_of(self.arch)
        return DeviceFacts(id="cuda:0", archs=archs_of((device.major, device.minor), KNOWN), units=1)

    @property
    def cc(self) -> int:
        device = device_of(self.arch)
        return device.major * 10 + device.minor

    @property
    def way(self) -> Way:
        return "backward" if self.problem.direction.backward else "forward"

    def text(self) -> str:
        return f"{self.arch}{', with gaps' * self.gaps}: {self.problem.repro()}"


def chosen(case: EfficientProblem) -> KernelSpec | None:
    """The kernel that we would launch."""
    able = [d for d in UPSTREAM.decide(case.problem, case.facts) if isinstance(d, Supported)]
    return min(able, key=lambda d: d.rank).kernel if able else None


def reasons_against(case: EfficientProblem) -> tuple[str, ...]:
    """Ids of the reasons against the nearest kernel."""
    refused = [d for d in UPSTREAM.decide(case.problem, case.facts) if isinstance(d, Unsupported)]
    return tuple(sorted({reason.id for reason in min(refused, key=lambda d: d.distance).reasons}))


@dataclass(frozen=True)
class Bound:
    """Our plan for a case, bound to an arena."""

    case: EfficientProblem
    kernel: KernelSpec

    @property
    def problem(self) -> Problem:
        return self.case.problem

    @cached_property
    def situation(self) -> MemEfficientSituation:
        return MemEfficientSituation(self.problem, self.case.facts)

    @cached_property
    def storage(self) -> Storage:
        return storage_of(self.problem, self.kernel)

    @cached_property
    def traits(self) -> Traits:
        return traits_of(self.kernel)

    @cached_property
    def binding(self) -> Binding[MemEfficientSituation]:
        plan = UPSTREAM.plan_of(self.problem, self.kernel, self.case.facts)
        arena = layout_of(self.problem, plan.workspaces, gaps=self.case.gaps)
        small = {name: SMALL + n * SMALL_STEP for n, name in enumerate(auxiliaries_of(self.situation))}
        return Binding(plan, self.situation, arena.tensors, ARENA, small)

    @cached_property
    def launch(self) -> Launch:
        return UPSTREAM.launch_of(self.binding.plan.stages[0], self.binding)

    @cached_property
    def params(self) -> bytes:
        return bytes(pack(params_of(self.binding.plan.stages[0], self.binding)))

    @property
    def zeroed(self) -> tuple[str, ...]:
        return self.launch.cleared

    def scratch(self, name: str, *strides: int) -> FakeTensor | None:
        """A scratch tensor with these strides, as far as there is one."""
        if name not in self.storage.scratch:
            return None
        made = self.storage.scratch[name]
        dtype = "fp32" if name in ("output_accum", "logsumexp", "delta", "workspace") else self.problem.dtype.value
        return FakeTensor(dtype, self.binding.address(name), made.shape, strides or made.strides)

    def rows(self, name: str, scratch: str, dim: int) -> FakeTensor:
        """A tensor of rows as (B, rows, heads, dim): the scratch tensor if there is one, or the problem's own."""
        p, made = self.problem, self.storage.scratch.get(scratch)
        keys = name in ("k", "v", "dk", "dv")
        rows = (
            (self.situation.key_rows if keys else self.situation.rows)
            if apart(p)
            else (p.seqlen_k if keys else p.seqlen_q)
        )
        if made is None:
            found, address = self.binding.rows(name), self.binding.address(name)
        else:
            _, own, width = made.shape
            found, address = Strides(rows * own * width, width, own * width), self.binding.address(scratch)
            assert made.shape == (rows * (1 if apart(p) else p.batch), own, width)
        head = 0 if self.storage.shared and name in ("k", "v") else found.head
        return FakeTensor(
            p.dtype.value, address, (1 if apart(p) else p.batch, rows, p.heads, dim), (found.batch, found.row, head, 1)
        )

    @cached_property
    def tensors(self) -> dict[str, FakeTensor]:
        """Our tensors by upstream's names (``calls.Tensors``), where our kernel reads or writes them."""
        p, (dim, dim_v) = self.problem, self.storage.hdims
        out = {
            "query": self.rows("q", COPIES["q"], dim),
            "key": self.rows("k", COPIES["k"], dim),
            "value": self.rows("v", COPIES["v"], dim_v),
            "out": self.rows("o", "output", dim_v),
        }
        if p.direction.backward:
            out["grad_out"] = self.rows("do", COPIES["do"], dim_v)
        if lse := self.scratch("logsumexp"):
            out["logsumexp"] = lse
        if p.bias is not Bias.NONE:
            copy = self.scratch(COPIES["bias"])
            address, strides = self.binding.address("bias"), self.binding.tensor("bias").strides
            out["bias"] = bias_view(p, *((copy.address, copy.strides) if copy else (address, strides)))
        names = {name.replace("cu_seqlens", "seqstart"): address for name, address in self.binding.auxiliaries.items()}
        return out | small_arrays(p, names)

    @cached_property
    def call(self) -> Call:
        """Upstream's call with our tensors."""
        return call_of(self.problem, device_of(self.case.arch), self.tensors, lse="logsumexp" in self.tensors)

    def asked(self) -> PackedKernel:
        """The question what upstream's kernel makes of our parameters."""
        arrays = {name: [int(v) for v in values] for name, values in auxiliaries_of(self.situation).items()}
        p = self.problem
        return PackedKernel(self.case.way, p.dtype.value, min(self.case.cc, 99), self.traits.name, self.params, arrays)

    def blocks(self) -> Forward | Backward:
        """The places of our tensors."""
        p, s, t = self.problem, self.situation, self.tensors
        small = {name: tuple(int(v) for v in values) for name, values in auxiliaries_of(s).items()}
        starts = [small.get(f"seqstart_{side}", small.get(f"cu_seqlens_{side}")) for side in "qk"]
        common = (t["query"], t["key"], t["value"], t.get("bias"), *starts, small.get("seqlen_k"))
        scalars = (p.seqlen_q, p.seqlen_k, int(self.call.arguments["custom_mask_type"]), s.window)  # type: ignore[arg-type]
        if not p.direction.backward:
            accum = self.scratch("output_accum")
            if accum is not None:
                accum = FakeTensor("fp32", accum.address, t["out"].sizes, t["out"].strides)
            return Forward(*common, *scalars, t["out"], accum, t.get("logsumexp"))
        grads = [self.rows(name, f"grad_{COPIES[name[1:]]}", 0) for name in ("dq", "dk", "dv")]
        delta = self.scratch("delta")
        assert delta is not None
        if apart(p):
            delta = FakeTensor("fp32", delta.address, (1, *delta.sizes), (0, *delta.strides))
        workspace = self.binding.address("workspace")
        return Backward(
            *common, *scalars, t["out"], t["grad_out"], (grads[0], grads[1], grads[2]), self.scratch("grad_bias"),
            t["logsumexp"], delta, workspace, self.storage.splits,
        )  # fmt: skip
