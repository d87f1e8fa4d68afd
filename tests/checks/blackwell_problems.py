"""The problems of ``blackwell_check.py``: kinds by lengths, for the Blackwell kernel in Gluon."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from tests.checks.triton_problems import TritonProblem

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
_CLUSTERED = {
    2: ("-H 1 -s 512 --seqlen-k 256", "-H 2 -s 300 --seqlen-k 333", "-H 1 -s 700 --seqlen-k 200", "-b 2 -H 2 --kv-heads 1 -s 200 --seqlen-k 300"),
    4: ("-H 1 -s 1024 --seqlen-k 256", "-H 2 -s 700 --seqlen-k 300", "-H 1 -s 1100 --seqlen-k 150", "-b 2 -H 2 --kv-heads 1 -s 500 --seqlen-k 600"),
}  # fmt: skip
"""Heads and lengths of cases that name a number of CTAs: one tile, ragged ones, two tiles, heads in groups."""
_CAUSAL = (
    "-d 64 --dtype fp16",
    "-d 64 --dtype fp8_e4m3 --qscale tensor",
    "-d 128 --dtype fp8_e4m3 --qscale tensor",
    "-d 128 --hdim-v 64 --dtype fp16",
    "-d 64 --hdim-v 128 --dtype fp16",
)
"""With a causal mask, on both architectures: the kernels that stand for a configuration in the plugin's ``inspected.json``."""
_UNMASKED = (
    "-d 64 --dtype fp8_e5m2 --qscale head",
    "-d 64 --dtype bf16",
    "-d 128 --dtype fp8_e5m2",
    "-d 128 --hdim-v 64 --dtype bf16",
)
"""Without a mask, on one architecture each."""


def all_problems() -> Iterator[TritonProblem]:
    """Every problem: the ones that the plugin chooses the kernel for, and the ones that name a number of CTAs."""
    yield from _chosen()
    yield from _clusters()


def _clusters() -> Iterator[TritonProblem]:
    """Clusters of two and four CTAs that upstream takes for no such problem, the lengths in turn; every third one has an LSE."""
    for n, (flags, ctas) in enumerate(product((*_CAUSAL, *_UNMASKED), _CLUSTERED)):
        causal, lengths = flags in _CAUSAL, _CLUSTERED[ctas][n // 2 % len(_CLUSTERED[ctas])]
        kind = f"{ctas} CTAs{', fp8' * ('fp8' in flags)}{', V of its own' * ('-v' in flags)}{', causal' * causal}"
        more = f"{' --causal' * causal}{' --lse' * (n % 3 == 0)}"
        yield TritonProblem(kind, f"{lengths} {flags}{more}", ARCHS if causal else (ARCHS[(n + n // 2) % 2],), ctas)


def _chosen() -> Iterator[TritonProblem]:
    """Each head dim and mask on every length, the types in turn; then groups of heads and several sequences in both types."""
    dtypes = ("fp16", "bf16")
    for n, (hdim, mask, lengths) in enumerate(product((64, 128), ("", " --causal"), EVEN + RAGGED)):
        kind = f"d{hdim}{', causal' * bool(mask)}{', ragged' * (lengths in RAGGED)}"
        heads = 1 if "10" in lengths else 2
        yield TritonProblem(
            kind, f"-H {heads} {lengths} -d {hdim} --dtype {dtypes[n % 2]}{mask}{' --lse' * (n % 3 == 0)}", ARCHS
        )
    for (kind, flags), hdim, dtype in product(_MORE, (64, 128), dtypes):
        yield TritonProblem(f"d{hdim}, {kind}", flags.format(d=hdim, t=dtype), ARCHS)
