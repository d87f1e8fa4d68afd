template <bool FORM, class Rows = Lines>
NOINLINE vf dot_1(const float* query, i64 q_stride, const Rows& lines, i64 last, i64 columns) {
  alignas(64) float sums[NL * NL];
  const auto by = codes_of(lines);
  auto seen = nothing_seen(lines);
  const auto* next = far_of(lines);
  for (i64 done = 0; done < 8; done += 1) {
  { const auto* row = lines.first + min64(done + 0, last) * lines.stride;
    vf a0 = vset(0), a1 = vset(0), a2 = vset(0), a3 = vset(0), a4 = vset(0), a5 = vset(0), a6 = vset(0), a7 = vset(0);
    i64 c = 0;
    while (c + 8 * NL <= columns) {
      see<FORM, 8 * NL>(seen, row + c);
      ask<FORM>(lines, row + c, next);
      { const vf k = load_codes<FORM>(by, row + c);
        a0 = vfma(k, vload(query + 0 * q_stride + c), a0);
      } c += NL;
      { const vf k = load_codes<FORM>(by, row + c);
        a1 = vfma(k, vload(query + 0 * q_stride + c), a1);
      } c += NL;
      { const vf k = load_codes<FORM>(by, row + c);
        a2 = vfma(k, vload(query + 0 * q_stride + c), a2);
      } c += NL;
      { const vf k = load_codes<FORM>(by, row + c);
        a3 = vfma(k, vload(query + 0 * q_stride + c), a3);
      } c += NL;
      { const vf k = load_codes<FORM>(by, row + c);
        a4 = vfma(k, vload(query + 0 * q_stride + c), a4);
      } c += NL;
      { const vf k = load_codes<FORM>(by, row + c);
        a5 = vfma(k, vload(query + 0 * q_stride + c), a5);
      } c += NL;
      { const vf k = load_codes<FORM>(by, row + c);
        a6 = vfma(k, vload(query + 0 * q_stride + c), a6);
      } c += NL;
      { const vf k = load_codes<FORM>(by, row + c);
        a7 = vfma(k, vload(query + 0 * q_stride + c), a7);
      } c += NL;
    }
    while (c < columns) {
      see<FORM, NL>(seen, row + c);
      ask<FORM>(lines, row + c, next);
      { const vf k = load_codes<FORM>(by, row + c);
        a0 = vfma(k, vload(query + 0 * q_stride + c), a0);
      } c += NL;
    }
    a0 += a1;
    a0 += a2;
    a0 += a3;
    a0 += a4;
    a0 += a5;
    a0 += a6;
    a0 += a7;
    vstore(sums + (0 + done) * NL, a0);
  }
  }
  if (are_odd<FORM>(lines, seen)) return dot_odd(query, q_stride, lines, last, columns, 1);
  vf a0 = vload(sums + 0 * NL), a1 = vload(sums + 1 * NL), a2 = vload(sums + 2 * NL), a3 = vload(sums + 3 * NL), a4 = vload(sums + 4 * NL), a5 = vload(sums + 5 * NL), a6 = vload(sums + 6 * NL), a7 = vload(sums + 7 * NL);
  { const vf x = a0, y = a4; a0 = MIX(x, y, 0, 1, 2, 3, 8, 9, 10, 11) + MIX(x, y, 4, 5, 6, 7, 12, 13, 14, 15); }
  { const vf x = a1, y = a5; a1 = MIX(x, y, 0, 1, 2, 3, 8, 9, 10, 11) + MIX(x, y, 4, 5, 6, 7, 12, 13, 14, 15); }
  { const vf x = a2, y = a6; a2 = MIX(x, y, 0, 1, 2, 3, 8, 9, 10, 11) + MIX(x, y, 4, 5, 6, 7, 12, 13, 14, 15); }
  { const vf x = a3, y = a7; a3 = MIX(x, y, 0, 1, 2, 3, 8, 9, 10, 11) + MIX(x, y, 4, 5, 6, 7, 12, 13, 14, 15); }
  { const vf x = a0, y = a2; a0 = MIX(x, y, 0, 1, 8, 9, 4, 5, 12, 13) + MIX(x, y, 2, 3, 10, 11, 6, 7, 14, 15); }
  { const vf x = a1, y = a3; a1 = MIX(x, y, 0, 1, 8, 9, 4, 5, 12, 13) + MIX(x, y, 2, 3, 10, 11, 6, 7, 14, 15); }
  { const vf x = a0, y = a1; a0 = MIX(x, y, 0, 8, 2, 10, 4, 12, 6, 14) + MIX(x, y, 1, 9, 3, 11, 5, 13, 7, 15); }
  return a0 * vset(by.unit);
}
