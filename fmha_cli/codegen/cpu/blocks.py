"""Register tiles of BFMMLA (AArch64 with BF16) as C++ text.

A register holds a block: two rows of 4 bf16. The instruction multiplies two blocks and adds the 2 x 2 sums of 4 products, so it
does twice the work of a dot product of pairs. Sums are fp32. Tiles have 16 accumulators of 2 keys (or columns) by 2 queries.
"""

from __future__ import annotations

from collections.abc import Sequence


def _names(pairs: int, vectors: int, letter: str) -> list[list[str]]:
    return [[f"{letter}{b}_{i}" for i in range(2 * vectors)] for b in range(pairs)]


def _declared(acc: Sequence[Sequence[str]]) -> str:
    return ", ".join(f"{a} = vset(0)" for row in acc for a in row)


def _products(acc: Sequence[Sequence[str]], blocks: Sequence[str], at: str, pad: str) -> list[str]:
    """The packed blocks at an address, and their products with one block for each row of accumulators."""
    lines = [f"{pad}const vf x{i} = vload({at} + {i} * NL);" for i in range(len(acc[0]))]
    return lines + [
        f"{pad}{a} = vblock({a}, {blocks[b]}, x{i});" for b, row in enumerate(acc) for i, a in enumerate(row)
    ]


def score_blocks(vectors: int, rows: int) -> str:
    """``QK_FULL``, as ``micro.score_tile``; ``rows`` is even."""
    acc = _names(rows // 2, vectors, "m")
    where = [f"b{r - r % 3} + t" + (f" + {r % 3} * stride" if r % 3 else "") for r in range(rows)]
    halves = [[f"{half}{b}" for b in range(rows // 2)] for half in ("low", "high")]
    out = [
        "static void QK_FULL(const char* b0, const i64 stride, const float* q, i64 columns, float* s, float* top) {",
        *(f"  const char* b{b} = b0 + {b} * stride;" for b in range(3, rows, 3)),
        f"  vf {_declared(acc)};",
        "  i64 t = 0;",
        "  for (; columns >= 2 * BLOCK; columns -= 2 * BLOCK, t += 4 * BLOCK, q += 4 * BQ) {",
        *(f"    const vf k{r} = vload((const float*)({where[r]}));" for r in range(rows)),
    ]
    for b in range(rows // 2):
        out += [f"    const vf {half}{b} = rows_{half}(k{2 * b}, k{2 * b + 1});" for half in ("low", "high")]
    for half, names in enumerate(halves):
        out += ["    {", *_products(acc, names, f"q + {half} * 2 * BQ", "      "), "    }"]
    out += [
        "  }",
        "  for (; columns > 0; columns -= BLOCK, t += 2 * BLOCK, q += 2 * BQ) {",
        "    const i64 n = min64(BLOCK, columns);",
        *(f"    const vf low{b} = block_of({where[2 * b]}, {where[2 * b + 1]}, n);" for b in range(rows // 2)),
        *_products(acc, halves[0], "q", "    "),
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
    """``weigh``, as ``micro.weights``. Every block is written behind the scores that it needs, and before those of others."""
    zs, keys = range(vectors), "abcd"

    def group(loads: Sequence[str]) -> list[str]:
        lines = [f"    const vf {key}{z} = {loads[n].format(z=z)};" for n, key in enumerate(keys) for z in zs]
        for z in zs:
            lines.append(f"    sum{z} += (a{z} + b{z}) + (c{z} + d{z});")
            lines.append(f"    const vf low{z} = vjoin(a{z}, b{z}), high{z} = vjoin(c{z}, d{z});")
        for z in zs:
            lines.append(f"    vstore(out + {2 * z} * NL, words_low(low{z}, high{z}));")
            lines.append(f"    vstore(out + {2 * z + 1} * NL, words_high(low{z}, high{z}));")
        return lines

    load = "vexp2(vfma(vload(s + {n} * BQ + {{z}} * NL), c, floor{{z}}))"
    whole = [load.format(n=n) for n in range(4)]
    rest = [whole[0], *(f"j + {n} < n ? {whole[n]} : vset(0)" for n in (1, 2, 3))]
    return "\n".join(
        [
            "static void weigh(float* s, i64 n, vf c, const float* floor, float* sum, const float* shrink, bool keep) {",
            "  float* out = s;",
            *(f"  const vf floor{z} = -vload(floor + {z} * NL);" for z in zs),
            f"  vf {', '.join(f'sum{z} = vset(0)' for z in zs)};",
            "  i64 j = 0;",
            "  for (; j + 3 < n; j += 4, s += 4 * BQ, out += 2 * BQ) {",
            *group(whole),
            "  }",
            "  if (j < n) {",
            *group(rest),
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
        f"  vf {_declared(acc)};",
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
        *_products(acc, [f"v{b}" for b in range(rows // 2)], "p", "    "),
        "  }",
    ]
    for b, z in cells:
        low, high = acc[b][2 * z : 2 * z + 2]
        out.append(f"  vstore(o + {2 * b} * BQ + {z} * NL, rows_low({low}, {high}));")
        out.append(f"  vstore(o + {2 * b + 1} * BQ + {z} * NL, rows_high({low}, {high}));")
    return "\n".join([*out, "}", ""])
