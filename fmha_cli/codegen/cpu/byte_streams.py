"""Register tiles of the decode kernels that read 8-bit keys and values and widen them in their own registers, as C++ text.

They take the places of those in ``streams.py`` where 64 bytes are looked up at once (AVX512-VBMI) and bf16 is multiplied in
pairs. Unpacking stays inside 128 bits, so columns come in another order: that of queries and of O is changed instead
(``decode_bytes.h``), once for a group.
"""

from __future__ import annotations

from fmha_cli.codegen.cpu.micro import butterfly

VECTORS = 4
"""Vectors of O for the 64 columns that are widened at once."""


def dot_bytes(lanes: int, rows: int, *, wide: bool = False) -> str:
    """``dot_<rows>``, as ``streams.dot_tile``: a row is widened once for all ``rows`` queries.

    All keys are read together: a row of bytes is too short for its own loop, which takes a tenth longer. With ``wide``
    it is ``dot_wide``, whose keys ``widen_keys`` has widened.
    """
    keys = lanes // rows
    acc = [[f"a{r * keys + n}" for n in range(keys)] for r in range(rows)]

    def products(r: int, n: int) -> str:
        return f"{acc[r][n]} = vdot(vdot({acc[r][n]}, e{n}, q), f{n}, s);"

    def key(n: int) -> list[str]:
        if wide:
            return [f"    const vf e{n} = vload(r{n} + at), f{n} = vload(r{n} + at + NL);"]
        return [
            f"    ask<FORM>(k, r{n} + c, next);",
            f"    vf e{n}, f{n};",
            f"    widen_columns<FORM>(by, load_codes(r{n} + c, some), e{n}, f{n});",
        ]

    queries = "const vf q = vload(query + {r} * q_stride + at), s = vload(query + {r} * q_stride + at + NL);"
    if rows == 1:
        body = [f"    {queries.format(r=0)}"]
        body += [line for n in range(keys) for line in (*key(n), f"    {products(0, n)}")]
    else:
        body = [line for n in range(keys) for line in key(n)]
        for r in range(rows):
            body.append("    { " + queries.format(r=r) + " " + " ".join(products(r, n) for n in range(keys)) + " }")
    name, lines, row = (
        ("dot_wide", "const WideRows&", "const float*") if wide else (f"dot_{rows}", "const Lines&", "const ROW*")
    )
    return "\n".join(
        [
            *(() if wide else ("template <bool FORM>",)),
            f"NOINLINE vf {name}(const float* query, i64 q_stride, {lines} k, i64 last, i64 columns) {{",
            *(() if wide else ("  const Widener by = widener_of(*k.by);", "  const ROW* next = k.far_at;")),
            f"  vf {', '.join(f'a{n} = vset(0)' for n in range(lanes))};",
            *(f"  {row} r{n} = k.first + min64({n}, last) * k.stride;" for n in range(keys)),
            "  for (i64 c = 0, at = 0; c < columns; c += CODES, at += 2 * NL) {",
            *(() if wide else ("    const __mmask64 some = first_codes(columns - c);",)),
            *body,
            "  }",
            *butterfly(lanes, "a", total=True),
            "  return a0;",
            "}",
            "",
        ]
    )


def mix_bytes(rows: int, *, wide: bool = False) -> str:
    """``mix_<rows>_4``, as ``streams.pair_mix_tile``, for 64 columns or the n last ones.

    With ``wide`` it is ``mix_wide``, whose pairs ``widen_values`` has made.
    """
    acc = [[f"o{r}_{z}" for z in range(VECTORS)] for r in range(rows)]
    name, lines = ("mix_wide", "const WideRows&") if wide else (f"mix_{rows}_{VECTORS}", "const Lines&")
    out = [
        *(() if wide else ("template <bool FORM>",)),
        f"static void {name}(float* o, i64 o_stride, const float* p, i64 p_stride, {lines} lines, i64 c, i64 keys,",
        "                    const float* shrink, i64 n) {",
    ]
    if not wide:
        out += [
            "  const Widener by = widener_of(*lines.by);",
            "  const __mmask64 some = first_codes(n);",
            "  const ROW* next = lines.far_at + c * keys;",
        ]
    for r in range(rows):
        out += [f"  vf {a} = vload(o + {r} * o_stride + {z} * NL) * vset(shrink[{r}]);" for z, a in enumerate(acc[r])]
    out.append("  for (i64 j = 0; j < keys; j += 2, ++p) {")
    if wide:
        out.append("    const float* v = lines.first + j * lines.stride + c;")
        out += [f"    const vf v{z} = vload(v + {z} * NL);" for z in range(VECTORS)]
    else:
        names = ", ".join(f"v{z}" for z in range(VECTORS))
        out += [
            "    const ROW *a = lines.first + j * lines.stride + c, *b = j + 1 < keys ? a + lines.stride : a;",
            "    ask<FORM>(lines, a, next), ask<FORM>(lines, b, next);",
            f"    vf {names};",
            f"    widen_pairs<FORM>(by, load_codes(a, some), load_codes(b, some), {names});",
        ]
    for r in range(rows):
        out.append(f"    const vf p{r} = vset(p[{r} * p_stride]);")
        out += [f"    {a} = vdot({a}, v{z}, p{r});" for z, a in enumerate(acc[r])]
    out.append("  }")
    for r in range(rows):
        out += [f"  vstore(o + {r} * o_stride + {z} * NL, {a});" for z, a in enumerate(acc[r])]
    return "\n".join([*out, "}", ""])
