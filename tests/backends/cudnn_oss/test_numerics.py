"""Plans, parameters, descriptors and launches, run on the model of the kernels; the product's own checks judge them."""

from __future__ import annotations

from random import Random

import pytest

from fmha_cli.backends.cudnn_oss.upstream import UPSTREAM
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.problem import Problem
from tests.support.models.cudnn_oss.kernels import run_kernel
from tests.support.models.modelled_run import plans_of, run_plan

CASES = (
    ("sm_90a", "-b 2 -H 4 --kv-heads 2 -s 256 -d 64 --causal --lse", "normal"),
    ("sm_90a", "-b 1 -H 3 -s 384 -d 128 --mask causal-tl --layout bshd --lse", "coded"),
    ("sm_90a", "-b 3 -H 2 --kv-heads 1 -s 128 -d 128 --causal --layout bhsd:bshd", "large"),
    ("sm_100a", "-b 2 -H 4 --kv-heads 2 -s 256 -d 128 --causal --lse", "ties"),
    ("sm_100a", "-b 1 -H 3 -s 768 -d 64 --mask causal-tl --layout bshd:bhsd --lse", "sparse_int"),
    ("sm_103a", "-b 3 -H 1 -s 512 -d 64 --mask window:511,0 --scale 0.3 --lse", "normal"),
)


def outcome(arch: str, line: str, kind: str, units: int = 5, seed: int = 0) -> tuple[str, ...]:
    """The faults that the checks find. A device of few multiprocessors makes each block take several tiles."""
    device = DeviceFacts(id="cuda:0", archs=(arch,), units=units)
    plan = plans_of(UPSTREAM, Problem.from_cli(f"--dtype bf16 {line}"), device)[0]
    return run_plan(UPSTREAM, run_kernel, plan, device, kind=kind, seed=seed).faults


@pytest.mark.parametrize(("arch", "line", "kind"), CASES, ids=lambda value: str(value).replace(" ", ""))
def test_directed_problems(arch: str, line: str, kind: str) -> None:
    assert outcome(arch, line, kind) == ()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_random_problems(seed: int) -> None:
    rng = Random(seed)
    arch, kv_heads = rng.choice(["sm_90a", "sm_100a", "sm_103a"]), rng.choice([1, 2, 3])
    rows = rng.choice([1, 2, 3, 5]) * (128 if arch == "sm_90a" else 256)
    line = f"-b {rng.choice([1, 2, 3])} -H {kv_heads * rng.choice([1, 2, 5])} --kv-heads {kv_heads} -s {rows}"
    line += f" -d {rng.choice([64, 128])} {rng.choice(['--causal', '--mask causal-tl'])} --lse"
    line += f" --layout {rng.choice(['bhsd', 'bshd', 'bhsd:bshd', 'bshd:bhsd'])}"
    kind = rng.choice(["normal", "coded", "large", "ties", "sparse_int"])
    assert outcome(arch, line, kind, units=rng.choice([2, 3, 132]), seed=seed) == ()
