"""``Case``: a problem of ``gpu_check.py`` and the kernel families that it must use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One case. ``flags`` are problem flags; ``families`` are the families of its stages, in order."""

    name: str
    flags: str
    families: tuple[str, ...]


FWD, SPLITKV = ("fwd",), ("fwd_splitkv", "fwd_splitkv_combine")
BWD = ("bwd_dot_do_o", "bwd_dq_dk_dv", "bwd_convert_dq")
