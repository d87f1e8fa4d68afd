"""The figures of the compiled configurations: ``inspected.json``, written by
``plugins/fmha-triton/update_inspected.py``.

One kernel represents a configuration on an architecture. Its row states only that kernel's needs: kernels with
a bias, a softcap or padding have the same configuration and other figures.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Any

from fmha_cli import api, plugin
from fmha_triton.algorithm import data, key_of
from fmha_triton.catalogue import algorithm_of, function_of, kernels_of

SCHEMA = "fmha.triton.inspected/1"
FIGURES = ("registers", "spilled", "shared_bytes", "occupancy", "instructions", "matrix_instructions")
"""Vector registers of a thread, those of them that were spilled, shared memory or LDS, warps on a scheduler, instructions of the code."""
_MASKS = (plugin.MaskKey.ANY, plugin.MaskKey.CAUSAL)
_CACHES = (plugin.CacheKey.PAGED, plugin.CacheKey.ANY)


class Mark(StrEnum):
    """The purpose of a configuration's figures."""

    INSPECTED = "inspected"
    """It compiles, and the row states its needs. It was not compared with others."""
    CHOSEN = "chosen by figures"
    """The row has the figures of other configurations, which were not taken."""


def mark_of(row: Mapping[str, Any]) -> Mark:
    """The mark that a row has earned."""
    return Mark.CHOSEN if row.get("others") else Mark.INSPECTED


@cache
def rows() -> dict[tuple[str, str, str], dict[str, Any]]:
    """The rows by architecture, function and key of the configuration."""
    text = resources.files("fmha_triton").joinpath("inspected.json").read_text("utf-8")
    return {(row["arch"], row["function"], row["key"]): row for row in json.loads(text)["rows"]}


def row_of(kernel: api.KernelSpec) -> dict[str, Any]:
    """The row of a kernel's configuration; empty if it was not compiled."""
    narrow = kernel.signature.dtype.is_fp8 and _key(kernel, narrow=True) in keys_of(kernel.arch, function_of(kernel))
    return rows().get((kernel.arch, function_of(kernel), _key(kernel, narrow)), {})


def keys_of(arch: str, function: str) -> tuple[str, ...]:
    """The keys of the configurations that an architecture uses (``algorithm.key_of``); those of 8 bits if it has fp8 kernels."""
    about = data()["archs"][arch]
    table = data()["kernels"][function]["by_class"].get(about["class"], {})
    return tuple(key for key in table if about["fp8"] or not key.endswith(":8"))


def representative(arch: str, function: str, key: str) -> api.KernelSpec:
    """The kernel that represents a configuration.

    Raises:
        KeyError: the architecture has no such kernel.
    """
    for kernel in kernels_of(arch):
        if function_of(kernel) == function and _key(kernel, ":" in key) == key and _plain(kernel, ":" in key):
            return kernel
    raise KeyError(f"{arch} {function} {key}")


def _key(kernel: api.KernelSpec, narrow: bool) -> str:
    s = kernel.signature
    return key_of(s.hdim, 8 if narrow else 16, algorithm_of(kernel).num_ctas, s.hdim_v)


def _plain(kernel: api.KernelSpec, narrow: bool) -> bool:
    s = kernel.signature
    if kernel.family is plugin.Family.FWD_SPLITKV_COMBINE:  # it serves all masks, biases and caps, and always pads
        return s.dtype is plugin.DType.FP16
    typed = s.dtype.is_fp8 and s.qscale is plugin.QScaleKey.TENSOR if narrow else s.dtype is plugin.DType.FP16
    paged = kernel.family is not plugin.Family.FWD_SPLITKV or s.cache in _CACHES
    whole = not algorithm_of(kernel).pad
    dots = kernel.family is plugin.Family.BWD_DOT_DO_O
    return typed and paged and whole and (dots or _unbiased(s))


def _unbiased(signature: plugin.Signature) -> bool:
    return signature.mask in _MASKS and signature.bias is plugin.BiasKey.NONE and signature.softcap is plugin.Need.NO
