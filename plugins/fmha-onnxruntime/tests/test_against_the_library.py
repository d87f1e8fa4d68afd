"""Random problems: what the rules accept passes, and what they refuse the library refuses too, or computes wrongly."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest
from fmha_onnxruntime import BACKEND

from fmha_cli import api, conformance

pytestmark = pytest.mark.skipif(BACKEND.probe().state is not api.State.OK, reason="onnxruntime is not installed")


def test_x(tmp_path: Path) -> None:
    subject = conformance.Subject(BACKEND, entry="fmha_onnxruntime", cache_root=tmp_path / "cache")
    problems = list(conformance.library_problems(1, 500))
    records = conformance.judged(subject, problems)
    ran = [r for r in records if r.kernel is not None]
    print(Counter(r.verdict for r in records), len({r.repro for r in ran}), file=sys.stderr)
    print(Counter((r.kernel.algorithm["op"], r.kernel.signature["dtype"]) for r in ran), file=sys.stderr)
    for r in ran:
        if r.verdict is not api.Verdict.PASSED:
            print(r.verdict, r.kernel.algorithm, r.repro, r.notes, r.checks and r.checks.o, file=sys.stderr)
    own = lambda id: id.startswith("K93")
    pairs, ids = [], {}
    for p in problems:
        for d in BACKEND.decide(p, subject.devices[0]):
            if isinstance(d, api.Unsupported) and all(own(r.id) for r in d.reasons):
                pairs.append((p, d.kernel)); ids[p, d.kernel] = tuple(r.id for r in d.reasons)
    c = Counter(); ex = {}
    for p, k, r in conformance.insisted(subject, pairs):
        key = (k.algorithm.op.value, ids[p, k], r.verdict.value)
        c[key] += 1; ex.setdefault(key, (r.repro, r.notes))
    for key, n in sorted(c.items()):
        print(n, key, ex[key], file=sys.stderr)
