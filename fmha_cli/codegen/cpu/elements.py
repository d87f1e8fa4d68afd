"""Register tiles that multiply by one element of a register (AArch64: ``fmla v.4s, v.4s, v.s[i]``), as C++ text.

Four words that lie side by side in memory are one load; other tiles need a load or a broadcast for each of them. A word is
one float, or a pair of bf16. The functions take the places of those in ``micro.py`` and ``backward.py``, and do the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fmha_cli.codegen.cpu.backward import ROWS

WORDS = 4
"""Words in a register. Backward tiles have as many rows."""

Product = Callable[[str, str, str], str]
"""(accumulator, broadcast side, vector side) -> the new value of the accumulator."""


def _by_element(pairs: bool, lane: int) -> Product:
    return lambda acc, word, vector: f"{'vdot' if pairs else 'vfma'}_word<{lane}>({acc}, {word}, {vector})"


def _by_vector(pairs: bool) -> Product:
    return lambda acc, word, vector: f"vdot({acc}, {word}, {vector})" if pairs else f"vfma({word}, {vector}, {acc})"


def _names(rows: int, vectors: int, letter: str) -> list[list[str]]:
    return [[f"{letter}{r}_{z}" for z in range(vectors)] for r in range(rows)]


def _declare(acc: Sequence[Sequence[str]]) -> str:
    return ", ".join(f"{a} = vset(0)" for row in acc for a in row)


def _products(
    acc: Sequence[Sequence[str]], words: Sequence[str], at: str, product: Product, indent: int = 4
) -> list[str]:
    """The vectors at an address, and their products with one word for each row."""
    pad = " " * indent
    lines = [f"{pad}const vf x{z} = vload({at} + {z} * NL);" for z in range(len(acc[0]))]
    return lines + [
        f"{pad}{a} = {product(a, words[r], f'x{z}')};" for r, row in enumerate(acc) for z, a in enumerate(row)
    ]


def _quad(acc: Sequence[Sequence[str]], at: str, step: str, pairs: bool) -> list[str]:
    """Four steps; the register ``u<row>`` holds the words of a row."""
    lines = []
    for lane in range(WORDS):
        place = f"{at} + {lane} * {step}" if lane else at
        body = _products(acc, [f"u{r}" for r in range(len(acc))], place, _by_element(pairs, lane), 6)
        lines += ["    {", *body, "    }"]
    return lines


def score_elements(vectors: int, rows: int, pairs: bool) -> str:
    """``QK_FULL``, as ``micro.score_tile``."""
    acc = _names(rows, vectors, "s")
    where = [f"b{r - r % 3} + t" + (f" + {r % 3} * stride" if r % 3 else "") for r in range(rows)]
    names = [f"e{r}" for r in range(rows)]

    def one(load: str) -> list[str]:
        loads = [f"    const vf e{r} = {load.format(where[r])};" for r in range(rows)]
        return [*loads, *_products(acc, names, "q", _by_vector(pairs))]

    word = "vpair(load32({}))" if pairs else "vset(*(const float*)({}))"
    out = [
        "static void QK_FULL(const char* b0, const i64 stride, const float* q, i64 columns, float* s, float* top) {",
        *(f"  const char* b{b} = b0 + {b} * stride;" for b in range(3, rows, 3)),
        f"  vf {_declare(acc)};",
        f"  const i64 end = columns {'/ 2 ' if pairs else ''}* 4, whole = end / {4 * WORDS} * {4 * WORDS};",
        "  i64 t = 0;",
        f"  for (; t < whole; t += {4 * WORDS}, q += {WORDS} * BQ) {{",
        *(f"    const vf u{r} = vload((const float*)({where[r]}));" for r in range(rows)),
        *_quad(acc, "q", "BQ", pairs),
        "  }",
        "  for (; t < end; t += 4, q += BQ) {",
        *one(word),
        "  }",
    ]
    if pairs:  # an odd last column: the next element in memory does not belong to the row
        out += ["  if (columns & 1) {", *one("vpair(*(const uint16_t*)({}))"), "  }"]
    out += [f"  vf top{z} = vload(top + {z} * NL);" for z in range(vectors)]
    for r in range(rows):
        for z in range(vectors):
            out += [f"  vstore(s + {r} * BQ + {z} * NL, {acc[r][z]});", f"  top{z} = vmax({acc[r][z]}, top{z});"]
    out += [f"  vstore(top + {z} * NL, top{z});" for z in range(vectors)]
    return "\n".join([*out, "}", ""])


def value_elements(vectors: int, rows: int, pairs: bool) -> str:
    """``pv_<rows>``, as ``micro.value_tile``; ``rows`` is a multiple of ``WORDS``."""
    acc = _names(rows, vectors, "o")
    out = [
        f"static void pv_{rows}(const VALUE* v, i64 stride, const float* p, i64 steps, float* o, const float* shrink,",
        "                 bool first) {",
        f"  vf {_declare(acc)};",
        "  if (!first) {",
        *(f"    const vf f{z} = vload(shrink + {z} * NL);" for z in range(vectors)),
    ]
    for r in range(rows):
        out += [f"    {acc[r][z]} = vload(o + {r} * BQ + {z} * NL) * f{z};" for z in range(vectors)]
    out += ["  }", "  for (i64 n = 0; n < steps; ++n, p += BQ, v += stride) {"]
    out += [f"    const vf u{b} = vload((const float*)v + {b});" for b in range(0, rows, WORDS)]
    out += [f"    const vf x{z} = vload(p + {z} * NL);" for z in range(vectors)]
    for r in range(rows):
        product = _by_element(pairs, r % WORDS)
        out += [f"    {acc[r][z]} = {product(acc[r][z], f'u{r - r % WORDS}', f'x{z}')};" for z in range(vectors)]
    out.append("  }")
    for r in range(rows):
        out += [f"  vstore(o + {r} * BQ + {z} * NL, {acc[r][z]});" for z in range(vectors)]
    return "\n".join([*out, "}", ""])


def product_elements(vectors: int, pairs: bool) -> str:
    """``products``, as ``backward.product_tile``."""
    acc = _names(ROWS, vectors, "s")
    where = ("k", "k + stride", "k + 2 * stride", "k3")
    out = [
        "NOINLINE void products(const char* k, const i64 stride, const float* q, i64 words, float* s) {",
        "  const char* k3 = k + 3 * stride;",
        f"  vf {_declare(acc)};",
        f"  for (; words >= {WORDS}; words -= {WORDS}, k += {4 * WORDS}, k3 += {4 * WORDS}, q += {WORDS} * BQ) {{",
        *(f"    const vf u{r} = vload((const float*)({where[r]}));" for r in range(ROWS)),
        *_quad(acc, "q", "BQ", pairs),
        "  }",
        "  for (; words > 0; --words, k += 4, k3 += 4, q += BQ) {",
        *(f"    const vf e{r} = vword({where[r]});" for r in range(ROWS)),
        *_products(acc, [f"e{r}" for r in range(ROWS)], "q", _by_vector(pairs)),
        "  }",
    ]
    for r in range(ROWS):
        out += [f"  vstore(s + {r * vectors + z} * NL, {acc[r][z]});" for z in range(vectors)]
    return "\n".join([*out, "}", ""])


def gradient_elements(vectors: int, pairs: bool) -> str:
    """``add_<vectors>``, as ``backward.gradient_tile``. The words of neighbouring rows, or else of steps, are side by side."""
    acc = _names(ROWS, vectors, "a")
    where = ("w", "w + w_row", "w + 2 * w_row", "w3")
    rows = [_by_element(pairs, r) for r in range(ROWS)]
    out = [
        f"INLINE void add_{vectors}(const char* w, i64 w_step, i64 w_row, const float* x, i64 x_step, i64 steps, float* a,",
        "                  i64 a_row) {",
    ]
    for r in range(ROWS):
        out += [f"  vf {acc[r][z]} = vload(a + {r} * a_row + {z} * NL);" for z in range(vectors)]
    out += [
        "  if (w_row == 4) {",
        "    for (; steps > 0; --steps, w += w_step, x += x_step) {",
        "      const vf word = vload((const float*)w);",
        *(f"      const vf x{z} = vload(x + {z} * NL);" for z in range(vectors)),
    ]
    for r in range(ROWS):
        out += [f"      {acc[r][z]} = {rows[r](acc[r][z], 'word', f'x{z}')};" for z in range(vectors)]
    out += [
        "    }",
        "  }",
        "  const char* w3 = w + 3 * w_row;",
        f"  for (; steps >= {WORDS}; steps -= {WORDS}, w += {4 * WORDS}, w3 += {4 * WORDS}, x += {WORDS} * x_step) {{",
        *(f"    const vf u{r} = vload((const float*)({where[r]}));" for r in range(ROWS)),
        *_quad(acc, "x", "x_step", pairs),
        "  }",
        "  for (; steps > 0; --steps, w += w_step, w3 += w_step, x += x_step) {",
        *(f"    const vf e{r} = vword({where[r]});" for r in range(ROWS)),
        *_products(acc, [f"e{r}" for r in range(ROWS)], "x", _by_vector(pairs)),
        "  }",
    ]
    for r in range(ROWS):
        out += [f"  vstore(a + {r} * a_row + {z} * NL, {acc[r][z]});" for z in range(vectors)]
    return "\n".join([*out, "}", ""])
