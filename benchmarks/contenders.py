"""The contenders of ``cpu_attention.py``: this project's kernel, its peers, and the machine's own ceilings.

A contender is a callable that runs once. Its tensors are created outside. A contender that cannot run the shape, or
whose library is not installed, is left out with the reason.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from isa import ISAS

from fmha_cli.backends.cpu.arch_detect import detect
from fmha_cli.backends.cpu.backend import CpuBackend
from fmha_cli.backends.cpu.kernels import algorithm_of
from fmha_cli.backends.cpu.peaks import build_peak_loops, vector_bits
from fmha_cli.backends.host.checks import MaskForm, mask_forms
from fmha_cli.codegen.cpu.algorithm import Simd
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.device import CPU, DeviceFacts, State
from fmha_cli.domain.features import Layout
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.mask import Mask
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.processor import microarchitecture, this_processor
from fmha_cli.domain.protocols import Backend, BuildContext, Session
from fmha_cli.domain.rules import Severity
from fmha_cli.domain.settings import SettingsFrom
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.tensors import Array
from fmha_cli.run.arena import Arena
from fmha_cli.run.cases import Cases
from fmha_cli.run.layout import layout_of
from fmha_cli.toolchain.cache.root import cache_root

Run = Callable[[], object]
GRADIENTS = ("dq", "dk", "dv")


@dataclass(frozen=True)
class Contender:
    """A name for the table, a function for one run, and the output to compare, if any: O as (batch, heads, seqlen_q,
    hdim_v), or all gradients in one row.
    """

    name: str
    run: Run
    output: Callable[[], Array] | None = None


def allowed_difference(problem: Problem) -> float:
    """How far outputs of two right kernels may be apart, in any element. Gradients are several times as large as O."""
    return {"fp32": 2e-5, "fp16": 5e-3, "bf16": 4e-2}[problem.dtype.value] * (8 if problem.direction.backward else 1)


def context() -> BuildContext:
    root = cache_root(os.environ.get("FMHA_CACHE_DIR"))
    return BuildContext(cache_root=root)


def device_for(isa: str | None) -> DeviceFacts:
    """This machine, held to an instruction set of ``ISAS``.

    Raises:
        KeyError: an unknown instruction set.
        ValueError: the machine does not have it.
    """
    device = detect()
    return device if isa is None else replace(device, archs=device.archs[device.archs.index(ISAS[isa].arch) :])


def chosen(problem: Problem, device: DeviceFacts) -> KernelSpec:
    """The kernel of this project that a device takes for a problem."""
    found = [d for d in CpuBackend().decide(problem, device) if isinstance(d, Supported)]
    return min(found, key=lambda d: d.rank).kernel


def ceiling_of(problem: Problem, device: DeviceFacts) -> str:
    """Which of :func:`ceilings` a kernel is compared with: the loop of its own instructions, or the read sweep for decode."""
    if problem.seqlen_q == 1:
        return "read"
    algorithm = algorithm_of(chosen(problem, device))
    return "tiles" if algorithm.simd.tiles else "dot" if algorithm.pairs else "fma"


def ours(problem: Problem, inputs: dict[str, Array], threads: int, isa: str | None = None) -> Contender:
    """This project's kernel through its backend and session, run as in the worker, with the settings of this processor."""
    backend, device = CpuBackend(), device_for(isa)
    kernel = chosen(problem, device)
    plan = backend.plan(problem, kernel, device)
    artifacts = [backend.build(stage, context()).path for stage in plan.stages]
    settings = backend.default_settings(plan.main, device)
    if settings is not None:
        values = settings.values
        if settings.source is SettingsFrom.KERNEL and backend.worth_measuring(problem, plan.main, device):
            main = next(path for path, stage in zip(artifacts, plan.stages, strict=True) if stage.kernel == plan.main)
            values = backend.measure_settings(main, plan.main, threads)
        device = replace(device, settings=tuple(values.items()))
    arena = Arena(layout_of(problem, plan.workspaces))
    arena.write(inputs)
    arena.prepare()
    session = backend.open(device)
    session.load(plan, artifacts)
    session.bind(memoryview(arena._map), arena.layout.tensors, threads)

    def gradients() -> Array:
        return np.concatenate([np.array(arena.view(name), np.float32).ravel() for name in GRADIENTS])

    return Contender(
        "fmha", session.launch, gradients if problem.direction.backward else lambda: np.array(arena.view("o"))
    )


@dataclass(frozen=True)
class Ceiling:
    """A loop that reaches the machine's best rate.

    ``run`` returns the loop's best rate (FLOP/s or bytes/s by the wall clock). ``work`` is the total work of one run,
    or None if a run does more than the loop.
    """

    run: Callable[[], float]
    work: float | None


_STEPS, _ROUNDS, _CHAINS, _TILE_FLOPS = 4_000_000, 2, 24, 12288  # the last: of a step of fmha_peak_dot with tiles
_TILE_SUMS = 12  # of a step of fmha_peak_tile
_READ_BYTES, _READ_ROUNDS = 192 << 20, 8


def ceilings(threads: int, isa: str | None = None) -> dict[str, Ceiling]:
    """The peak loops, each tens of milliseconds long: fma, dot and read, and tiles where there are matrix tiles.

    ``register_tile`` is not a ceiling: its operands come from the first-level cache, as a kernel's do. Its instructions
    fit into the time of its multiply-adds (24 in 6 cycles on Zen 3), so on a core of its own it should be about as fast
    as ``fma``, which needs two instructions a cycle and does not notice a neighbour that takes the others.
    """
    device = device_for(isa)
    tiled = load_arch(device.archs[0]).backends["cpu"]["kernels"][0]["simd"] == Simd.AMX
    vectors = _loops(replace(device, archs=device.archs[1:]) if tiled else device)
    f32, i64 = ctypes.c_float, ctypes.c_int64

    def fma() -> float:
        return float(vectors.fmha_peak_fma(threads, _ROUNDS, i64(_STEPS), f32(0.9999), f32(1e-4)))

    def register_tile() -> float:
        return float(vectors.fmha_peak_tile(threads, _ROUNDS, i64(_STEPS), f32(0.001)))

    def dot(library: ctypes.CDLL) -> float:
        return float(library.fmha_peak_dot(threads, _ROUNDS, i64(_STEPS), f32(0.001)))

    def read() -> float:
        return float(vectors.fmha_peak_read(threads, _READ_ROUNDS, i64(_READ_BYTES)))

    bits = vector_bits(load_arch(device.archs[0]))
    steps = 1.0 * _ROUNDS * threads * _STEPS
    work = 2 * steps * (_CHAINS if bits == 512 else _CHAINS // 2) * (bits // 32)
    loops = {
        "fma": Ceiling(fma, work),
        "dot": Ceiling(partial(dot, vectors), 2 * work),
        "read": Ceiling(read, None),
        "register_tile": Ceiling(register_tile, 2 * steps * _TILE_SUMS * (bits // 32)),
    }
    return loops | ({"tiles": Ceiling(partial(dot, _loops(device)), steps * _TILE_FLOPS)} if tiled else {})


def _loops(device: DeviceFacts) -> ctypes.CDLL:
    library = ctypes.CDLL(str(build_peak_loops(device, context()).path))
    for name in ("fmha_peak_fma", "fmha_peak_dot", "fmha_peak_read", "fmha_peak_tile"):
        getattr(library, name).restype = ctypes.c_double
    return library


def tensors(problem: Problem) -> dict[str, Array]:
    """Random normal inputs, never zeros; for a backward pass also O and LSE of its forward pass."""
    cases = Cases(lambda p, name: fill(p, name, 1), oracle_s=math.inf)
    return dict(cases.case(problem, "normal", stream="fmha", check=False).inputs)


def peers(
    problem: Problem, inputs: dict[str, Array], threads: int, isa: str | None = None
) -> Iterator[Contender | str]:
    """Every peer that can run the problem, and a line for each that cannot. Only PyTorch can be held to an instruction set."""
    for maker in (torch_contenders, ort_contenders, openvino_contenders) if isa is None else (torch_contenders,):
        try:
            yield from maker(problem, inputs, threads)
        except ImportError as fault:
            yield f"{maker.__name__.partition('_')[0]}: {fault}"


def torch_contenders(p: Problem, inputs: dict[str, Array], threads: int) -> Iterator[Contender | str]:
    """PyTorch's flash kernel by its plugin, which copies nothing here; for GQA decode also with a group's query heads as rows."""
    from fmha_torch import TorchBackend

    def flash(problem: Problem, given: dict[str, Array], name: str) -> Iterator[Contender]:
        for session, _ in plugged(problem, TorchBackend(), given, threads, way="flash", masking="causal"):
            kept: dict[str, Any] = {}

            def run(session: Any = session, kept: dict[str, Any] = kept) -> None:
                kept.update(session.passes()[1])

            def output(kept: dict[str, Any] = kept) -> Array:
                names = GRADIENTS if p.direction.backward else ("o",)
                found = [np.array(kept[n].float().numpy()) for n in names]
                return np.concatenate([a.ravel() for a in found]) if p.direction.backward else found[0].reshape(shape)

            yield Contender(name, run, output)

    shape = (p.batch, p.heads, p.seqlen_q, p.hdim_v)
    yield from flash(p, inputs, "torch")
    if p.heads != p.kv_heads and p.seqlen_q == 1 and p.direction.forward and MaskForm.PLAIN in mask_forms(p):
        group = p.heads // p.kv_heads
        folded = replace(p, heads=p.kv_heads, seqlen_q=group, mask=Mask())
        q = inputs["q"].reshape(p.batch, p.kv_heads, group, p.hdim)
        yield from flash(folded, {**inputs, "q": q}, "torch folded")


def ort_contenders(p: Problem, inputs: dict[str, Array], threads: int) -> Iterator[Contender | str]:
    """ONNX Runtime by its plugin: MultiHeadAttention, and GroupQueryAttention (causal only), in the layout that they take."""
    from fmha_onnxruntime import BACKEND

    if p.seqlen_q > 1 and not p.direction.backward:
        own = replace(p, layout=Layout.BSHD, layout_out=Layout.BSHD)
        for op, name in (("mha", "ORT MHA"), ("gqa", "ORT GQA")):
            yield from launched(own, BACKEND, inputs, threads, name, op=op)


def openvino_contenders(p: Problem, inputs: dict[str, Array], threads: int) -> Iterator[Contender | str]:
    """OpenVINO by its plugin: ScaledDotProductAttention in the precision of the problem; its f16 computes in bf16, and is left out."""
    from fmha_openvino import BACKEND

    precision = {"fp32": "f32", "bf16": "bf16"}.get(p.dtype.value)
    if precision and p.heads == p.kv_heads and p.seqlen_q > 1 and not p.direction.backward:
        yield from launched(p, BACKEND, inputs, threads, "OpenVINO", precision=precision)


def launched(
    p: Problem, backend: Backend, inputs: dict[str, Array], threads: int, name: str, **how: str
) -> Iterator[Contender]:
    """A kernel of a plugin whose library writes O into the arena; arguments as those of ``plugged``."""
    for session, arena in plugged(p, backend, inputs, threads, **how):

        def output(arena: Arena = arena) -> Array:
            o = np.array(arena.view("o"), np.float32)
            return o.swapaxes(1, 2) if p.layout is Layout.BSHD else o

        yield Contender(name, session.launch, output)


def plugged(
    p: Problem, backend: Backend, inputs: dict[str, Array], threads: int, **how: str
) -> Iterator[tuple[Session, Arena]]:
    """A kernel of a plugin, ready to launch as in the worker; none if a rule refuses it, unless only as a choice.

    Args:
        inputs: the inputs as (batch, heads, rows, dims), whatever the problem's layout.
        how: members of the kernel's algorithm.
    """
    found = backend.probe()
    if found.state is not State.OK:
        raise ImportError(f"{found.why}: {found.help}")
    device = next(here for here in found.devices if here.id == CPU)
    for decision in backend.decide(p, device):
        kernel, against = decision.kernel, getattr(decision, "reasons", ())
        severe = any(reason.severity is not Severity.CHOICE for reason in against)
        if severe or kernel is None or any(str(getattr(kernel.algorithm, key)) != value for key, value in how.items()):
            continue
        plan = backend.plan(p, kernel, device)
        arena = Arena(layout_of(p, plan.workspaces))
        turned = p.layout is Layout.BSHD
        arena.write({n: np.ascontiguousarray(a.swapaxes(1, 2)) if turned else a for n, a in inputs.items()})
        arena.prepare()
        session = backend.open(device)
        session.load(plan, [])
        session.bind(memoryview(arena._map), arena.layout.tensors, threads)
        yield session, arena


def library_versions() -> dict[str, str]:
    """The versions of the libraries in use."""
    from importlib.metadata import PackageNotFoundError, version

    out = {}
    for name in ("torch", "onnxruntime", "openvino", "numpy"):
        try:
            out[name] = version(name)
        except PackageNotFoundError:
            out[name] = "absent"
    return out


def machine() -> dict[str, str | int]:
    """A description of the machine."""
    device, processor = detect(), this_processor()
    known = microarchitecture(processor)
    named = {
        "family": processor.family,
        "model": processor.model,
        "microarchitecture": known.name if known else "unknown",
    }
    return {
        "cpu": device.name,
        **named,
        "arch": device.archs[0],
        "threads": device.units,
        "llc_bytes": device.llc_bytes,
    } | {"governor": _read(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"))}


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except OSError:
        return "unknown"
