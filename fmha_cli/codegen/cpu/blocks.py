"""Register tiles of BFMMLA (AArch64 with BF16) as C++ text.

A register holds a block: two rows of 4 bf16. The instruction multiplies two blocks and adds the 2 x 2 sums of 4 products, so it
does twice the work of a dot product of pairs. Sums are fp32. Tiles have 16 accumulators of 2 keys (or columns) by 2 queries.
"""

from __future__ import annotations

from collections.abc import Sequence

from fmha_cli.codegen.cpu.backward import ROWS


def _names(pairs: int, vectors: int, letter: str) -> list[list[str]]:
    return [[f"{letter}{b}_{i}" for i in range(2 * vectors)] for b in range(pairs)]


def _declare(acc: Sequence[Sequence[str]]) -> str:
    return ", ".join(f"{a} = vset(0)" for row in acc for a in row)


def _products(
    acc: Sequence[Sequence[str]], blocks: Sequence[str], at: str, second: str, pad: str, vector: str = "NL"
) -> list[str]:
    """The packed blocks at an address, and their products with one block for each row of accumulators.

    Args:
        second: what leads from the first block of 4 rows to the second.
        vector: what leads from there to the next 4 rows.
    """
    lines = []
    for i in range(len(acc[0])):
        place = f"{at} + {i // 2} * {vector}" + (f" + {second}" if i % 2 else "")
        lines.append(f"{pad}const vf x{i} = vload({place});")
    return lines + [
        f"{pad}{a} = vblock({a}, {blocks[b]}, x{i});" for b, row in enumerate(acc) for i, a in enumerate(row)
    ]


def _rows_in_memory(acc: Sequence[Sequence[str]], where: Sequence[str], at: str, row: str) -> list[str]:
    """Two steps of 4 elements of rows as they lie in memory; packed blocks begin at ``at``, with ``row`` words in a row."""
    names = [[f"{half}{b}" for b in range(len(acc))] for half in ("low", "high")]
    lines = [f"    const vf row{r} = vload((const float*)({place}));" for r, place in enumerate(where)]
    for b in range(len(acc)):
        lines += [f"    const vf {half}{b} = rows_{half}(row{2 * b}, row{2 * b + 1});" for half in ("low", "high")]
    for half, blocks in enumerate(names):
        start = f"{at} + 2 * {row}" if half else at
        lines += ["    {", *_products(acc, blocks, start, row, "      "), "    }"]
    return lines


def _rest_of_rows(acc: Sequence[Sequence[str]], where: Sequence[str], at: str, row: str, n: str) -> list[str]:
    """One step of n elements."""
    places = zip(where[::2], where[1::2], strict=True)
    blocks = [f"    const vf low{b} = block_of({first}, {second}, {n});" for b, (first, second) in enumerate(places)]
    return [*blocks, *_products(acc, [f"low{b}" for b in range(len(acc))], at, row, "    ")]


def score_blocks(vectors: int, rows: int) -> str:
    """``QK_FULL``, as ``micro.score_tile``; ``rows`` is even."""
    acc = _names(rows // 2, vectors, "m")
    where = [f"b{r - r % 3} + t" + (f" + {r % 3} * stride" if r % 3 else "") for r in range(rows)]
    out = [
        "static void QK_FULL(const char* b0, const i64 stride, const float* q, i64 columns, float* s, float* top) {",
        *(f"  const char* b{b} = b0 + {b} * stride;" for b in range(3, rows, 3)),
        f"  vf {_declare(acc)};",
        "  i64 t = 0;",
        "  for (; columns >= 2 * BLOCK; columns -= 2 * BLOCK, t += 4 * BLOCK, q += 4 * BQ) {",
        *_rows_in_memory(acc, where, "q", "BQ"),
        "  }",
        "  for (; columns > 0; columns -= BLOCK, t += 2 * BLOCK, q += 2 * BQ) {",
        "    const i64 n = min64(BLOCK, columns);",
        *_rest_of_rows(acc, where, "q", "BQ", "n"),
        "  }",
        *(f"  vf top{z} = vload(top + {z} * NL);" for z in range(vectors)),
        "  vf score;",
    ]
    for r in range(rows):
        for z in range(vectors):
            low, high = acc[r // 2][2 * z : 2 * z + 2]
            out += [
                f"  score = rows_{'high' if r % 2 else 'low'}({low}, {high});",
                f"  vstore(s + {r} * BQ + {z} * NL, score);",
                f"  top{z} = vmax(score, top{z});",
            ]
    out += [f"  vstore(top + {z} * NL, top{z});" for z in range(vectors)]
    return "\n".join([*out, "}", ""])


def block_weights(vectors: int) -> str:
    """``weigh``, as ``micro.weights``, four keys at a time.

    Blocks are written over the scores of the first two keys, so weights of these come first for all queries. Registers
    hold half of them at a time, next to the constants of exp2.
    """
    zs = range(vectors)

    def pair(z: int, n: int, joined: str, *, rest: bool) -> list[str]:
        """The weights of keys n and n + 1 of a group, of which at least the first key is there."""
        both = []
        for key, m in (("x", n), ("y", n + 1)):
            weight = f"vexp2(exponent(of, vload(s + {m} * BQ + {z} * NL), floor{z}))"
            both.append(f"vf {key} = " + (f"j + {m} < n ? {weight} : vset(0);" if rest and m else f"{weight};"))
        factors = [f"j + {m} < n ? by[j + {m}] : 0" if rest and m else f"by[j + {m}]" for m in (n, n + 1)]
        return [
            *(f"      {one}" for one in both),
            f"      sum{z} += x + y;",
            f"      if (BYTES && by) x *= vset({factors[0]}), y *= vset({factors[1]});",
            f"      {joined} = vjoin(x, y);",
        ]

    def group(*, rest: bool) -> list[str]:
        lines = [f"    vf {', '.join(f'low{z}' for z in zs)};"]
        for z in zs:
            lines += ["    {", *pair(z, 0, f"low{z}", rest=rest), "    }"]
        for z in zs:
            lines += ["    {", *pair(z, 2, "const vf high", rest=rest)]
            lines += [f"      vstore(out + {2 * z} * NL, words_low(low{z}, high));"]
            lines += [f"      vstore(out + {2 * z + 1} * NL, words_high(low{z}, high));", "    }"]
        return lines

    return "\n".join(
        [
            "template <class Exponent>",
            "static void weigh(const float* s, float* out, i64 n, const Exponent of, const float* floor, float* sum,",
            "                  const float* shrink, bool keep, const float* by) {",
            *(f"  const vf floor{z} = vload(floor + {z} * NL);" for z in zs),
            f"  vf {', '.join(f'sum{z} = vset(0)' for z in zs)};",
            "  i64 j = 0;",
            "  for (; j + 3 < n; j += 4, s += 4 * BQ, out += 2 * BQ) {",
            *group(rest=False),
            "  }",
            "  if (j < n) {",
            *group(rest=True),
            "  }",
            "  const vf on = vset(keep ? 0.0f : 1.0f);",
            *(
                f"  vstore(sum + {z} * NL, vfma(vload(sum + {z} * NL), vload(shrink + {z} * NL), sum{z} * on));"
                for z in zs
            ),
            "}",
            "",
        ]
    )


def value_blocks(vectors: int, rows: int) -> str:
    """``pv_<rows>``, as ``micro.value_tile``; ``rows`` is even. O lies in rows, accumulators are blocks."""
    acc = _names(rows // 2, vectors, "o")
    out = [
        f"static void pv_{rows}(const VALUE* v, i64 stride, const float* p, i64 steps, float* o, const float* shrink,",
        "                 bool first) {",
        f"  vf {_declare(acc)};",
        "  if (!first) {",
        *(f"    const vf f{z} = vload(shrink + {z} * NL);" for z in range(vectors)),
    ]
    cells = [(b, z) for b in range(rows // 2) for z in range(vectors)]
    for b, z in cells:
        first, second = (f"vload(o + {r} * BQ + {z} * NL) * f{z}" for r in (2 * b, 2 * b + 1))
        out.append(f"    {{ const vf x = {first}, y = {second};")
        out.append(f"      {acc[b][2 * z]} = rows_low(x, y); {acc[b][2 * z + 1]} = rows_high(x, y); }}")
    out += [
        "  }",
        "  for (i64 n = 0; n < steps; ++n, p += 2 * BQ, v += stride) {",
        *(f"    const vf v{b} = vload(v + {b} * NL);" for b in range(rows // 2)),
        *_products(acc, [f"v{b}" for b in range(rows // 2)], "p", "NL", "    ", "2 * NL"),
        "  }",
    ]
    for b, z in cells:
        low, high = acc[b][2 * z : 2 * z + 2]
        out.append(f"  vstore(o + {2 * b} * BQ + {z} * NL, rows_low({low}, {high}));")
        out.append(f"  vstore(o + {2 * b + 1} * BQ + {z} * NL, rows_high({low}, {high}));")
    return "\n".join([*out, "}", ""])


def product_blocks(vectors: int) -> str:
    """``products``, as ``backward.product_tile``. Words come in twos, with zeros behind the last column."""
    acc = _names(ROWS // 2, vectors, "m")
    where = ("k", "k + stride", "k + 2 * stride", "k3")
    out = [
        "NOINLINE void products(const char* k, const i64 stride, const float* q, i64 words, float* s) {",
        "  const char* k3 = k + 3 * stride;",
        f"  vf {_declare(acc)};",
        "  for (; words >= BLOCK; words -= BLOCK, k += 4 * BLOCK, k3 += 4 * BLOCK, q += 4 * BQ) {",
        *_rows_in_memory(acc, where, "q", "BQ"),
        "  }",
        "  if (words > 0) {",
        *_rest_of_rows(acc, where, "q", "BQ", "BLOCK"),
        "  }",
    ]
    for b in range(ROWS // 2):
        for z in range(vectors):
            both = ", ".join(acc[b][2 * z : 2 * z + 2])
            for r, half in ((2 * b, "low"), (2 * b + 1, "high")):
                out.append(f"  vstore(s + {r * vectors + z} * NL, rows_{half}({both}));")
    return "\n".join([*out, "}", ""])


def gradient_blocks(vectors: int) -> str:
    """``add_<vectors>``, as ``backward.gradient_tile``. Steps come in twos; the words of rows that are side by side are packed."""
    acc = _names(ROWS // 2, vectors, "a")
    where = ("w", "w + w_row", "w + 2 * w_row", "w3")
    cells = [(b, z) for b in range(ROWS // 2) for z in range(vectors)]
    out = [
        f"INLINE void add_{vectors}(const char* w, i64 w_step, i64 w_row, const float* x, i64 x_step, i64 steps, float* a,",
        "                  i64 a_row) {",
        f"  vf {_declare(acc)};",
    ]
    for b, z in cells:
        first, second = (f"vload(a + {r} * a_row + {z} * NL)" for r in (2 * b, 2 * b + 1))
        out.append(f"  {{ const vf x0 = {first}, x1 = {second};")
        out.append(f"    {acc[b][2 * z]} = rows_low(x0, x1); {acc[b][2 * z + 1]} = rows_high(x0, x1); }}")
    out += [
        "  if (w_row == 4)",
        "    for (; steps > 0; steps -= 2, w += 2 * w_step, x += 2 * x_step) {",
        "      const vf w0 = vload((const float*)w), w1 = vload((const float*)(w + w_step));",
        *_products(acc, ("w0", "w1"), "x", "x_step", "      "),
        "    }",
        "  const char* w3 = w + 3 * w_row;",
        "  for (; steps >= 4; steps -= 4, w += 4 * BLOCK, w3 += 4 * BLOCK, x += 4 * x_step) {",
        *_rows_in_memory(acc, where, "x", "x_step"),
        "  }",
        "  if (steps > 0) {",
        *_rest_of_rows(acc, where, "x", "x_step", "BLOCK"),
        "  }",
    ]
    for b, z in cells:
        both = ", ".join(acc[b][2 * z : 2 * z + 2])
        for r, half in ((2 * b, "low"), (2 * b + 1, "high")):
            out.append(f"  vstore(a + {r} * a_row + {z} * NL, rows_{half}({both}));")
    return "\n".join([*out, "}", ""])
