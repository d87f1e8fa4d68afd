"""A backend of a library without the library: probe, rules from a text, decisions."""

from __future__ import annotations

import json

import pytest

from fmha_cli import api, plugin
from fmha_cli.backends.host.library import rules_from


def kernels(arch: str) -> list[api.KernelSpec]:
    signature = plugin.Signature(dtype=plugin.DType.FP32, dtype_out=plugin.DType.FP32, hdim=64, hdim_v=64)
    return [
        api.KernelSpec(
            backend="lib", family=plugin.Family.FWD, arch=arch, signature=signature, algorithm=plugin.Algorithm()
        )
    ]


def backend(distribution: str) -> plugin.LibraryBackend:
    return plugin.LibraryBackend(
        name="lib",
        distribution=distribution,
        algorithm=plugin.Algorithm,
        listed=kernels,
        table=plugin.CORE_RULES,
        session="m:S",
    )


def test_an_absent_library_is_missing_and_says_what_to_install() -> None:
    found = backend("no-such-library-of-fmha").probe()
    assert (found.state, found.help) == (plugin.State.MISSING, "pip install no-such-library-of-fmha")
    assert backend("numpy").probe().state is plugin.State.OK


def test_it_decides_by_its_table() -> None:
    (device,) = backend("numpy").probe().devices
    (good,) = backend("numpy").decide(api.Problem.of(dtype="fp32", hdim=64), device)
    (bad,) = backend("numpy").decide(api.Problem.of(dtype="fp32", hdim=80), device)
    assert isinstance(good, api.Supported)
    assert isinstance(bad, api.Unsupported)
    assert {reason.id for reason in bad.reasons} == {"K012"}


def test_rules_and_checks_must_match() -> None:
    row = {"id": "K901", "text": "t", "help": "h", "source": "s", "severity": "choice"}
    text = json.dumps({"rules": [row]})
    (rule,) = rules_from(text, {"K901": plugin.alibi_check})
    assert (rule.text, rule.severity) == ("t", plugin.Severity.CHOICE)
    for checks in ({}, {"K902": plugin.alibi_check}, {"K901": plugin.alibi_check, "K902": plugin.rows_check}):
        with pytest.raises(ValueError, match="K901"):
            rules_from(text, checks)
