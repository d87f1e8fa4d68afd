"""``CheckCase``: a problem of ``gpu_check.py`` and the kernel families that it must use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class CheckCase:
    """One case.

    Attributes:
        flags: problem flags, which no other case has.
        families: the families of its stages, in order.
        kernels: what the kernel's name holds, if it is not the first one: ``num_ctas=2``.
    """

    name: str
    flags: str
    families: tuple[str, ...]
    kernels: str = ""


FWD, SPLITKV = ("fwd",), ("fwd_splitkv", "fwd_splitkv_combine")
BWD = ("bwd_dot_do_o", "bwd_dq_dk_dv", "bwd_convert_dq")


def of_head_dims(
    rows: Iterable[tuple[int, str, int, str]], families: tuple[str, ...], flags: str, prefix: str = ""
) -> Iterator[CheckCase]:
    """Two cases for every range of head dims: at its end with even lengths, and inside with uneven ones.

    Args:
        rows: the head dim at the end and its dtype, one inside and its dtype.
        flags, prefix: of every case and every name.
    """
    for end, dtype, inside, other in rows:
        yield CheckCase(f"{prefix}d{end} {dtype}", f"-b 2 -H 4 -s 512 -d {end} --dtype {dtype} {flags}", families)
        uneven = f"-b 1 -H 3 -s 333 --seqlen-k 471 -d {inside} --dtype {other} {flags}"
        yield CheckCase(f"{prefix}d{inside} {other}, uneven", uneven, families)
