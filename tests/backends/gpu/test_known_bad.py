"""What is known to be wrong with kernels that are offered: said where they are ranked, once."""

from __future__ import annotations

import pytest

from fmha_cli.backends.gpu.known_bad import known_bad, noted
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.arch import arch_names, load_arch
from fmha_cli.domain.decision import KNOWN, Supported, Trace
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.emulation import FindingKind
from fmha_cli.domain.problem import Problem
from fmha_cli.report.documents.explain import explain_document, explain_view

WAIT, NAN = "without waiting for them", "bias of finfo.min"
EMPTY, HIDDEN = "whose bias is -inf throughout", "does not hide a key whose K or V"
LOST, LOST16, ROUGH = (
    "rows whose largest score is 1.4e9 or more",
    "rows whose largest score is 1.8e8 or more",
    "is off by up to |LSE| * 2^-22",
)
JOINED, SCALED, STORED = "joined by weights exp(LSE", "multiplied by the scale before", "no tcgen05.wait::ld between"
BACKENDS = ("ck_tile", "mem_efficient", "flash_attn", "flash_attn_3", "cudnn_oss")


def chosen(flags: str, backend: str, arch: str) -> Supported:
    decisions = build_registry().backend(backend).decide(Problem.from_cli(flags.split()), DeviceFacts.of_arch(arch))
    return min((d for d in decisions if isinstance(d, Supported)), key=lambda d: d.rank)


@pytest.mark.parametrize(
    ("flags", "backend", "arch", "said", "unsaid"),
    [
        ("-s 128 -d 64", "mem_efficient", "sm_80", (), (WAIT, NAN)),
        ("-s 128 -d 64 --dtype fp32 --bias elementwise", "mem_efficient", "sm_90a", (NAN, EMPTY, HIDDEN), (WAIT,)),
        ("-s 128 -d 64 --dtype fp16 --bias elementwise", "mem_efficient", "sm_80", (EMPTY, HIDDEN), (WAIT, NAN)),
        ("-s 128 -d 64 --scale 1e20", "mem_efficient", "sm_80", (), (LOST,)),
        ("-s 128 -d 64 --scale 20 --direction bwd", "mem_efficient", "sm_80", (ROUGH,), ()),
        ("-s 128 -d 128 --dtype fp32", "mem_efficient", "sm_80", (WAIT,), (NAN,)),
        ("-s 128 -d 256", "mem_efficient", "sm_80", (WAIT,), (NAN,)),
        ("-s 128 -d 96 --direction bwd", "mem_efficient", "sm_80", (WAIT,), (NAN,)),
        ("-s 128 -d 64 --direction bwd", "mem_efficient", "sm_80", (), (WAIT, NAN)),
        ("-s 4096 -d 96 --dtype bf16", "ck_tile", "gfx942", ("seldom, wrong numbers",), ()),
        ("-s 4096 -d 128 --dtype bf16", "ck_tile", "gfx942", (), ("seldom", LOST)),
        ("-s 64 -d 64 --dtype bf16 --scale 1e8", "ck_tile", "gfx942", (LOST,), (LOST16,)),
        ("-s 64 -d 64 --dtype fp16 --scale 1e8", "ck_tile", "gfx942", (LOST16,), (LOST,)),
        ("-s 64 -d 64 --scale 1e8 --softcap 20", "ck_tile", "gfx942", (), (LOST16,)),
        ("-s 64 -d 64 --dtype bf16 --scale 1e8 --bias elementwise", "ck_tile", "gfx942", (NAN, EMPTY, HIDDEN), (LOST,)),
        ("-s 64 -d 64 --dtype fp16 --causal --bias elementwise", "ck_tile", "gfx942", (HIDDEN,), (NAN, EMPTY)),
        ("-s 64 -d 64 --scale 1e8 --direction bwd", "ck_tile", "gfx942", (ROUGH,), (LOST16,)),
        ("-s 64 -d 64", "flash_attn", "sm_80", (), (LOST16, ROUGH)),
        ("-s 64 -d 64 --scale 2e6", "flash_attn", "sm_80", (), (LOST16,)),
        ("-s 64 -d 64 --scale 3e6", "flash_attn", "sm_80", (LOST16,), (LOST,)),
        (
            "-s 1 --seqlen-k 4096 -d 64 --dtype bf16 --splits 4 --scale 1e8",
            "flash_attn",
            "sm_90a",
            (LOST, JOINED),
            (LOST16,),
        ),
        ("-s 1 --seqlen-k 4096 -d 64 --dtype bf16 --splits 4", "flash_attn", "sm_90a", (), (JOINED,)),
        ("-s 1 --seqlen-k 4096 -d 64 --splits 4 --scale 20", "ck_tile", "gfx942", (JOINED,), (LOST16,)),
        ("-s 1 --seqlen-k 4096 -d 64 --splits 4", "ck_tile", "gfx942", (), (JOINED,)),
        (
            "-s 1 --seqlen-k 4096 -d 64 --splits 4 --bias elementwise --dtype bf16",
            "ck_tile",
            "gfx942",
            (JOINED, NAN, HIDDEN, EMPTY),
            (),
        ),
        ("-s 64 -d 64 --scale 1e-4 --direction bwd", "mem_efficient", "sm_80", (SCALED,), (ROUGH,)),
        ("-s 64 -d 64 --scale 1e-4 --dtype bf16 --direction bwd", "mem_efficient", "sm_80", (), (SCALED,)),
        ("-s 64 -d 64 --scale 0.1 --direction bwd", "mem_efficient", "sm_80", (), (SCALED,)),
        ("-s 64 -d 64 --scale 20 --direction bwd", "flash_attn", "sm_80", (ROUGH,), ()),
        ("-s 256 -d 64 --dtype bf16 --causal --scale 1e8", "cudnn_oss", "sm_90a", (), (LOST, STORED)),
        ("-s 256 -d 64 --dtype bf16 --causal --scale 1e8", "cudnn_oss", "sm_100a", (LOST, STORED), ()),
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
    for backend in BACKENDS:
        for report in known_bad(backend):
            assert report.link.startswith("https://github.com/")
            assert report.what
            assert report.effect in ("refused", "noted")
            assert not report.finding or report.finding in set(FindingKind)
    for backend in BACKENDS[1:]:  # of ck_tile there are too many to look at
        made = build_registry().backend(backend)
        kernels = [
            k for arch in ("sm_75", "sm_80", "sm_90a", "sm_100a", "sm_103a") for k in made.kernels(load_arch(arch))
        ]
        for report in known_bad(backend):
            assert any(report.meets(kernel) for kernel in kernels), report
    assert set(arch_names()) >= {arch for b in BACKENDS for r in known_bad(b) for arch in r.archs}


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
