"""Register tiles of the backward kernels as C++ text. Every tile has ``ROWS`` rows.

A weight and an element of an operand are 32-bit words: one float, or a pair of bf16 that one instruction multiplies.
"""

from __future__ import annotations

from collections.abc import Sequence

ROWS = 4
"""Rows of every register tile: keys of the scores, keys or queries of a gradient. Dropout draws words for as many keys."""


def product_tile(vectors: int, pairs: bool) -> str:
    """``products``: [key][query] products of ``ROWS`` keys and ``vectors`` vectors of packed queries.

    Keys are rows of words with a stride in bytes. The tile of queries is [word][BQ], the result [key][vectors * NL].
    """
    acc = [[f"s{r}_{z}" for z in range(vectors)] for r in range(ROWS)]
    out = [
        "NOINLINE void products(const char* k, const i64 stride, const float* q, i64 words, float* s) {",
        "  const char* k3 = k + 3 * stride;",
        f"  vf {', '.join(f'{a} = vset(0)' for row in acc for a in row)};",
        "  for (const char* end = k + 4 * words; k < end; k += 4, k3 += 4, q += BQ) {",
        *(f"    const vf q{z} = vload(q + {z} * NL);" for z in range(vectors)),
    ]
    for r in range(ROWS):
        out.append(f"    const vf e{r} = vword({_row('k', r, 'stride')});")
        out += [f"    {acc[r][z]} = {_product(acc[r][z], f'e{r}', f'q{z}', pairs)};" for z in range(vectors)]
    out.append("  }")
    for r in range(ROWS):
        out += [f"  vstore(s + {r * vectors + z} * NL, {acc[r][z]});" for z in range(vectors)]
    return "\n".join([*out, "}", ""])


def gradient_tile(vectors: int, pairs: bool) -> str:
    """``add_<vectors>``: adds, to ``ROWS`` rows of a gradient, the sum over steps of a weight times a row of x.

    The weight of row r and step n is the word at ``w + r * w_row + n * w_step``, both strides in bytes.
    """
    acc = [[f"a{r}_{z}" for z in range(vectors)] for r in range(ROWS)]
    out = [
        f"INLINE void add_{vectors}(const char* w, i64 w_step, i64 w_row, const float* x, i64 x_step, i64 steps, float* a,",
        "                  i64 a_row) {",
        "  const char* w3 = w + 3 * w_row;",
    ]
    for r in range(ROWS):
        out += [f"  vf {acc[r][z]} = vload(a + {r} * a_row + {z} * NL);" for z in range(vectors)]
    out.append("  for (i64 n = 0; n < steps; ++n, w += w_step, w3 += w_step, x += x_step) {")
    out += [f"    const vf x{z} = vload(x + {z} * NL);" for z in range(vectors)]
    for r in range(ROWS):
        out.append(f"    const vf e{r} = vword({_row('w', r, 'w_row')});")
        out += [f"    {acc[r][z]} = {_product(acc[r][z], f'e{r}', f'x{z}', pairs)};" for z in range(vectors)]
    out.append("  }")
    for r in range(ROWS):
        out += [f"  vstore(a + {r} * a_row + {z} * NL, {acc[r][z]});" for z in range(vectors)]
    return "\n".join([*out, "}", ""])


def gradient_columns(sizes: Sequence[int]) -> str:
    """``add``: all columns of ``ROWS`` rows by tiles of about equal width, at most ``max(sizes)`` vectors.

    Equal tiles keep the shortest chain of sums long: 8 vectors are 4 + 4, not 6 + 2.
    """
    cases = [f"      case {n}: add_{n}(w, w_step, w_row, x + c, x_step, steps, a + c, a_row); break;" for n in sizes]
    return "\n".join(
        [
            "NOINLINE void add(const char* w, i64 w_step, i64 w_row, const float* x, i64 x_step, i64 steps, float* a, i64 a_row,",
            "                i64 columns) {",
            "  if (steps <= 0) return;",
            "  i64 left = columns / NL;",
            "  for (i64 c = 0, width; left; c += width * NL, left -= width) {",
            f"    width = ceil_div(left, ceil_div(left, {max(sizes)}));",
            "    switch (width) {",
            *cases,
            "    }",
            "  }",
            "}",
            "",
        ]
    )


def _row(base: str, r: int, stride: str) -> str:
    """The address of row r from two pointers: ``base`` and ``base``3."""
    return (base, f"{base} + {stride}", f"{base} + 2 * {stride}", f"{base}3")[r]


def _product(acc: str, word: str, vector: str, pairs: bool) -> str:
    return f"vdot({acc}, {word}, {vector})" if pairs else f"vfma({word}, {vector}, {acc})"
