"""Compares our launches and parameter structs, field by field, with those of upstream's call on the same tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fmha_cli.codegen.mem_efficient.traits import kernels_of
from fmha_cli.domain.problem import Problem
from tests.support.referees.upstream_host.client import Answer
from tests.support.referees.xformers_host.blocks import Backward, block_faults
from tests.support.referees.xformers_host.calls import apart
from tests.support.referees.xformers_host.client import Examined, Layout, Way, XformersHost
from tests.support.referees.xformers_host.ours import Bound, EfficientProblem, chosen

SCRATCH = {
    "output_ptr": "output",
    "output_accum_ptr": "output_accum",
    "logsumexp_ptr": "logsumexp",
    "delta_ptr": "delta",
    "grad_query_ptr": "grad_query",
    "grad_key_ptr": "grad_key",
    "grad_value_ptr": "grad_value",
    "grad_bias_ptr": "grad_bias",
    "workspace": "workspace",
}
"""Pointers to memory that upstream allocates, and our scratch tensors."""
PHILOX_BYTES = 17
"""Seed, offset and ``captured_``; the rest of the 24 bytes is padding."""


@dataclass
class Compared:
    """What was compared: counts, known differences, and faults with their cases."""

    launches: Counter[str] = field(default_factory=Counter)
    members: int = 0
    blocks: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def lines(self) -> str:
        """The counts."""
        head = f"{dict(self.launches)} launches, {self.members} members, {dict(self.blocks)} blocks; differences of known reason:"
        return "\n".join((head, *(f"  {n:6} {why}" for why, n in self.known.most_common())))


def compare(host: XformersHost, cases: Sequence[EfficientProblem]) -> Compared:
    """Compare every case for which we launch a kernel."""
    out, bound = Compared(), list(_bound(cases))
    layouts: dict[Way, Layout] = {way: host.layout(way) for way in ("forward", "backward")}
    theirs, examined = host.ask(one.call for one in bound), host.examine(one.asked() for one in bound)
    kernels = {facts["name"]: facts for facts in _facts(host)}
    for one, answer, found in zip(bound, theirs, examined, strict=True):
        layout, places, facts = layouts[one.case.way], one.blocks(), kernels[one.traits.name]
        faults = [*_launch_faults(one, answer, found), *_member_faults(one, answer, layout, out)]
        faults += block_faults(places, facts, layout, found)
        if isinstance(places, Backward) and found.workspace != places.workspace_bytes(facts):
            faults.append(f"workspace: {found.workspace} bytes")
        out.launches[one.case.way] += 1
        out.blocks[one.case.way] += len(found.blocks)
        out.faults += [f"{one.case.text()}\n  {fault}" for fault in faults]
    return out


def _bound(cases: Sequence[EfficientProblem]) -> Iterator[Bound]:
    for case in cases:
        kernel = chosen(case)
        if kernel is None:
            continue
        bound = Bound(case, kernel)
        if bound.situation.launches:
            yield bound


def _facts(host: XformersHost) -> Iterator[Mapping[str, object]]:
    asked = [
        (way, dtype, cc) for way in ("forward", "backward") for dtype in ("fp32", "fp16", "bf16") for cc in (75, 80, 86)
    ]
    for found in host.kernels(asked):  # type: ignore[arg-type]
        yield from found


def _launch_faults(one: Bound, answer: Answer, found: Examined) -> Iterator[str]:
    launch, scratch = one.launch, one.storage.scratch
    if found.refused:
        yield f"upstream's check of our parameters: {found.refused}"
    pairs: list[tuple[str, object, object]] = [
        ("grid", found.grid, launch.grid),
        ("block", found.block, launch.block),
        ("workspace", found.workspace, scratch["workspace"].nbytes if "workspace" in scratch else None),
    ]
    if one.problem.direction.backward:
        pairs.append(("zero the workspace", found.zero, "workspace" in one.zeroed))
    for theirs in answer.launches:
        grid = launch.grid if _one_split(one) else theirs.grid
        kernel = one.traits.name if _taken_for_gaps(one, theirs.kernel) else theirs.kernel
        pairs += [("kernel", kernel, one.traits.name), ("its grid", grid, launch.grid)]
        pairs += [
            ("its block", theirs.block, launch.block),
            ("its shared memory", _shared(theirs.smem, one), launch.shared),
        ]
        permission = launch.shared if launch.shared > 48 << 10 else None
        pairs.append(("its permission", theirs.smem_allowed and _shared(theirs.smem_allowed, one), permission))
    if not answer.launches:
        known = one.problem.direction.backward and apart(one.problem) and "max_seqlen" in answer.refused
        yield from () if known else (f"upstream refuses: {answer.refused}",)
    yield from (f"{what}: {x} upstream, {y} here" for what, x, y in pairs if x != y)


def _one_split(one: Bound) -> bool:
    """Whether a sequence has no rows: then we have one split where upstream may have several."""
    return one.problem.direction.backward and 0 in one.problem.query_lengths()


def _taken_for_gaps(one: Bound, kernel: str) -> bool:
    """Whether upstream would pass over its kernel if the tensors were dense, as we assume of them when we choose.

    Rows with gaps start at whole loads, whatever the head dim.
    """
    theirs = next(traits for traits in kernels_of(one.kernel.family) if traits.name == kernel)
    return one.case.gaps and any(stride % theirs.tested for stride in one.storage.tested_strides)


def _shared(theirs: int, one: Bound) -> int:
    """NVRTC's struct is 16 bytes larger where upstream has an array without elements; the table holds NVRTC's figure."""
    return theirs + 16 if one.traits.shared_bytes == theirs + 16 and not one.traits.drops else theirs


def _member_faults(one: Bound, answer: Answer, layout: Layout, out: Compared) -> Iterator[str]:
    ours = one.params
    for theirs in answer.launches:
        if len(theirs.params) != layout.size or len(ours) != layout.size:
            yield f"{len(theirs.params)} bytes upstream, {len(ours)} here"
            continue
        for name, (offset, size) in layout.fields.items():
            width = PHILOX_BYTES if name == "rng_engine_inputs" else size
            a, b = (int.from_bytes(params[offset : offset + width], "little") for params in (theirs.params, ours))
            out.members += 1
            if a == b or _same_memory(one, answer, name, a, b):
                continue
            why = _known(one, answer, name, a, b)
            out.known.update([f"{name}: {why}"] if why else ())
            if not why:
                yield f"{name}: {a:#x} upstream, {b:#x} here"


def _same_memory(one: Bound, answer: Answer, name: str, a: int, b: int) -> bool:
    """Whether our pointer is to the matching scratch tensor, and it is as large as upstream's allocation."""
    scratch = one.storage.scratch.get(SCRATCH.get(name, ""))
    theirs = next((m for m in answer.allocations if m.address == a), None)
    if scratch is None or theirs is None or b != one.binding.address(SCRATCH[name]):
        return False
    return scratch.nbytes >= theirs.bytes


def _known(one: Bound, answer: Answer, name: str, a: int, b: int) -> str:
    """Why a field may differ; empty if it may not. Each reason is checked against the case."""
    p, s = one.problem, one.situation
    packed = apart(p)
    if name in ("seed", "extragraph_offset") and b == 0:
        return "read in a captured graph alone"
    if name == "rng_engine_inputs" and not p.dropout:
        return "read with dropout alone"
    if name == "num_keys" and packed and not p.direction.backward and (a, b) == (0, p.seqlen_k):
        return "upstream passes no number of keys for packed sequences"
    if name == "window_size" and b == 0 and s.window == 0 and _hides_nothing(p):
        return "the window hides no key"
    if (name == "grad_output_ptr" or name.startswith("gO_stride")) and _copied(one, answer, name, a):
        return "upstream copies dO to a dense tensor"  # blocks prove that ours refer to dO in place
    if name.endswith("_strideB") and (p.batch == 1 or (packed and name not in ("bias_strideB", "lse_strideB"))):
        return "one tensor for all sequences, or one sequence: multiplied by 0"
    if name in ("gB_strideM", "gB_strideB", "gB_strideH") and not p.dbias and b == 0:
        return "read with dBias alone"
    if _one_split(one) and (name, b) in (("num_splits_key", 1), ("workspace", one.binding.address("workspace"))):
        return "a sequence without rows"  # so upstream's workspace is larger
    if name.endswith("_strideH") and p.heads == 1:
        return "one head: multiplied by 0"
    return ""


def _copied(one: Bound, answer: Answer, name: str, a: int) -> bool:
    """Whether upstream's field refers to a dense copy of dO."""
    (_, rows, heads, dim) = shape = one.tensors["grad_out"].sizes
    dense = {"gO_strideB": rows * heads * dim, "gO_strideM": heads * dim, "gO_strideH": dim}
    copies = [m.address for m in answer.allocations if m.how == "copy" and m.sizes == shape]
    return bool(copies) and (a in copies if name == "grad_output_ptr" else a == dense[name])


def _hides_nothing(p: Problem) -> bool:
    left = p.mask.left
    pairs = zip(p.query_lengths(), p.key_lengths(), strict=True)
    return left is not None and all(row + p.mask.delta(q, k) - left <= 0 for q, k in pairs for row in range(q))
