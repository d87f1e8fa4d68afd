"""The meaning of a comparison in words: the fault of a wrong row, and why a pass would prove little."""

from __future__ import annotations

import numpy as np

from fmha_cli.domain.problem import Problem
from fmha_cli.oracle.coded import code, decode_coded, key_id, key_of
from fmha_cli.oracle.fills import CODED
from fmha_cli.oracle.reference import Reference
from fmha_cli.oracle.tensors import F64, Array

_SAME = 2.0**-5
_ALIGNED = 0.9


def diagnose(problem: Problem, got: Array, reference: Reference, worst: int, fill: str) -> list[str]:
    """Notes about row ``worst`` of ``got`` (rows, hdim_v); empty when no cause is known.

    Under a fill whose V is coded the error points along (v_j - o) for the key j that is missing or should be masked.
    """
    row, expected = got[worst].astype(np.float64), reference.o[worst]
    name = reference.rows.name(worst)
    if not np.isfinite(row).all():
        return [f"row {name}: {int((~np.isfinite(row)).sum())} of {len(row)} elements are not finite"]
    if not row.any() and expected.any():
        return [f"row {name} is zero"]
    notes = []
    distance = np.linalg.norm(reference.o - row, axis=1)
    other = int(distance.argmin())
    if other != worst and distance[other] <= _SAME * np.linalg.norm(row):
        notes.append(f"row {name} holds the answer of row {reference.rows.name(other)}")
    if fill in CODED and not (problem.v_in_k and fill == "pointer"):  # there V is as K, whose rows point
        notes += _name_key(problem, row, expected, reference, worst)
    return notes


def _name_key(problem: Problem, row: F64, expected: F64, reference: Reference, worst: int) -> list[str]:
    b, h = int(reference.rows.b[worst]), int(reference.rows.h[worst])
    name, own = reference.rows.name(worst), h // (problem.heads // problem.kv_heads)
    exact = decode_coded(row)
    if exact is not None and exact != decode_coded(expected):
        at = key_of(problem, exact)
        return [f"row {name} is the value row of key j={at[2]} of key/value head {at[1]}, sequence {at[0]}"]
    error = row - expected
    best: tuple[float, int, int] = (0.0, 0, 0)
    for g in range(problem.kv_heads):
        codes = code(key_id(problem, b, g, np.arange(problem.key_lengths()[b])), problem.hdim_v)
        direction = codes.astype(np.float64) - expected
        sizes = np.linalg.norm(direction, axis=1) * np.linalg.norm(error)
        cosine = direction @ error / np.where(sizes > 0, sizes, 1.0)
        if len(cosine):
            j = int(np.abs(cosine).argmax())
            best = max(best, (float(cosine[j]), g, j), key=lambda x: abs(x[0]))
    cosine_best, g, j = best
    if abs(cosine_best) < _ALIGNED:
        return []
    what = "counts too much, or should be masked" if cosine_best > 0 else "is missing, or counts too little"
    where = "" if g == own else f" of key/value head {g} (its own is {own})"
    return [f"row {name}: key j={j}{where} {what}"]
