"""The table of kernels compared with upstream's types and dispatch functions."""

from __future__ import annotations

from itertools import product

from fmha_cli.codegen.mem_efficient.traits import Traits, document, kernels_of
from fmha_cli.domain.kernel import Family
from tests.support.referees.xformers_host.client import Way, XformersHost

WAYS: tuple[tuple[Way, Family], ...] = (("forward", Family.FWD), ("backward", Family.BWD_DQ_DK_DV))
DTYPES = ("fp32", "fp16", "bf16")
CAPABILITIES = range(45, 126)
EMPTY_ARRAY = 16
"""How many bytes NVRTC's struct is larger where upstream has an array of no elements (``AlignedBuffer``)."""


def fact_faults(host: XformersHost) -> tuple[int, list[str]]:
    """How many kernels upstream has, and the facts of the table that differ from those of its types."""
    asked = [(way, dtype, cc) for (way, _), dtype, cc in product(WAYS, DTYPES, (50, 70, 75, 80, 86))]
    theirs = {facts["name"]: facts for found in host.kernels(asked) for facts in found}
    ours = {traits.name: traits for _, family in WAYS for traits in kernels_of(family)}
    faults = [f"only one side has {name}" for name in sorted(theirs.keys() ^ ours.keys())]
    for name, traits in ours.items():
        found = theirs.get(name, {})
        more = traits.shared_bytes - found.get("shared", 0)
        if more not in ((0, EMPTY_ARRAY) if not traits.drops else (0,)):
            faults.append(f"{name}: {more} bytes of shared memory more than upstream")
        named = traits.facts | {"kApplyDropout" if not traits.forward else "kSupportsDropout": int(traits.drops)}
        named |= {} if traits.forward else _flags(traits)
        faults += [f"{name}: {k} is {found.get(k)}, in the table {v}" for k, v in named.items() if found.get(k) != v]
    return len(theirs), faults


def _flags(traits: Traits) -> dict[str, int]:
    a = traits.algorithm
    return {"kPreload": int(a.preload), "kKeysQueriesAlignedToBlockSize": int(a.seq_aligned)}


def dispatch_faults(host: XformersHost, profile: str) -> tuple[int, list[str]]:
    """How many lists are not empty, and the ones that differ: kernels of a type on a device, in the order of trial."""
    (tags,) = (row["tags"] for row in document()["profiles"] if row["name"] == profile)
    cases = list(product(WAYS, DTYPES, CAPABILITIES))
    theirs = host.kernels([(way, dtype, cc) for (way, _), dtype, cc in cases])
    faults, lists = [], 0
    for ((way, family), dtype, cc), found in zip(cases, theirs, strict=True):
        taken = {int(tag) for tag, (first, last) in tags.items() if first <= cc <= last}
        ours = [t for t in kernels_of(family) if t.dtype == dtype and t.algorithm.tag in taken]
        names = [t.name for t in ours if not t.only_cc or cc in t.only_cc]
        lists += bool(found)
        if names != [facts["name"] for facts in found]:
            faults.append(f"{way} {dtype} on {cc}: {[facts['name'] for facts in found]}, in the table {names}")
    return lists, faults
