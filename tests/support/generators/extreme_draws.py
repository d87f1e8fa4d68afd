"""Small attention problems with extreme numbers, from a seed (``extreme_problem`` says what one is)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tests.support.generators.extreme_problem import (
    CACHED,
    LARGE_PAGE,
    MOST,
    PAGE,
    Bools,
    Doubles,
    Drawn,
    Family,
    Lane,
    empty,
    philox,
    typed,
)
from tests.support.generators.extreme_runs import Extreme


def plan(count: int, seed: int, families: Sequence[Family], dtypes: Sequence[str]) -> Iterator[tuple[int, Family, str]]:
    """(number, family, type) of ``count`` problems of every family."""
    for n in range(count * len(families)):
        yield seed + n, families[n % len(families)], dtypes[n // len(families) % len(dtypes)]


def drawn(number: int, family: Family, dtype: str, *, plain: bool = False, square: int = 0) -> Drawn:
    """The problem of a number.

    Args:
        plain: as most kernels for GPUs have it, and so that few of them are compiled: at most 64 keys, head dim 64, no mask or a
            causal one, no softcap, no dropout, no left padding, large pages, one extreme.
        square: so many keys and as many rows, a causal mask and no bias, for kernels that have nothing else; 0 = any.
    """
    rng = np.random.Generator(np.random.PCG64([number, 11]))
    some = [
        list(Extreme)[int(rng.integers(len(Extreme)))],
        *(kind for kind in Extreme if rng.integers(6) == 0 and not plain),
    ]
    out = Drawn(number, family, dtype, tuple(dict.fromkeys(some)), dtype, dtype)
    if family is Family.NARROW:
        out.store = out.held = str(rng.choice(["fp8_e4m3", "fp8_e5m2"]))
        out.flags |= {"dtype": f"{out.store}:{dtype}", "qscale": "tensor"}
    elif family is Family.BYTES:
        out.held = str(rng.choice(["int8", "fp8_e4m3", "fp8_e5m2"]))
        out.flags |= {"dtype": dtype, "kv_dtype": out.held, "qscale": "head"}
    else:
        out.flags["dtype"] = dtype
    with np.errstate(all="ignore"):
        _Drawing(rng, out, plain, square).draw()
    return out


class _Drawing:
    """The steps of one drawing. Lists have an array for each sequence, (heads, rows, d)."""

    def __init__(self, rng: np.random.Generator, out: Drawn, plain: bool, square: int) -> None:
        self.rng, self.out, self.flags, self.plain, self.square = rng, out, out.flags, plain, square
        self.backward = out.family is Family.BACKWARD
        self.cached = out.family in CACHED

    def draw(self) -> None:
        self._sizes()
        self._mask()
        self._numbers()
        self._scores()
        self._bias()
        self._further()
        for b in range(len(self.q)):
            self.out.lanes.append(self._lane(b))
        self._give()

    def _sizes(self) -> None:
        rng, family = self.rng, self.out.family
        self.groups, self.kv_heads = int(rng.integers(1, 4)), int(rng.integers(1, 3))
        self.heads = self.groups * self.kv_heads
        dims = (64,) if self.plain else (16, 24, 32, 40, 64, 96)
        self.d, self.dv = int(rng.choice(dims)), int(rng.choice(dims))
        few = family in (Family.DECODE, Family.SPLIT) or (self.cached and rng.integers(2) == 0)
        most = 65 if self.plain else int(rng.choice([90, 90, 460]))
        varied = family is Family.PACKED or (self.backward and rng.integers(3) == 0)
        count = 2 if varied or self.cached else int(rng.integers(1, 3))
        rows, keys = (
            rng.integers(low, high, count).tolist() for low, high in ((1, 4) if few else (17, 49), (17, most))
        )
        rows, keys = ([self.square] * count,) * 2 if self.square else (rows, keys)
        self.rows = rows if varied else rows[:1] * count
        self.keys = keys if varied or self.cached else keys[:1] * count
        if varied:
            self.flags |= {"seqlens_q": tuple(self.rows), "seqlens_k": tuple(self.keys)}
        if family is Family.SPLIT:
            self.flags["splits"] = int(rng.integers(2, 5))
        if rng.integers(2) and family is not Family.PAGED:
            self.flags["layout"] = "bshd"

    def _mask(self) -> None:
        rng = self.rng
        left, right = (int(x) for x in rng.integers(0, 24, 2))
        forms: dict[str, tuple[int | None, int | None]] = {
            "none": (None, None),
            "causal": (None, 0),
            "causal-tl": (None, 0),
            f"window:{left},{right}": (left, right),
            f"window-tl:{left},{right}": (left, right),
            f"generic:{left + 1},{right + 1}": (left, right),
        }
        self.mask = "causal" if self.square else str(rng.choice(list(forms)[: 2 if self.plain else 6]))
        self.left, self.right = forms[self.mask]
        self.flags["mask"] = self.mask
        self.first = 2 if self.left is not None and rng.integers(3) == 0 and not self.plain else 0
        if self.first:
            self.flags["sink"] = self.first

    def _delta(self, b: int) -> int:
        return 0 if "-tl" in self.mask or "generic" in self.mask else self.keys[b] - self.rows[b]

    def _sees(self, b: int) -> Bools:
        """(rows, keys) by the mask."""
        i, j = np.arange(self.rows[b])[:, None] + self._delta(b), np.arange(self.keys[b])
        out = np.ones((self.rows[b], self.keys[b]), np.bool_)
        if self.right is not None:
            out &= j <= i + self.right
        if self.left is not None:
            out &= (j >= i - self.left) | (j < self.first)
        return out

    def _numbers(self) -> None:
        rng, out = self.rng, self.out

        def some(heads: int, lengths: Sequence[int], d: int, dtype: str) -> list[Any]:
            size = 20.0 if dtype == "int8" else 1.0
            return [typed(size * rng.standard_normal((heads, n, d)), dtype) for n in lengths]

        self.q = some(self.heads, self.rows, self.d, out.store)
        self.k = some(self.kv_heads, self.keys, self.d, out.held)
        self.v = some(self.kv_heads, self.keys, self.dv, out.held)
        self.do = some(self.heads, self.rows, self.dv, out.dtype) if self.backward else []
        if rng.integers(2) or self.plain:  # the column of O is then the sum of a row's weights, whatever the scores are
            for v in self.v:
                v[..., 0] = 1
        per_head = (len(self.q), self.kv_heads) if out.family is Family.BYTES else (1, 1)
        powers = (2.0**-6, 2.0**-5) if out.held == "int8" else (0.5, 1.0)
        self.factor = {
            name: rng.choice(powers, per_head).astype(np.float32) if out.held != out.dtype else np.ones((1, 1), "f4")
            for name in "kv"
        } | {"q": np.ones((1, 1), np.float32)}

    def _scores(self) -> None:
        """Scores from 1e-30 to 3e38, by the sizes of Q and K, or those of their factors, and by the scale."""
        rng, out = self.rng, self.out
        self.scale = float(np.float32(self.d**-0.5))
        if Extreme.SIZE in out.extremes and out.held != out.dtype:
            for name, factor in self.factor.items():
                if name == "k" or out.family is Family.NARROW:
                    factor *= np.float32(10 ** rng.uniform(*((-3, 3) if name == "v" else (-14, 14))))
        elif Extreme.SIZE in out.extremes:
            powers = (-3.0, 3.6) if out.dtype == "fp16" else (-13.0, 13.0)
            for xs in (self.q, self.k):
                size = 10 ** rng.uniform(*powers)
                xs[:] = [typed(x.astype(np.float64) * size, out.dtype) for x in xs]
        if Extreme.SCALE in out.extremes:
            raw = max(np.abs(self._whole("q", b) @ self._keys(b).swapaxes(1, 2)).max() for b in range(len(self.q)))
            alone = not self.backward and not {Extreme.BIAS, Extreme.SINKS} & set(out.extremes)
            powers = (int(rng.choice([-30, 8])), 38.4 if alone else 28)
            powers = (-8, 5) if self.backward and out.dtype == "fp16" else powers  # larger gradients overflow
            size = np.clip(10 ** rng.uniform(*powers) / raw, 1e-37, 1e38)
            self.scale = float(np.float32(size * rng.choice([-1, 1])))
        self.flags["scale"] = self.scale

    def _whole(self, name: str, b: int) -> Doubles:
        """(heads, rows, d) of one sequence with its factors."""
        factor = self.factor[name].astype(np.float64)
        return getattr(self, name)[b].astype(np.float64) * factor[b if len(factor) > 1 else 0][:, None, None]

    def _keys(self, b: int) -> Doubles:
        return self._whole("k", b).repeat(self.groups, axis=0)

    def _bias(self) -> None:
        rng, out = self.rng, self.out
        self.bias: Any = None
        if not {Extreme.BIAS, Extreme.HIDDEN} & set(out.extremes) or out.store == "fp8_e5m2" or self.square:
            return
        rank = str(rng.choice(["1hss", "bhss", "11ss", "b11s"][: 2 if self.plain else 4]))
        sizes = (len(self.q), self.heads, max(self.rows), max(self.keys))
        shape = tuple(1 if letter == "1" else size for letter, size in zip(rank, sizes, strict=True))
        kind = "fp32" if out.store == "fp8_e4m3" else out.dtype
        bias, most = rng.standard_normal(shape), MOST[kind]
        for _ in range(3 if Extreme.BIAS in out.extremes else 0):
            value = rng.choice([-most, 0.9 * most, -1e9, -1e4, 1e4, 1e20, -1e20, 1e-30])
            value = float(np.clip(value, -most, most))
            row, key, part = (int(rng.integers(n)) for n in (shape[2], shape[3], 3))
            if part == 0:
                bias[..., row, key] = np.inf if rng.integers(4) == 0 else value
            else:
                bias[(..., row, slice(None)) if part == 1 else (..., key)] = value
        for _ in range(2 if Extreme.HIDDEN in out.extremes else 0):
            bias[..., int(rng.integers(shape[3]))] = -np.inf
            if rng.integers(2) and shape[2] > 1:
                bias[:, int(rng.integers(shape[1])), int(rng.integers(shape[2]))] = -np.inf
        self.bias = typed(bias, kind)
        self.flags["bias"] = f"elementwise:{rank}"
        self.flags |= {"dbias": True} if self.backward else {}

    def _plane(self, b: int) -> Doubles | None:
        """(heads, rows, keys) of the bias of one sequence."""
        if self.bias is None:
            return None
        part = self.bias[b if len(self.bias) > 1 else 0].astype(np.float64)
        full = np.broadcast_to(part, (self.heads, max(self.rows), part.shape[2]))
        return full[:, : self.rows[b], : self.keys[b]]

    def _further(self) -> None:
        """Learned sinks, and at most one of the other features."""
        rng = self.rng
        self.sinks = self.slopes = None
        self.softcap, self.dropout = 0.0, False
        choice = str(rng.choice(["none", "none", "alibi", "softcap", "dropout"]))
        if choice == "alibi" and self.bias is None and not self.square:
            size = 10 ** rng.uniform(-3, 4 if self.backward else 10)
            self.slopes = (rng.uniform(0.5, 1, self.heads) * size).astype(np.float32)
        elif choice == "softcap" and not self.plain:
            self.softcap = self.flags["softcap"] = float(rng.choice([2.0, 30.0, 1e4]))
        elif choice == "dropout" and not self.plain:
            self.dropout = True
            self.flags |= {"dropout": 0.25, "seed": int(rng.integers(2**40)), "offset": int(rng.integers(2**20))}
        if Extreme.SINKS in self.out.extremes:
            size = float(rng.choice([10 ** rng.uniform(0, 5), 1e9, 1e20, MOST["fp32"], np.inf]))
            size *= -1 if np.isinf(size) else rng.choice([-1, 1])
            self.sinks = (rng.standard_normal(self.heads) + size).astype(np.float32)

    def _kept(self, b: int) -> Doubles | None:
        if not self.dropout:
            return None
        i, j = np.indices((self.rows[b], self.keys[b]), np.uint64)
        words = [
            philox(
                self.flags["seed"], (j >> np.uint64(2), i, np.full_like(i, b * self.heads + h)), self.flags["offset"]
            )
            for h in range(self.heads)
        ]
        word = np.stack([np.choose(j.astype(int) & 3, four) for four in words])
        return (word >= 2**30) / 0.75

    def _lane(self, b: int) -> Lane:
        sees, plane = self._sees(b), self._plane(b)
        hides = np.zeros_like(sees) if plane is None else np.isneginf(plane)
        unread = ~(sees & ~hides).reshape(-1, self.keys[b]).any(axis=0)
        k, v = self._whole("k", b), self._whole("v", b)
        k[:, unread] = v[:, unread] = 0
        poison = Extreme.HIDDEN in self.out.extremes and self.out.held != "int8" and bool(unread.any())
        names = [name for name in ("k", "v") if poison and (not self.plain or self.rng.integers(3))]
        for name in names:  # kernels of GPUs differ in what they do with K's and V's
            getattr(self, name)[b][:, unread] = np.nan
        return Lane(
            q=self._whole("q", b), k=k, v=v, sees=sees, delta=self._delta(b), scale=self.scale, softcap=self.softcap,
            bias=plane, slopes=None if self.slopes is None else self.slopes.astype(np.float64),
            sinks=None if self.sinks is None else self.sinks.astype(np.float64), kept=self._kept(b),
            do=self.do[b].astype(np.float64) if self.backward else None, poisoned=frozenset(names),
        )  # fmt: skip

    def _give(self) -> None:
        """The tensors as the product has them."""
        out = self.out
        t = out.tensors
        t |= {"q": self._rows(self.q)} | ({"do": self._rows(self.do)} if self.backward else {})
        if self.cached:
            self._cache()
        else:
            t |= {"k": self._rows(self.k), "v": self._rows(self.v)}
        if self.backward:
            self.flags["direction"] = str(self.rng.choice(["fwd+bwd", "fwd+bwd", "bwd"]))
        t |= {} if self.bias is None else {"bias": self.bias}
        t |= {} if self.slopes is None else {"alibi_slopes": self.slopes}
        t |= {} if self.sinks is None else {"sink_logits": self.sinks}
        if out.family is Family.BYTES:
            t |= {f"{name}_descale": self.factor[name] for name in "kv"}
        elif out.family is Family.NARROW:
            t |= {f"{name}_descale": self.factor[name][0] for name in "qkv"}
        self.flags["lse"] = True

    def _rows(self, xs: Sequence[Any]) -> Any:
        """Sequences packed behind each other, or side by side, in the layout."""
        xs = [x.swapaxes(0, 1) for x in xs] if self.flags.get("layout") == "bshd" else xs
        if "seqlens_q" in self.flags:
            return np.concatenate(xs, axis=0 if self.flags.get("layout") == "bshd" else 1)
        return np.stack(xs)

    def _cache(self) -> None:
        """A linear cache, longer than needed, or a pool of pages with one that nobody uses; the last keys may be new ones."""
        rng, out = self.rng, self.out
        new = int(rng.integers(1, 4)) if out.family is Family.APPEND else 0
        held = [n - new for n in self.keys]
        self.flags["cache_seqlens"] = tuple(held)
        if out.family is Family.PAGED or (self.cached and out.family is not Family.LINEAR and rng.integers(2)):
            self._pages(held)
        else:
            self._linear(held)
        if new:
            for name, xs in (("k_new", self.k), ("v_new", self.v)):
                parts = [x[:, n:] for x, n in zip(xs, held, strict=True)]
                out.tensors[name] = np.stack(
                    [p.swapaxes(0, 1) if self.flags.get("layout") == "bshd" else p for p in parts]
                )

    def _linear(self, held: Sequence[int]) -> None:
        self.flags["kv_cache"] = "linear"
        pads = [int(x) for x in self.rng.integers(0, 6, len(held))] if self.rng.integers(2) else [0] * len(held)
        pads = [0] * len(held) if self.plain else pads
        if any(pads):
            self.flags["cache_leftpad"] = tuple(pads)
        for name, xs in (("k", self.k), ("v", self.v)):
            cache = empty((len(xs), self.kv_heads, max(self.keys) + max(pads) + 5, xs[0].shape[2]), self.out.held)
            for b, x in enumerate(xs):
                cache[b, :, pads[b] : pads[b] + held[b]] = x[:, : held[b]]
            bshd = self.flags.get("layout") == "bshd"
            self.out.tensors[name] = np.ascontiguousarray(cache.swapaxes(1, 2)) if bshd else cache

    def _pages(self, held: Sequence[int]) -> None:
        page = LARGE_PAGE if self.plain else PAGE
        self.flags["kv_cache"] = f"paged:{page}"
        counts = [-(-n // page) for n in self.keys]
        pages = iter(self.rng.permutation(sum(counts) + 2).tolist())
        table = np.full((len(held), max(counts)), -1, np.int32)
        for b, count in enumerate(counts):
            table[b, :count] = [next(pages) for _ in range(count)]
        self.out.tensors["block_table"] = table
        for name, xs in (("k", self.k), ("v", self.v)):
            pool = empty((sum(counts) + 2, page, self.kv_heads, xs[0].shape[2]), self.out.held)
            for b, x in enumerate(xs):
                for j in range(held[b]):
                    pool[table[b, j // page], j % page] = x[:, j]
            self.out.tensors[name] = pool
