"""A dry run shows what the session launches, with every field of the block; it needs no driver or cuda-python."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.backends.cuda.dry_run import describe_launches
from fmha_cli.backends.flash_attn.upstream import UPSTREAM
from fmha_cli.codegen.flash_attn.params import FaBwdParams, FaFwdParams
from fmha_cli.codegen.struct import c_fields, host_layout
from fmha_cli.domain.errors import KernelFailure
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.plan import Artifact, Plan
from fmha_cli.domain.protocols import LaunchView
from fmha_cli.run.job import WorkerJob
from fmha_cli.run.layout import layout_of
from fmha_cli.run.supervisor import Supervisor
from tests.support.fakes.flash_attn.cubins import fake_cubin, fake_cubins
from tests.support.generators.flash_attn.plans import FAMILIES, device_for, plan_for


def described(plan: Plan, folder: Path, arch: str) -> tuple[LaunchView, ...]:
    tensors = layout_of(plan.problem, plan.workspaces).tensors
    return describe_launches(UPSTREAM, plan, fake_cubins(plan, folder), tensors, device_for(arch))


def values(view: LaunchView) -> dict[str, Any]:
    return {argument.name: argument.value for argument in view.arguments}


@pytest.mark.parametrize(("line", "arch", "families"), FAMILIES)
def test_every_family(tmp_path: Path, line: str, arch: str, families: tuple[Family, ...]) -> None:
    views = described(plan_for(line, arch), tmp_path, arch)
    assert tuple(view.family for view in views) == tuple(family.value for family in families)
    for view in views:
        block: type = FaBwdParams if view.family.startswith("bwd") else FaFwdParams
        names = [name for name, _, _ in host_layout(block)]
        shown = [argument.name for argument in view.arguments]
        assert [n.partition(".")[0] for n in shown if n not in ("nsplits", "philox_args.offset")] == names
        ends = [argument.offset + argument.bytes for argument in view.arguments]
        assert all(a.offset >= end for a, end in zip(view.arguments[1:], ends, strict=False))
        assert ends[-1] <= view.argument_bytes
        told = values(view)
        pointers = {name for name, kind in c_fields(block) if kind.spelling.endswith("*")}
        assert all(told[name] is None or isinstance(told[name], str) for name in pointers)
        assert not any(str(told[name]).startswith("0x") for name in pointers)
        assert (told["q_ptr"], told["k_ptr"], told["v_ptr"]) == ("q", "k", "v")
        assert ("nsplits" in told) == (view.family == "bwd_convert_dq")
        assert view.symbol == "fmha_fa2"


def test_values(tmp_path: Path) -> None:
    line = "-b 2 -H 4 --kv-heads 2 -s 65 -d 64 --dropout 0.25 --seed 7 --offset 9 --direction bwd --deterministic"
    first, main, last = described(plan_for(line, "sm_80"), tmp_path, "sm_80")
    told = values(main)
    assert (told["dk_ptr"], told["dv_ptr"], told["dq_accum_ptr"]) == ("dk_expanded", "dv_expanded", "dq_accum")
    assert (told["p_dropout"], told["b"], told["h"], told["h_k"], told["deterministic"]) == (0.75, 2, 4, 2, True)
    assert (told["cu_seqlens_q"], told["p_ptr"]) == (None, None)
    assert values(last)["nsplits"] == main.grid[0]
    assert first.notes == ("before it, not timed: dq_accum zeroed",)
    assert (main.notes, last.notes) == ((), ())
    assert last.argument_bytes == main.argument_bytes + 4


def test_a_seed_is_shown_by_its_parts(tmp_path: Path) -> None:
    line = "-b 1 -H 2 -s 64 -d 64 --dropout 0.25 --seed 7 --offset 9"
    (view,) = described(plan_for(line, "sm_80"), tmp_path, "sm_80")
    told = values(view)
    assert (told["philox_args.seed"], told["philox_args.offset"], told["rng_state"]) == (7, 9, "rng_state")


def test_packed_sequences_and_what_is_not_launched(tmp_path: Path) -> None:
    (view,) = described(plan_for("--seqlens-q 3,2 --seqlens-k 0,0 -H 2 -d 64", "sm_90"), tmp_path, "sm_90")
    assert "not launched" in view.notes[0]
    assert values(view)["cu_seqlens_q"] == "cu_seqlens_q"


def test_a_cubin_of_another_block_is_refused(tmp_path: Path) -> None:
    plan = plan_for("-b 1 -H 2 -s 64 -d 64 --splits 1", "sm_90")
    (path,) = fake_cubins(plan, tmp_path)
    path.write_bytes(fake_cubin(plan.main, drift=4))
    with pytest.raises(KernelFailure, match="does not match the host"):
        describe_launches(UPSTREAM, plan, [path], layout_of(plan.problem, plan.workspaces).tensors, device_for("sm_90"))


def test_through_the_worker_without_a_recorder(tmp_path: Path) -> None:
    plan = plan_for("-b 1 -H 2 -s 64 -d 64 --splits 1", "sm_90")
    (path,) = fake_cubins(plan, tmp_path)
    artifact = Artifact(path, hashlib.sha256(path.read_bytes()).hexdigest(), path.stem, path, False, 0.0)
    job = WorkerJob(entry="fmha_cli.backends.flash_attn", device=device_for("sm_90"), plan=plan, artifacts=(artifact,))
    with Supervisor() as supervisor:
        (view,) = supervisor.describe(job, layout_of(plan.problem, plan.workspaces), None)
    assert (view.grid, view.block) == ((1, 1, 2), (128, 1, 1))


def test_it_needs_no_cuda_python() -> None:
    code = "import sys, fmha_cli.backends.cuda.dry_run; print([n for n in sys.modules if n.split('.')[0] == 'cuda'])"
    out = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, check=True, cwd=Path(__file__).parents[3]
    )
    assert out.stdout.strip() == b"[]"
