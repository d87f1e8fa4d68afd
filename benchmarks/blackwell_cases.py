"""The problems of ``blackwell_check.py``: kinds by lengths, for the Blackwell kernel in Gluon."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from triton_cases import Case

ARCHS = ("sm_100a", "sm_103a")
EVEN = ("-s 128", "-s 256", "-s 512", "-s 1024", "-s 256 --seqlen-k 1024", "-s 768 --seqlen-k 128")
RAGGED = (
    "-s 200 --seqlen-k 150",
    "-s 300 --seqlen-k 333",
    "-s 1 --seqlen-k 640",
    "-s 515 --seqlen-k 1000",
    "-s 1000 --seqlen-k 515",
)
"""Lengths that fill no tile of 256 or 512 rows and no block of 128 keys; with a causal mask, the last one has rows that see no key."""
_MORE = (
    ("heads in groups", "-b 2 -H 4 --kv-heads 2 -s 300 --seqlen-k 333 -d {d} --dtype {t} --lse"),
    ("heads in groups, causal", "-H 4 --kv-heads 1 -s 256 -d {d} --dtype {t} --causal --lse"),
    ("several sequences", "-b 3 -H 3 -s 520 --seqlen-k 130 -d {d} --dtype {t}"),
)


def all_cases() -> Iterator[Case]:
    """Every case: each head dim and mask on every length, the types in turn; then groups of heads and several sequences in both types."""
    dtypes = ("fp16", "bf16")
    for n, (hdim, mask, lengths) in enumerate(product((64, 128), ("", " --causal"), EVEN + RAGGED)):
        kind = f"d{hdim}{', causal' * bool(mask)}{', ragged' * (lengths in RAGGED)}"
        heads = 1 if "10" in lengths else 2
        yield Case(
            kind, f"-H {heads} {lengths} -d {hdim} --dtype {dtypes[n % 2]}{mask}{' --lse' * (n % 3 == 0)}", ARCHS
        )
    for (kind, flags), hdim, dtype in product(_MORE, (64, 128), dtypes):
        yield Case(f"d{hdim}, {kind}", flags.format(d=hdim, t=dtype), ARCHS)
