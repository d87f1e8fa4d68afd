"""Reasons about whole backends are one line for people; JSON has each."""

from __future__ import annotations

from fmha_cli.domain.rules import Reason
from fmha_cli.report.lines import folded, reason_text


def test_backends_that_lack_kernels_for_one_architecture_share_a_line() -> None:
    own = Reason("K012", "hdim 300 is not supported by ck_tile on gfx942", "--hdim 256 or less")
    others = [Reason("K022", f"{name} has no kernels for gfx942", f"--arch one of {name}") for name in ("fa", "cpu")]
    here = [Reason("K023", f"{name}: no driver is loaded", "h") for name in ("x", "y", "z")]
    shown = [reason_text(r) for r in folded([own, others[0], *here, others[1]])]
    assert shown == [
        "K012 hdim 300 is not supported by ck_tile on gfx942 (help: --hdim 256 or less)",
        "K022 2 backends have no kernels for gfx942: fa, cpu",
        "K023 3 backends have no device here: x, y, z (help: --arch A builds for an architecture without one; `fmha "
        "devices -v` says why each has none)",
    ]


def test_one_backend_keeps_its_own_words_and_other_architectures_their_lines() -> None:
    alone = [
        Reason("K022", "fa has no kernels for gfx942", "--arch one of sm_80"),
        Reason("K022", "cpu has no kernels for sm_80", "--arch one of generic"),
        Reason("K023", "x: no driver is loaded", "h"),
        Reason("K001", "dtype", None),
    ]
    assert folded(alone) == alone
