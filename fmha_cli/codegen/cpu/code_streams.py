"""Register tiles of the decode kernels that widen 8-bit keys and values vector by vector (``decode_codes.h``), as C++ text.

They take the places of those in ``streams.py``, for rows of bytes and for rows that were widened before (``class Rows``). Rows have
no ends: shorter ones were copied, with zeros behind. A tile that saw a byte which it cannot convert begins again, by the table.
"""

from __future__ import annotations

from fmha_cli.codegen.cpu.micro import butterfly

LINE = 64
"""Bytes of a cache line, for which a tile asks once."""

UNROLLED = 2
"""Keys whose code stands one behind the other where a tile has several rows of queries, as ``streams.UNROLLED``. For one row it is one
key: that is a line long, and a second one behind it gains nothing in a launch and takes 4 % of the compile."""

SUMS = 8
"""Vectors that add up the products of a key. Converting takes many instructions, so the next key begins late: one chain would be waited for."""

TEMPLATE = "template <bool FORM, class Rows = Lines>"


def dot_codes(lanes: int, rows: int) -> str:
    """``dot_<rows>``, as ``streams.dot_tile``."""
    keys, run = lanes // rows, LINE // lanes
    chains = max(1, min(run, SUMS // rows))

    def step(chain: int, first: bool) -> list[str]:
        return [
            *(["      ask<FORM>(lines, row + c, next);"] if first else []),
            "      { const vf k = load_codes<FORM>(by, row + c);",
            *(f"        a{r + chain * rows} = vfma(k, vload(query + {r} * q_stride + c), a{r + chain * rows});" for r in range(rows)),
            "      } c += NL;",
        ]  # fmt: skip

    def key(n: int) -> list[str]:
        """One key: n of the unrolled ones, behind the first ``done``."""
        return [
            f"  {{ const auto* row = lines.first + min64(done + {n}, last) * lines.stride;",
            f"    vf {', '.join(f'a{r} = vset(0)' for r in range(rows * chains))};",
            "    i64 c = 0;",
            f"    while (c + {run} * NL <= columns) {{",
            f"      see<FORM, {run} * NL>(seen, row + c);",
            *(line for n in range(run) for line in step(n % chains, not n)),
            "    }",
            "    while (c < columns) {",
            "      see<FORM, NL>(seen, row + c);",
            *step(0, True),
            "    }",
            *(f"    a{r} += a{r + chain * rows};" for chain in range(1, chains) for r in range(rows)),
            *(f"    vstore(sums + ({r * keys + n} + done) * NL, a{r});" for r in range(rows)),
            "  }",
        ]

    some = min(keys, UNROLLED) if rows > 1 else 1
    return "\n".join(
        [
            TEMPLATE,
            f"NOINLINE vf dot_{rows}(const float* query, i64 q_stride, const Rows& lines, i64 last, i64 columns) {{",
            "  alignas(64) float sums[NL * NL];",
            "  const auto by = codes_of(lines);",
            "  auto seen = nothing_seen(lines);",
            "  const auto* next = far_of(lines);",
            f"  for (i64 done = 0; done < {keys}; done += {some}) {{",
            *(line for n in range(some) for line in key(n)),
            "  }",
            f"  if (are_odd<FORM>(lines, seen)) return dot_odd(query, q_stride, lines, last, columns, {rows});",
            f"  vf {', '.join(f'a{n} = vload(sums + {n} * NL)' for n in range(lanes))};",
            *butterfly(lanes, "a", total=True),
            "  return a0 * vset(by.unit);",
            "}",
            "",
        ]
    )


def mix_codes(lanes: int, vectors: int, rows: int) -> str:
    """``mix_<rows>_<vectors>``, as ``streams.mix_tile``; n is all of its columns. O is in the units of the codes meanwhile."""
    acc, run = [[f"o{r}_{z}" for z in range(vectors)] for r in range(rows)], LINE // lanes
    out = [
        TEMPLATE,
        f"static void mix_{rows}_{vectors}(float* o, i64 o_stride, const float* p, i64 p_stride,",
        "                    const Rows& lines, i64 c, i64 keys, const float* shrink, i64 n) {",
        "  const auto by = codes_of(lines);",
        "  auto seen = nothing_seen(lines);",
    ]
    for r in range(rows):
        factor = f"vset(shrink[{r}] * by.inverse)"
        out += [f"  vf {a} = vload(o + {r} * o_stride + {z} * NL) * {factor};" for z, a in enumerate(acc[r])]
    out += [
        "  const auto* next = far_of(lines) + c * keys;",
        "  for (i64 j = 0; j < keys; ++j) {",
        "    const auto* v = lines.first + j * lines.stride + c;",
        f"    see<FORM, {vectors} * NL>(seen, v);",
    ]
    loads = [f"    const vf v{z} = load_codes<FORM>(by, v + {z} * NL);" for z in range(vectors)]
    for z in range(0, vectors, run):
        loads[z] = f"    ask<FORM>(lines, v + {z} * NL, next);\n{loads[z]}"
    words = [f"    const vf p{r} = vset(p[{r} * p_stride + j]);" for r in range(rows)]
    # Whichever are fewer are read first, and stay in registers.
    held, read = (words, loads) if rows < vectors else (loads, words)
    out += held
    for n, text in enumerate(read):
        pairs = [(r, n) if rows < vectors else (n, r) for r in range(len(held))]
        out += [text, *(f"    {acc[r][z]} = vfma(p{r}, v{z}, {acc[r][z]});" for r, z in pairs)]
    out.append("  }")
    out.append(
        f"  if (are_odd<FORM>(lines, seen)) return mix_odd(o, o_stride, p, p_stride, lines, c, keys, shrink, {rows}, n);"
    )
    for r in range(rows):
        out += [f"  vstore(o + {r} * o_stride + {z} * NL, {a} * vset(by.unit));" for z, a in enumerate(acc[r])]
    return "\n".join([*out, "}", ""])
