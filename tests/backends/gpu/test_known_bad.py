"""What is known to be wrong with kernels that are offered: said where they are ranked, once."""

from __future__ import annotations

import pytest

from fmha_cli.backends.gpu.known_bad import known_bad, noted
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.arch import arch_names, load_arch
from fmha_cli.domain.decision import KNOWN, Supported, Trace
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.problem import Problem
from fmha_cli.report.documents.explain import explain_document
from fmha_cli.report.explaining import explain_view

WAIT, NAN = "without waiting for them", "bias of finfo.min"


def chosen(flags: str, backend: str, arch: str) -> Supported:
    decisions = build_registry().backend(backend).decide(Problem.from_cli(flags.split()), DeviceFacts.of_arch(arch))
    return min((d for d in decisions if isinstance(d, Supported)), key=lambda d: d.rank)


@pytest.mark.parametrize(
    ("flags", "backend", "arch", "said", "unsaid"),
    [
        ("-s 128 -d 64", "mem_efficient", "sm_80", (), (WAIT, NAN)),
        ("-s 128 -d 64 --dtype fp32 --bias elementwise", "mem_efficient", "sm_90a", (NAN,), (WAIT,)),
        ("-s 128 -d 64 --dtype fp16 --bias elementwise", "mem_efficient", "sm_80", (), (WAIT, NAN)),
        ("-s 128 -d 128 --dtype fp32", "mem_efficient", "sm_80", (WAIT,), (NAN,)),
        ("-s 128 -d 256", "mem_efficient", "sm_80", (WAIT,), (NAN,)),
        ("-s 128 -d 96 --direction bwd", "mem_efficient", "sm_80", (WAIT,), (NAN,)),
        ("-s 128 -d 64 --direction bwd", "mem_efficient", "sm_80", (), (WAIT, NAN)),
        ("-s 4096 -d 96 --dtype bf16", "ck_tile", "gfx942", ("seldom, wrong numbers",), ()),
        ("-s 4096 -d 128 --dtype bf16", "ck_tile", "gfx942", (), ("seldom",)),
    ],
)
def test_the_kernel_that_is_chosen_tells_what_is_known(
    flags: str, backend: str, arch: str, said: tuple[str, ...], unsaid: tuple[str, ...]
) -> None:
    note = chosen(flags, backend, arch).note
    assert all(text in note for text in said), note
    assert not any(text in note for text in unsaid), note
    assert note.count(KNOWN) == len(said)


def test_every_report_concerns_a_kernel_that_exists_and_has_a_link() -> None:
    for backend in ("ck_tile", "mem_efficient"):
        for report in known_bad(backend):
            assert report.link.startswith("https://github.com/")
            assert report.what
            assert report.effect in ("refused", "noted")
    kernels = [
        k for arch in ("sm_75", "sm_80") for k in build_registry().backend("mem_efficient").kernels(load_arch(arch))
    ]
    for report in known_bad("mem_efficient"):
        assert any(report.meets(kernel) for kernel in kernels), report
    assert set(arch_names()) >= {arch for b in ("ck_tile", "mem_efficient") for r in known_bad(b) for arch in r.archs}


def test_the_table_says_it_once_for_all_ranks_and_not_in_the_choice() -> None:
    problem = Problem.from_cli(["-s", "128", "-d", "96", "--direction", "bwd"])
    device = DeviceFacts.of_arch("sm_80")
    decisions = tuple(build_registry().backend("mem_efficient").decide(problem, device))
    fit = tuple(sorted((d for d in decisions if isinstance(d, Supported)), key=lambda d: d.rank))
    table = explain_view(explain_document(problem, Trace(fit), fit[0].kernel, because="fwd x because y, instead of z"))
    known = [line for line in table.details if "KNOWN" in line]
    assert len(known) == 1
    assert known[0].startswith("rank 1-4: KNOWN: ")
    assert noted(fit[0].kernel, problem).startswith(KNOWN)
    assert KNOWN not in fit[0].order
