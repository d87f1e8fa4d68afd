"""The published conformance tests: what every backend must do. A plugin's own tests run them::

    import pytest
    from fmha_cli import conformance
    from my_plugin import MyBackend

    @pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
    def test_conformance(check, tmp_path):
        check(conformance.Subject(MyBackend(), entry="my_plugin", cache_root=tmp_path / "cache"))

Claims drive tests: what the backend accepts must run and pass, what it refuses must carry a Reason. ``docs/writing-a-backend.md``
shows the tests of a plugin for a library.
"""

from fmha_cli.conformance.checks import (
    CHECKS,
    check_claims,
    check_decisions,
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
from fmha_cli.conformance.library_problems import library_problems
from fmha_cli.conformance.plugin import check_codes, check_parent, check_sources, probed
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
