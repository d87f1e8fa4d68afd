"""One problem of extreme numbers through the product's Python entry, judged by its verdict and by the referees."""

from __future__ import annotations

from importlib.util import find_spec

from fmha_cli import api
from fmha_cli.backends.gpu.known_bad import known_bad
from tests.support.generators.extreme_problem import Drawn
from tests.support.referees.extreme_judging import Judged, judge


def run(
    problem: Drawn, registry: api.Registry, *, backend: str, device: str | None = None, arch: str | None = None
) -> Judged:
    """Run one problem and judge it; PyTorch is the second referee where it is installed."""
    tensors = dict(problem.tensors)
    first = {name: tensors.pop(name, None) for name in ("q", "k", "v", "do")}
    options = {"backend": backend, "device": device, "arch": arch, "registry": registry}
    try:
        found = api.attention(**first, tensors=tensors, **options, **problem.flags)
    except api.UnsupportedError as no:
        return Judged(problem, str(arch), "UNSUPPORTED", str(no.why))
    except api.KernelFailure as no:
        return Judged(problem, str(arch), "FAILED", f"{no}: {no.why}")
    record = found.record
    out = Judged(problem, str(record.arch), record.verdict.value, "; ".join(record.notes))
    on_gpu = backend != "cpu"
    kernels = [registry.parse_kernel(stage.kernel) for stage in record.stages] if on_gpu else []
    reports = [bad for bad in known_bad(backend) if any(bad.meets(kernel) for kernel in kernels)]
    out.failed = frozenset(
        name for found_by in record.comparisons for name, check in found_by.checks if not check.passed
    )
    out.hazards = any(bad.finding for bad in reports)
    return judge(out, found.outputs, reports=reports, on_gpu=on_gpu, torch=find_spec("torch") is not None)
