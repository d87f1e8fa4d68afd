"""Tuned kernels in CK's own forms: the configuration that its generator reads, and the rows of aiter's tuner.

The configuration (``CK_TILE_FMHA_FWD_CUSTOM_TUNE_CONFIG_FILE``, ROCm/rocm-libraries PR 11298) keys its tiles by type and compiled
head dims; only ``a.max_seqlen_q`` may tell tiles of one bucket apart. Problems that differ otherwise cannot share a file. Sources:
``test_tune_config_occupancy.py`` of that request; aiter ``csrc/cpp_itfs/mha/tools`` ``mha_tune.py`` (``TUNED_CSV_COLS``),
``mha_gen_runtime_json.py`` (intervals).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from fmha_cli.backends.ck_tile.generator_check import check_config
from fmha_cli.backends.ck_tile.upstream_names import upstream_name
from fmha_cli.codegen.ck_tile.algorithm import algorithm_of
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.features import Bias, QScale
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.mask import MaskKind
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tuning import TunedFile, TunedKernel

CUSTOM, AITER = "ck-custom", "aiter-csv"

_TILE = ("F_bm0", "F_bn0", "F_bk0", "F_bn1", "F_bk1", "F_bk0max")
_WAVES = ("F_rm0", "F_rn0", "F_rk0", "F_rm1", "F_rn1", "F_rk1")
_WARP = ("F_wm0", "F_wn0", "F_wk0", "F_wm1", "F_wn1", "F_wk1")

COLUMNS = (
    *("max_seqlen", "mode", "dtype", "hdim_q", "hdim_v", "mask_type", "nhead_q", "nhead_k", "has_logits_soft_cap"),
    *("bias_type", "has_lse", "has_dropout", "skip_min_seqlen_q", "qscale_type", "has_sink", "bench_variant"),
    *("best_hdim_q", "best_hdim_v", "best_time_ms", "best_tflops", "best_gbps", "best_kname", "best_tile_name"),
    *("best_tile_expr", "status"),
)
"""Columns of ``mha_tuned_*.csv``, in aiter's order."""

_MASKS = {MaskKind.NONE: 0, MaskKind.CAUSAL_TL: 1, MaskKind.CAUSAL: 2}
_QSCALES = {QScale.NONE: 0, QScale.TENSOR: 1, QScale.BLOCK: 2, QScale.KV_BLOCK: 3, QScale.MX: 4}


def export_tuned(form: str, kernels: Sequence[TunedKernel], options: Mapping[str, str]) -> TunedFile:
    """See ``Exporting.export_tuned``."""
    ordered = sorted(kernels, key=lambda one: one.problem.seqlen_q)
    for one in ordered:
        if one.kernel.family is not Family.FWD:
            raise _refusal(form, f"{one.kernel.family} of `{one.problem.repro()}`: the form has forward kernels alone")
    first = ordered[0]
    for other in ordered[1:]:
        differing = [name for name, value in _signature(other).items() if _signature(first)[name] != value]
        if differing:
            what = f"`{first.problem.repro()}` and `{other.problem.repro()}` differ in {', '.join(differing)}"
            raise _refusal(form, f"{what}; one file holds problems that differ in their lengths alone")
    for one, after in pairwise(ordered):
        if one.problem.seqlen_q == after.problem.seqlen_q:
            raise _refusal(
                form, f"two kernels for {one.problem.seqlen_q} queries: `fmha tune verify` says which one counts"
            )
    if form == AITER:
        return TunedFile(
            _csv(ordered), why="no program takes these rows by themselves; mha_gen_runtime_json.py merges them"
        )
    text = json.dumps(_config(ordered), indent=1) + "\n"
    proof, why = check_config(text, first.kernel.arch, [upstream_name(one.kernel) for one in ordered], options)
    return TunedFile(text, proof, why)


def _refusal(form: str, why: str) -> UsageError:
    help = "fmha tune export --format FORM ID...: the ids of those that share a file"
    return UsageError(
        f"--format {form}: these problems cannot share a file", code="E066", where="--format", why=why, help=help
    )


def _signature(one: TunedKernel) -> dict[str, Any]:
    """The properties that must be equal in one file."""
    problem, signature = one.problem, one.kernel.signature
    return {
        "architecture": one.kernel.arch,
        "mode": problem.mode.value,
        "dtype": problem.dtype.value,
        "hdim": problem.hdim,
        "hdim_v": problem.hdim_v,
        "compiled hdim": (signature.hdim, signature.hdim_v),
        "mask": problem.mask.kind,
        "heads": (problem.heads, problem.kv_heads),
        "softcap": bool(problem.softcap),
        "bias": _bias(problem),
        "lse": problem.lse,
        "dropout": bool(problem.dropout),
        "qscale": problem.qscale,
        "sink": problem.sink_logits,
    }


def _bias(problem: Problem) -> str:
    return "alibi" if problem.alibi.value != "none" else "no" if problem.bias is Bias.NONE else "bias"


def tile_of(kernel: KernelSpec) -> dict[str, int]:
    """The 19 numbers of a forward kernel's tile, by the names of ``FmhaFwdTileSize``."""
    algorithm = algorithm_of(kernel)
    numbers = (*algorithm.tile, *algorithm.waves, *algorithm.warp, algorithm.occupancy)
    return dict(zip((*_TILE, *_WAVES, *_WARP, "F_occupancy"), numbers, strict=True))


def _config(ordered: Sequence[TunedKernel]) -> dict[str, Any]:
    first = ordered[0]
    problem, signature = first.problem, first.kernel.signature
    dtype = problem.dtype.value
    return {
        "schema_version": 1,
        "target": first.kernel.arch,
        "dtypes": [dtype],
        "tiles": {dtype: {f"{signature.hdim},{signature.hdim_v}": _tiles(ordered)}},
        "filters": {
            "mode": [problem.mode.value],
            "vlayout": sorted({algorithm_of(one.kernel).vlayout.value for one in ordered}),
            "mask": ["s_no" if problem.mask.kind is MaskKind.NONE else "s_mask"],
            "bias": [_bias(problem)],
            "lse": ["t" if problem.lse else "f"],
            "dropout": ["t" if problem.dropout else "f"],
            "logits": ["t" if problem.softcap else "f"],
            "qscale": ["no" if problem.qscale is QScale.NONE else "pertensor"],
            "skip": ["f"],
            "sink": ["t" if problem.sink_logits else "f"],
        },
        "relax_rules": {"disable_check_hdim_tile": True},
    }


Interval = tuple[int | None, int | None]


def _tiles(ordered: Sequence[TunedKernel]) -> list[dict[str, Any]]:
    """The tiles, each with the lengths that it serves: neighbours with one tile are folded, separate intervals are or-ed."""
    lengths = [one.problem.seqlen_q for one in ordered]
    edges = (None, *((low + high + 1) // 2 for low, high in pairwise(lengths)), None)
    runs: list[tuple[dict[str, int], Interval, list[int]]] = []
    for place, one in enumerate(ordered):
        tile, interval = tile_of(one.kernel), (edges[place], edges[place + 1])
        if runs and runs[-1][0] == tile:
            runs[-1] = (tile, (runs[-1][1][0], interval[1]), [*runs[-1][2], lengths[place]])
        else:
            runs.append((tile, interval, [lengths[place]]))
    tiles: dict[tuple[int, ...], tuple[dict[str, int], list[Interval], list[int]]] = {}
    for tile, interval, samples in runs:
        _, intervals, told = tiles.setdefault(tuple(tile.values()), (tile, [], []))
        intervals.append(interval)
        told += samples
    return [
        {**tile, "cpp_constraint": " || ".join(map(_cpp, intervals)), "_max_seqlen_samples": told}
        for tile, intervals, told in tiles.values()
    ]


def _cpp(interval: Interval) -> str:
    """A half-open interval as C++."""
    low, high = interval
    if low is None and high is None:
        return "true"
    if low is None:
        return f"a.max_seqlen_q < {high}"
    return f"a.max_seqlen_q >= {low}" if high is None else f"(a.max_seqlen_q >= {low} && a.max_seqlen_q < {high})"


def _csv(ordered: Sequence[TunedKernel]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(_row, ordered))
    return out.getvalue()


def _row(one: TunedKernel) -> dict[str, Any]:
    """A row of aiter's tuner. Times are left empty where none is known."""
    problem, signature, tile = one.problem, one.kernel.signature, tile_of(one.kernel)
    if problem.mask.kind not in _MASKS:
        raise _refusal(AITER, f"`{problem.repro()}`: aiter's rows have no windows")
    numbers = list(tile.values())
    expression = f"FmhaFwdTileSize({', '.join(map(str, numbers))})"
    ms = None if one.level_ns is None else one.level_ns / 1e6
    return {
        "max_seqlen": problem.seqlen_q,
        "mode": problem.mode.value,
        "dtype": problem.dtype.value,
        "hdim_q": problem.hdim,
        "hdim_v": problem.hdim_v,
        "mask_type": _MASKS[problem.mask.kind],
        "nhead_q": problem.heads,
        "nhead_k": problem.kv_heads,
        "has_logits_soft_cap": int(bool(problem.softcap)),
        "bias_type": {"no": 0, "bias": 1, "alibi": 2}[_bias(problem)],
        "has_lse": int(problem.lse),
        "has_dropout": int(bool(problem.dropout)),
        "skip_min_seqlen_q": 0,
        "qscale_type": _QSCALES.get(problem.qscale, 0),
        "has_sink": int(problem.sink_logits),
        "bench_variant": "nskip",
        "best_hdim_q": signature.hdim,
        "best_hdim_v": signature.hdim_v,
        "best_time_ms": "" if ms is None else f"{ms:.3f}",
        "best_tflops": "" if ms is None else f"{problem.flops() / ms / 1e9:.2f}",
        "best_gbps": "" if ms is None else f"{problem.bytes() / ms / 1e6:.2f}",
        "best_kname": upstream_name(one.kernel),
        "best_tile_name": _tile_name(tile),
        "best_tile_expr": f"({signature.hdim}, {signature.hdim_v}) : [{expression}]",
        "status": "ok",
    }


def _tile_name(tile: Mapping[str, int]) -> str:
    """As ``TileSize.name`` of ``mha_tune.py``."""
    numbers = list(tile.values())
    groups = [numbers[:6], numbers[6:9], numbers[9:12], numbers[12:15], numbers[15:18]]
    name = "_".join(f"{letter}{'x'.join(map(str, group))}" for letter, group in zip("brrww", groups, strict=True))
    return name if numbers[18] == -1 else f"{name}_o{numbers[18]}"
