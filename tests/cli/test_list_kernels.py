"""``list-kernels`` for a backend with kernel revisions and named kernel sets."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Fmha
from tests.support.schema_checks import validator

CK = ("list-kernels", "--backend", "ck_tile")


def test_a_receipt_and_its_name_list_the_same(fmha: Fmha) -> None:
    by_number = fmha(*CK, "--arch", "gfx942", "--profile", "receipt:4", "--family", "fwd", "--json").document
    by_name = fmha(*CK, "--arch", "gfx942", "--profile", "pytorch", "--family", "fwd", "--json").document
    assert by_number == by_name
    assert by_number["count"] == 432
    assert all(k["buildable"] and not k["reasons"] for k in by_number["kernels"])
    assert all(k["upstream_name"].endswith("_gfx9") for k in by_number["kernels"])
    validator("kernels").validate(by_number)


def test_an_unlisted_receipt_is_a_usage_error(fmha: Fmha) -> None:
    done = fmha(*CK, "--arch", "gfx942", "--profile", "receipt:5")
    assert done.code == 2
    assert "F003" in done.err


def test_what_cannot_be_built_is_listed_with_reasons_under_its_profile_alone(fmha: Fmha) -> None:
    listed = fmha(*CK, "--arch", "gfx1201", "--profile", "receipt:0", "--family", "batch_prefill", "--json").document
    assert listed["count"] == 384
    assert not any(kernel["buildable"] for kernel in listed["kernels"])
    assert {r["id"] for kernel in listed["kernels"] for r in kernel["reasons"]} == {"K206", "K290"}
    table = fmha(*CK, "--arch", "gfx1201", "--profile", "receipt:0", "--family", "batch_prefill").out
    assert "no: K206" in table
    plain = fmha(*CK, "--arch", "gfx1201", "--family", "batch_prefill")
    assert plain.code == 5


@pytest.mark.parametrize(("arch", "count"), [("sm_60", 44), ("sm_70", 56)])
def test_an_architecture_for_which_nothing_can_be_built_lists_what_its_project_has(
    fmha: Fmha, arch: str, count: int
) -> None:
    asked = ("list-kernels", "--backend", "mem_efficient", "--arch", arch)
    listed = fmha(*asked, "--json").document
    assert listed == fmha(*asked, "--profile", "pytorch", "--json").document
    assert listed["count"] == count == int(fmha(*asked, "--count").out)
    told = {(r["id"], r["text"]) for kernel in listed["kernels"] for r in kernel["reasons"] if not kernel["buildable"]}
    assert told == {("K501", f"NVRTC 13.0 does not compile for {arch}")}
    assert "no: K501" in fmha(*asked).out
    assert "no: K501" in fmha("build", *asked[1:], "--family", "fwd", "--dry-run").out
    refused = fmha("build", *asked[1:], "--filter", "upstream_name:fmha_cutlassF_f32_aligned_64x64_rf_*")
    assert (refused.code, "K501" in refused.out) == (3, True)
    assert fmha(*asked, "--filter", "dtype:fp8*").code == 5
    assert fmha(*asked, "--profile", "forward", "--json").document["count"] == {"sm_60": 12, "sm_70": 12}[arch]
    assert fmha(*asked[:3], "--arch", "sm_100", "--profile", "xformers").code == 5


def test_kernels_of_all_architectures_can_be_built(fmha: Fmha) -> None:
    listed = fmha("list-kernels", "--backend", "mem_efficient", "--json").document["kernels"]
    assert listed
    assert all(kernel["buildable"] for kernel in listed)
    assert not [kernel["name"] for kernel in listed if ":sm_70:" in kernel["name"] or ":sm_60:" in kernel["name"]]


def test_a_revision_without_the_architecture_names_the_one_that_has_it(fmha: Fmha) -> None:
    done = fmha(*CK, "--arch", "gfx1100")
    assert done.code == 5
    assert "F006" in done.err
    assert "--ck-rev 2026-08" in done.err
    assert fmha("list-kernels", "--backend", "ck_tile", "--arch", "gfx1100", "--ck-rev", "baseline").code == 5
    assert int(fmha(*CK, "--arch", "gfx1100", "--ck-rev", "2026-08", "--count").out) > 10000


def test_an_unknown_revision_is_a_usage_error(fmha: Fmha) -> None:
    done = fmha(*CK, "--arch", "gfx942", "--ck-rev", "2026-09")
    assert done.code == 2
    assert "F007" in done.err


@pytest.mark.promise("`--ck-rev` chooses among another revision's kernels, and says what a build needs.")
def test_a_later_revision_s_kernels_say_so(fmha: Fmha) -> None:
    argv = (
        *CK,
        "--arch",
        "gfx950",
        "--ck-rev",
        "2026-08",
        "--filter",
        "sink:yes",
        "--family",
        "fwd",
        "--dtype",
        "mxfp4",
    )
    listed = fmha(*argv, "--json").document
    assert listed["count"] > 0
    assert {kernel["algorithm"]["rev"] for kernel in listed["kernels"]} == {"2026-08"}
    assert fmha(*CK, "--arch", "gfx950", "--filter", "rev:2026-08").code == 5


def test_a_profile_of_another_backend_selects_nothing_of_this_one(fmha: Fmha) -> None:
    done = fmha("list-kernels", "--backend", "null", "--profile", "pytorch")
    assert done.code == 5
    assert "backend:ck_tile" in done.err


def test_general_profiles_hold_for_ck_tile_too(fmha: Fmha) -> None:
    backward = int(fmha(*CK, "--arch", "gfx942", "--profile", "backward", "--count").out)
    assert backward == int(fmha(*CK, "--arch", "gfx942", "--family", "bwd*", "--count").out) == 7818


def test_the_message_of_an_emptied_filter_counts_all_kernels(fmha: Fmha) -> None:
    done = fmha(*CK, "--arch", "gfx942", "--filter", "hdim:7", "--family", "bwd_dot_do_o")
    assert done.code == 5
    assert "matches none of the 78 kernels that match family:bwd_dot_do_o" in done.err


@pytest.mark.slow
@pytest.mark.ci
def test_a_kernel_that_is_refused_by_name_says_why(fmha: Fmha) -> None:
    listed = fmha(*CK, "--arch", "gfx1201", "--profile", "receipt:0", "--family", "batch_prefill", "--json").document
    done = fmha("inspect", listed["kernels"][0]["name"])
    assert done.code == 2
    assert "K206" in done.err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--family", "nope"), "--family nope: no such family"),
        (("--family", "fwd,bwd"), "did you mean bwd_dot_do_o or bwd_dq_dk_dv"),
        (("--dtype", "float16"), "did you mean fp16"),
    ],
)
def test_a_family_or_type_that_does_not_exist_is_a_usage_error(fmha: Fmha, flags: tuple[str, ...], said: str) -> None:
    """Globs that match an existing name may select nothing, as those of ``--filter`` may."""
    done = fmha("list-kernels", "--backend", "null", *flags)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert f"--> {flags[0]}" in done.err
    assert fmha("list-kernels", "--backend", "null", "--family", "bwd*", "--count").code == 5


def test_an_empty_selection_names_the_profile_and_the_architecture(fmha: Fmha) -> None:
    done = fmha("list-kernels", "--profile", "pytorch", "--filter", "hdim:7", "--arch", "gfx942")
    assert done.code == 5
    assert "(of --arch gfx942 --profile pytorch)" in " ".join(done.err.split())
