"""The published conformance tests: what every backend must do. A plugin's own tests run them::

    import pytest
    from fmha_cli import conformance
    from my_plugin import MyBackend

    @pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
    def test_conformance(check, tmp_path):
        check(conformance.Subject(MyBackend(), entry="my_plugin", cache_root=tmp_path / "cache"))

Claims drive tests: problems that the backend accepts must run and pass, and each refusal must carry a Reason.

A plugin for a library states what the library does. Tests can ask the library itself, so nobody has to trust the rules::

    NEEDLESS = {"K948": "a query that sees one key has no use for a bias"}

    def test_a_rule_is_borne_out_by_the_library(subject):
        problem = api.Problem.from_cli("-H 2 -s 5 -d 8 --dtype fp32 --alibi")
        conformance.check_refusal(subject, "K948", problem, next(iter(BACKEND.listed("generic"))))

    def test_random_problems_agree_with_the_library(subject):
        found = conformance.check_agreement(subject, conformance.library_problems(seed=1, count=500), NEEDLESS)
        assert found.accepted >= 150

``check_sources``, ``check_codes`` and ``check_parent`` take arguments too, and a plugin calls the ones that fit it. A
plugin that needs other plugins names them in ``Subject(beside=("fmha_amdgpu_emu",))``; ``judged(subject, problems,
device="emu:gfx942")`` executes its kernels on an emulated device.
"""

from fmha_cli.conformance.checks import (
    CHECKS,
    check_claims,
    check_decisions,
    check_invariances,
    check_names,
    check_registration,
    check_rules,
    check_times,
)
from fmha_cli.conformance.library import (
    RIGHT,
    Agreement,
    borne_out,
    check_agreement,
    check_refusal,
    check_refused,
    insisted,
    judged,
    own_rules,
    told,
)
from fmha_cli.conformance.plugin import check_codes, check_parent, check_sources, probed
from fmha_cli.conformance.problems import library_problems
from fmha_cli.conformance.subject import Subject
from fmha_cli.domain.features import FILLS

__all__ = [
    "CHECKS",
    "FILLS",
    "RIGHT",
    "Agreement",
    "Subject",
    "borne_out",
    "check_agreement",
    "check_claims",
    "check_codes",
    "check_decisions",
    "check_invariances",
    "check_names",
    "check_parent",
    "check_refusal",
    "check_refused",
    "check_registration",
    "check_rules",
    "check_sources",
    "check_times",
    "insisted",
    "judged",
    "library_problems",
    "own_rules",
    "probed",
    "told",
]
