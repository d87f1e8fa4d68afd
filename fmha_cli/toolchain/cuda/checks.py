"""The check of ``fmha doctor`` for compilers of NVIDIA GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from fmha_cli.domain.errors import FmhaError
from fmha_cli.domain.installation import CheckState, DoctorCheck, Surroundings
from fmha_cli.toolchain.cuda.toolchain import CudaKind, CudaToolchain, survey_cuda, with_ptxas

NAME = "CUDA compiler"


def check_compilers(here: Surroundings) -> Iterator[DoctorCheck]:
    """Check compilers up to the first that works. Having none is no failure, because archived kernels still run."""
    try:
        findings = survey_cuda(here.cache_root)
    except FmhaError as error:
        yield DoctorCheck.failed(NAME, "NVRTC", error)
        return
    for finding in findings:
        found, subject = finding.toolchain, finding.kind.value
        state = CheckState.SKIPPED if found is None else CheckState.OK
        what = "passed over" if found is None else f"{found.version} in {found.path.parent}"
        yield DoctorCheck(name=NAME, subject=subject, state=state, what=what, why=finding.fault, help=finding.help)
        if found is not None and found.kind is CudaKind.NVRTC:
            yield _assembler(found, here)


def _assembler(nvrtc: CudaToolchain, here: Surroundings) -> DoctorCheck:
    """Check the separate assembler for NVRTC's PTX, which only some kernels need."""
    try:
        found = with_ptxas(nvrtc, here.cache_root)
    except FmhaError as error:
        state, why, help_ = CheckState.SKIPPED, error.why, error.help
        return DoctorCheck(name=NAME, subject="ptxas", state=state, what="passed over", why=why, help=help_)
    assert found.ptxas is not None
    what = f"{found.version.rpartition(', ')[2]} in {found.ptxas.parent}"
    return DoctorCheck(name=NAME, subject="ptxas", state=CheckState.OK, what=what)
