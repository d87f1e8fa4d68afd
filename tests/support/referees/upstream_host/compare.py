"""Compares our planner with upstream's host code on one problem: what each would launch, with which parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fmha_cli.backends.cuda.driver import archs_of
from fmha_cli.backends.flash_attn.arguments import auxiliaries_of, params_of
from fmha_cli.backends.flash_attn.decide import decide
from fmha_cli.backends.flash_attn.launches import launch_of
from fmha_cli.backends.flash_attn.plan import plan_of
from fmha_cli.backends.flash_attn.situation import FlashSituation, situation_of
from fmha_cli.backends.flash_attn.upstream import UPSTREAM
from fmha_cli.backends.gpu.call import Call as Binding
from fmha_cli.backends.gpu.launching import Launch
from fmha_cli.codegen.flash_attn.params import FaBwdParams, FaFwdParams
from fmha_cli.codegen.struct import pack
from fmha_cli.domain.decision import Supported, Unsupported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.features import CacheKind, Mode
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BoundTensor
from fmha_cli.domain.signature import Need
from fmha_cli.run.layout import layout_of
from tests.support.referees.upstream_host.calls import NoCall, call_of
from tests.support.referees.upstream_host.client import Answer, Call, Device, FakeTensor, Fields, Host
from tests.support.referees.upstream_host.client import Launch as Theirs

ARCHS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_103a", "sm_120", "sm_120a")
ARENA = 1 << 44
SMALL = 1 << 46
"""Device addresses of the arena and of the small arrays; upstream's own memory starts at 2 ** 50."""
SMALL_STEP = 1 << 24


@dataclass(frozen=True)
class FlashProblem:
    """A problem on a device, and the layout of its tensors."""

    problem: Problem
    device: Device
    gaps: bool = False

    @property
    def facts(self) -> DeviceFacts:
        """The device as a probe describes it, with every architecture whose kernels it accepts."""
        archs = archs_of((self.device.major, self.device.minor), ARCHS)
        return DeviceFacts(id="cuda:0", archs=archs, units=self.device.multiprocessors)

    def text(self) -> str:
        d = self.device
        return f"{d.major}.{d.minor} with {d.multiprocessors} multiprocessors: {self.problem.repro()}"


@dataclass(frozen=True)
class Stage:
    """Our launch for one stage."""

    template: str
    launch: Launch
    params: FaFwdParams | FaBwdParams


@dataclass(frozen=True)
class Ours:
    """Our answer: a bound plan and its launches (none if the host fills the outputs), or a refusal."""

    refused: bool = False
    plan: Plan | None = None
    binding: Binding[FlashSituation] | None = None
    stages: tuple[Stage, ...] = ()


@dataclass(frozen=True)
class Compared:
    """Both answers for one case. ``no_call`` is what upstream's interface cannot express, or empty."""

    case: FlashProblem
    ours: Ours
    no_call: str
    call: Call | None
    theirs: Answer | None

    @property
    def refused(self) -> str:
        """Why upstream does not support the problem; empty if it does."""
        if self.theirs is None:
            return f"no argument for: {self.no_call}"
        return self.theirs.refused


def compare(host: Host, cases: Sequence[FlashProblem]) -> list[Compared]:
    """Get both answers for every case."""
    ours = [our_answer(case) for case in cases]
    calls = [_call(case, answer) for case, answer in zip(cases, ours, strict=True)]
    answers = iter(host.ask(call for call in calls if isinstance(call, Call)))
    return [
        Compared(case, answer, "", call, next(answers))
        if isinstance(call, Call)
        else Compared(case, answer, call, None, None)
        for case, answer, call in zip(cases, ours, calls, strict=True)
    ]


def our_answer(case: FlashProblem) -> Ours:
    """Our choice and launches."""
    able = [d for d in decide(case.problem, case.facts) if isinstance(d, Supported)]
    if not able:
        return Ours(refused=True)
    first = min(able, key=lambda d: d.rank)
    plan = plan_of(case.problem, first.kernel, case.facts)
    situation = situation_of(case.problem, case.facts)
    arena = layout_of(case.problem, plan.workspaces, gaps=case.gaps)
    small = {name: SMALL + n * SMALL_STEP for n, name in enumerate(auxiliaries_of(situation))}
    binding = Binding(plan, situation, arena.tensors, ARENA, small)
    stages = tuple(
        Stage(UPSTREAM.template(stage.kernel), launch_of(stage, binding), params_of(stage, binding))
        for stage in plan.stages
    )
    return Ours(plan=plan, binding=binding, stages=stages if situation.launches else ())


def reasons_against(case: FlashProblem, theirs: Answer | None) -> tuple[str, ...]:
    """Ids of the reasons against the kernel that upstream takes, or against the nearest one if it takes none."""
    refused = [d for d in decide(case.problem, case.facts) if isinstance(d, Unsupported)]
    names = {launch.kernel for launch in theirs.launches} if theirs else set()
    wanted = [d for d in refused if d.kernel and UPSTREAM.template(d.kernel) in names]
    nearest = min(wanted or refused, key=lambda d: d.distance)
    return tuple(sorted({reason.id for reason in nearest.reasons}))


def _call(case: FlashProblem, ours: Ours) -> Call | str:
    """Upstream's call with the addresses of our tensors, or the feature that it has no argument for."""
    p = case.problem
    bound = ours.binding.tensors if ours.binding else layout_of(p, gaps=case.gaps).tensors
    tensors = {name: _fake(tensor) for name, tensor in bound.items() if tensor.dtype != "uint8"}
    try:
        return call_of(p, case.device, tensors | _small(case, ours))
    except NoCall as what:
        return what.what


def _fake(tensor: BoundTensor) -> FakeTensor:
    return FakeTensor(tensor.dtype, ARENA + tensor.offset, tensor.shape, tensor.strides)


def _small(case: FlashProblem, ours: Ours) -> dict[str, FakeTensor]:
    """The small arrays. Those of our plan have its addresses and shapes; the others get separate addresses."""
    p, out = case.problem, dict[str, FakeTensor]()
    wanted = {
        "cu_seqlens_q": ("int32", (p.batch + 1,)),
        "cu_seqlens_k": ("int32", (p.batch + 1,)),
        "cache_seqlens": ("int32", (p.batch,)),
        "leftpad_k": ("int32", (p.batch,)),
        "cache_batch_idx": ("int32", (p.batch,)),
        "rotary_cos": (p.dtype.value, (1 << 20, p.rotary.dim // 2)),
        "rotary_sin": (p.dtype.value, (1 << 20, p.rotary.dim // 2)),
    }
    for n, (name, (dtype, shape)) in enumerate(wanted.items()):
        out[name] = FakeTensor(dtype, SMALL + (100 + n) * SMALL_STEP, shape, (*shape[1:], 1))
    if ours.binding:
        made = auxiliaries_of(ours.binding.situation)
        for name, address in ours.binding.auxiliaries.items():
            lengths = name == "cu_seqlens_k" and p.kv_cache.kind is not CacheKind.NONE and p.mode is Mode.BATCH
            known = "cache_seqlens" if lengths else name
            shape = made[name].shape
            out[known] = FakeTensor(out[known].dtype, address, shape, (*shape[1:], 1))
    for name in ("rng_state", "softmax_lse"):
        bound = ours.binding.tensors.get(name) if ours.binding else None
        address = ARENA + bound.offset if bound else SMALL + (120 + len(name)) * SMALL_STEP
        out[name] = FakeTensor("int64", address, (2,), (1,))
    # The LSE input of a backward pass is dense, in upstream's shape, in memory that we allocate.
    shape = (p.heads, sum(p.query_lengths())) if p.mode is Mode.GROUP else (p.batch, p.heads, p.seqlen_q)
    strides = (shape[1], 1) if len(shape) == 2 else (shape[1] * shape[2], shape[2], 1)
    out["lse"] = FakeTensor("fp32", out.pop("softmax_lse").address, shape, strides)
    return out


def launch_faults(found: Compared) -> Iterator[str]:
    """Differences between our launches and upstream's for a problem that both support.

    Compared are the template-id, the grid, the block, the dynamic shared memory, the permission for it, and the second
    argument.
    """
    theirs = found.theirs.launches if found.theirs else ()
    if len(theirs) != len(found.ours.stages):
        yield f"{len(theirs)} launches upstream, {len(found.ours.stages)} here"
        return
    for a, b in zip(theirs, found.ours.stages, strict=True):
        for what, x, y in (
            ("template", a.kernel, b.template),
            ("grid", a.grid, b.launch.grid),
            ("block", a.block, b.launch.block),
            ("shared memory", a.smem, b.launch.shared),
            ("allowed shared memory", a.smem_allowed, b.launch.shared if b.launch.shared >= 48 << 10 else None),
            ("argument", () if a.splits is None else (a.splits,), b.launch.extra),
        ):
            if x != y:
                yield f"{what}: {x} upstream, {y} here"


@dataclass
class Members:
    """Compares parameter structs; counts launches, values, and values that differ for a known reason."""

    layout: dict[str, tuple[int, Fields]]
    compared: int = 0
    launches: int = 0
    known: Counter[str] = field(default_factory=Counter)

    def faults(self, found: Compared) -> Iterator[str]:
        """Differences between the parameter structs of a case."""
        assert found.theirs is not None
        for theirs, stage in zip(found.theirs.launches, found.ours.stages, strict=True):
            self.launches += 1
            yield from self._of_launch(found, theirs, stage)

    def _of_launch(self, found: Compared, theirs: Theirs, stage: Stage) -> Iterator[str]:
        size, fields = self.layout["backward" if isinstance(stage.params, FaBwdParams) else "forward"]
        ours = bytes(pack(stage.params))
        if len(ours) != size or len(theirs.params) != size:
            yield f"{len(theirs.params)} bytes upstream, {len(ours)} here"
            return
        for name, (offset, width) in fields.items():
            a = int.from_bytes(theirs.params[offset : offset + width], "little")
            b = int.from_bytes(ours[offset : offset + width], "little")
            self.compared += 1
            if a == b or same_memory(found, name, a, b):
                continue
            why = known_difference(found, name, a, b)
            self.known.update([f"{name}: {why}"] if why else ())
            if not why:
                yield f"{stage.template.partition('<')[0]} {name}: {a:#x} upstream, {b:#x} here"


WORKSPACES = {
    "softmax_lse_ptr": "softmax_lse",
    "softmax_lseaccum_ptr": "softmax_lse_accum",
    "oaccum_ptr": "out_accum",
    "rng_state": "rng_state",
    "dq_accum_ptr": "dq_accum",
    "dsoftmax_sum": "softmax_d",
    "dk_ptr": "dk_expanded",
    "dv_ptr": "dv_expanded",
}


def same_memory(found: Compared, name: str, a: int, b: int) -> bool:
    """Whether our pointer is to the matching workspace, and the workspace is as large as upstream's allocation."""
    assert found.theirs is not None
    assert found.ours.binding is not None
    theirs = next((m for m in found.theirs.allocations if m.address == a and m.how in ("empty", "zeros")), None)
    bound = found.ours.binding.tensors.get(WORKSPACES.get(name, ""))
    if theirs is None or bound is None:
        return False
    return b == ARENA + bound.offset and bound.shape[0] >= theirs.bytes


def known_difference(found: Compared, name: str, a: int, b: int) -> str:
    """Why a member may differ; empty if it may not. Each reason is checked against the case."""
    assert found.ours.binding is not None
    assert found.ours.plan is not None
    problem, situation = found.case.problem, found.ours.binding.situation
    if name == "rng_state" and not problem.dropout and (a == 0 or b == 0):
        return "used under Is_dropout alone"
    if not problem.seqlen_k and problem.heads != problem.kv_heads and name[:3] in ("dk_", "dv_"):
        return "no keys: no element of dK and dV"
    if name in ("q_batch_stride", "o_batch_stride") and problem.batch == 1 and not situation.api.varlen:
        return "one sequence: multiplied by 0"
    if situation.api.varlen and name in _UNSET:
        return "packed: upstream sets no stride of sequences, and the kernels read none"
    if situation.swapped and situation.api.varlen and name in _EXCHANGED and _exchanged(found, name, a, b):
        return "upstream copies, strides say the same here"
    main = found.ours.plan.main
    whole = main.family is Family.FWD_SPLITKV and main.signature.split is Need.NO
    if whole and situation.api.varlen and name in ("unpadded_lse", "seqlenq_ngroups_swapped") and (a, b) == (1, 0):
        return "the kernel misplaces a packed LSE, so a batched one is asked for"
    return ""


_UNSET = tuple(f"{name}_batch_stride" for name in ("do", "dq", "dk", "dv"))
"""Members of ``Flash_bwd_params`` that ``set_params_dgrad`` sets only without ``cu_seqlens_q``. They hold whatever the stack held."""
_EXCHANGED = {f"{t}_{what}": (t, what) for t in "qo" for what in ("ptr", "batch_stride", "row_stride", "head_stride")}


def _exchanged(found: Compared, name: str, a: int, b: int) -> bool:
    """Whether both sides are right where ``mha_varlen_fwd`` copies queries of one row per sequence.

    The copy has shape (batch * groups, kv_heads, d). Upstream's member must refer to the copy, ours to its source.
    """
    assert found.call is not None
    assert found.theirs is not None
    p, (letter, what) = found.case.problem, _EXCHANGED[name]
    source = found.call.arguments["q" if letter == "q" else "out"]
    assert isinstance(source, FakeTensor)
    groups = p.heads // p.kv_heads
    row, head, _ = source.strides
    here = {"ptr": source.address, "batch_stride": row, "row_stride": head, "head_stride": head * groups}
    step = p.kv_heads * p.hdim
    copies = [m.address for m in found.theirs.allocations if m.sizes == (p.batch * groups, p.kv_heads, p.hdim)]
    there = {"batch_stride": step * groups, "row_stride": step, "head_stride": p.hdim}
    seen = a in copies if what == "ptr" else a == there[what]
    one = p.batch == 1 or p.kv_heads == 1  # then it is a view, and the strides of its length-one axes have no meaning
    return b == here[what] and (seen or one)
