"""What counts as a right kernel of FlashAttention-3: known hazards alone, in both arithmetics, under every seed."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from fmha_cli.backends.flash_attn_3.catalogue import family_kernels
from fmha_cli.codegen.flash_attn_3.instance import forward_instance
from fmha_cli.domain.features import Arithmetic
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.verdict import Verdict
from tests.checks import flash_attn_3_check as module
from tests.checks.flash_attn_3_check import KNOWN, SEEDS, counted, keep, reported
from tests.checks.flash_attn_3_problems import PROBLEMS


def kernel(*, packed: bool) -> KernelSpec:
    return next(k for k in family_kernels("sm_90a", Family.FWD) if forward_instance(k).a.pack_gqa is packed)


def test_a_finding_is_known_for_the_kernels_of_its_report_alone() -> None:
    packed, apart = kernel(packed=True).digest, kernel(packed=False).digest
    combine = family_kernels("sm_90a", Family.FWD_SPLITKV_COMBINE)[0].digest
    assert reported([apart, packed], "missing-fence")
    assert not reported([apart], "missing-fence")
    assert not reported([packed], "missing-wait")
    assert reported([combine], "uninitialised-register")
    assert not reported([packed, apart], "uninitialised-register")


@pytest.mark.parametrize(("numbers", "verdict"), [(Verdict.PASSED, KNOWN), (Verdict.WRONG, "HAZARD")])
def test_a_known_hazard_does_not_hide_wrong_numbers(
    monkeypatch: pytest.MonkeyPatch, numbers: Verdict, verdict: str
) -> None:
    finding = {"kind": "missing-fence"}
    stage = {"digest": kernel(packed=True).digest, "family": "fwd"}
    record = {"verdict": "HAZARD", "findings": [finding], "stages": [stage], "checks": {}, "notes": []}
    made = SimpleNamespace(comparisons=[SimpleNamespace(verdict=numbers)], to_dict=lambda: record)
    monkeypatch.setattr(module, "run", lambda *arguments, **options: [made])
    assert module.row_of(PROBLEMS[0], Arithmetic.DOCUMENT, 0)["verdict"] == verdict


def rows(verdict: str = "PASSED", **change: Any) -> list[dict[str, Any]]:
    one = {"feature": "f", "flags": PROBLEMS[0].flags, "verdict": verdict, "kernels": {"d": "fwd"}, "findings": {}}
    return [one | {"arithmetic": a.value, "seed": seed} | change for a, seed in product(Arithmetic, SEEDS)]


@pytest.mark.parametrize(
    ("found", "sort"),
    [
        (rows(), "PASSED"),
        (rows(KNOWN), KNOWN),
        ([*rows()[:-1], *rows(KNOWN)[-1:]], KNOWN),
        (rows()[:-1], None),  # a seed is missing
        ([*rows(), *rows("WRONG")], None),
        (rows("HAZARD"), None),
        (rows(arithmetic="document"), None),
    ],
)
def test_a_kernel_counts_if_all_its_rows_are_good(found: list[dict[str, Any]], sort: str | None) -> None:
    assert {name for some in counted(found).values() for name, digests in some.items() if digests} == {sort} - {None}


def test_problems_that_did_not_run_are_kept_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Any] = []
    monkeypatch.setattr(module, "write_json", lambda path, document: written.append(document))
    keep(rows())
    verdicts = [row["verdict"] for row in written[0]["rows"]]
    assert verdicts.count("PASSED") == len(rows())
    assert verdicts.count("NOT_RUN") == len(PROBLEMS) - 1
