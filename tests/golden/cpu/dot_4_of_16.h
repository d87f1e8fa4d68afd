template <bool FORM>
NOINLINE vf dot_4(const float* query, i64 q_stride, const Lines& lines, i64 last, i64 columns) {
  alignas(64) float sums[NL * NL];
  const ROW* next = lines.far_at;
  for (i64 done = 0; done < 4; done += 4) {
  { const ROW* row = lines.first + min64(done + 0, last) * lines.stride;
    vf a0 = vset(0), a1 = vset(0), a2 = vset(0), a3 = vset(0);
    i64 c = 0, at = 0;
    while (c + QUERY_STEP <= columns) {
      ask<FORM>(lines, row + c, next);
      { const vf k = load_keys(row + c);
        a0 = vfma(k, vload(query + 0 * q_stride + at), a0);
        a1 = vfma(k, vload(query + 1 * q_stride + at), a1);
        a2 = vfma(k, vload(query + 2 * q_stride + at), a2);
        a3 = vfma(k, vload(query + 3 * q_stride + at), a3);
      } c += QUERY_STEP, at += NL;
    }
    if (c < columns) {
      ask<FORM>(lines, row + c, next);
      { const vf k = vload_n(row + c, columns - c);
        a0 = vfma(k, vload(query + 0 * q_stride + at), a0);
        a1 = vfma(k, vload(query + 1 * q_stride + at), a1);
        a2 = vfma(k, vload(query + 2 * q_stride + at), a2);
        a3 = vfma(k, vload(query + 3 * q_stride + at), a3);
      } c += QUERY_STEP, at += NL;
    }
    vstore(sums + (0 + done) * NL, a0);
    vstore(sums + (4 + done) * NL, a1);
    vstore(sums + (8 + done) * NL, a2);
    vstore(sums + (12 + done) * NL, a3);
  }
  { const ROW* row = lines.first + min64(done + 1, last) * lines.stride;
    vf a0 = vset(0), a1 = vset(0), a2 = vset(0), a3 = vset(0);
    i64 c = 0, at = 0;
    while (c + QUERY_STEP <= columns) {
      ask<FORM>(lines, row + c, next);
      { const vf k = load_keys(row + c);
        a0 = vfma(k, vload(query + 0 * q_stride + at), a0);
        a1 = vfma(k, vload(query + 1 * q_stride + at), a1);
        a2 = vfma(k, vload(query + 2 * q_stride + at), a2);
        a3 = vfma(k, vload(query + 3 * q_stride + at), a3);
      } c += QUERY_STEP, at += NL;
    }
    if (c < columns) {
      ask<FORM>(lines, row + c, next);
      { const vf k = vload_n(row + c, columns - c);
        a0 = vfma(k, vload(query + 0 * q_stride + at), a0);
        a1 = vfma(k, vload(query + 1 * q_stride + at), a1);
        a2 = vfma(k, vload(query + 2 * q_stride + at), a2);
        a3 = vfma(k, vload(query + 3 * q_stride + at), a3);
      } c += QUERY_STEP, at += NL;
    }
    vstore(sums + (1 + done) * NL, a0);
    vstore(sums + (5 + done) * NL, a1);
    vstore(sums + (9 + done) * NL, a2);
    vstore(sums + (13 + done) * NL, a3);
  }
  { const ROW* row = lines.first + min64(done + 2, last) * lines.stride;
    vf a0 = vset(0), a1 = vset(0), a2 = vset(0), a3 = vset(0);
    i64 c = 0, at = 0;
    while (c + QUERY_STEP <= columns) {
      ask<FORM>(lines, row + c, next);
      { const vf k = load_keys(row + c);
        a0 = vfma(k, vload(query + 0 * q_stride + at), a0);
        a1 = vfma(k, vload(query + 1 * q_stride + at), a1);
        a2 = vfma(k, vload(query + 2 * q_stride + at), a2);
        a3 = vfma(k, vload(query + 3 * q_stride + at), a3);
      } c += QUERY_STEP, at += NL;
    }
    if (c < columns) {
      ask<FORM>(lines, row + c, next);
      { const vf k = vload_n(row + c, columns - c);
        a0 = vfma(k, vload(query + 0 * q_stride + at), a0);
        a1 = vfma(k, vload(query + 1 * q_stride + at), a1);
        a2 = vfma(k, vload(query + 2 * q_stride + at), a2);
        a3 = vfma(k, vload(query + 3 * q_stride + at), a3);
      } c += QUERY_STEP, at += NL;
    }
    vstore(sums + (2 + done) * NL, a0);
    vstore(sums + (6 + done) * NL, a1);
    vstore(sums + (10 + done) * NL, a2);
    vstore(sums + (14 + done) * NL, a3);
  }
  { const ROW* row = lines.first + min64(done + 3, last) * lines.stride;
    vf a0 = vset(0), a1 = vset(0), a2 = vset(0), a3 = vset(0);
    i64 c = 0, at = 0;
    while (c + QUERY_STEP <= columns) {
      ask<FORM>(lines, row + c, next);
      { const vf k = load_keys(row + c);
        a0 = vfma(k, vload(query + 0 * q_stride + at), a0);
        a1 = vfma(k, vload(query + 1 * q_stride + at), a1);
        a2 = vfma(k, vload(query + 2 * q_stride + at), a2);
        a3 = vfma(k, vload(query + 3 * q_stride + at), a3);
      } c += QUERY_STEP, at += NL;
    }
    if (c < columns) {
      ask<FORM>(lines, row + c, next);
      { const vf k = vload_n(row + c, columns - c);
        a0 = vfma(k, vload(query + 0 * q_stride + at), a0);
        a1 = vfma(k, vload(query + 1 * q_stride + at), a1);
        a2 = vfma(k, vload(query + 2 * q_stride + at), a2);
        a3 = vfma(k, vload(query + 3 * q_stride + at), a3);
      } c += QUERY_STEP, at += NL;
    }
    vstore(sums + (3 + done) * NL, a0);
    vstore(sums + (7 + done) * NL, a1);
    vstore(sums + (11 + done) * NL, a2);
    vstore(sums + (15 + done) * NL, a3);
  }
  }
  vf a0 = vload(sums + 0 * NL), a1 = vload(sums + 1 * NL), a2 = vload(sums + 2 * NL), a3 = vload(sums + 3 * NL), a4 = vload(sums + 4 * NL), a5 = vload(sums + 5 * NL), a6 = vload(sums + 6 * NL), a7 = vload(sums + 7 * NL), a8 = vload(sums + 8 * NL), a9 = vload(sums + 9 * NL), a10 = vload(sums + 10 * NL), a11 = vload(sums + 11 * NL), a12 = vload(sums + 12 * NL), a13 = vload(sums + 13 * NL), a14 = vload(sums + 14 * NL), a15 = vload(sums + 15 * NL);
  { const vf x = a0, y = a8; a0 = MIX(x, y, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) + MIX(x, y, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31); }
  { const vf x = a1, y = a9; a1 = MIX(x, y, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) + MIX(x, y, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31); }
  { const vf x = a2, y = a10; a2 = MIX(x, y, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) + MIX(x, y, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31); }
  { const vf x = a3, y = a11; a3 = MIX(x, y, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) + MIX(x, y, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31); }
  { const vf x = a4, y = a12; a4 = MIX(x, y, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) + MIX(x, y, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31); }
  { const vf x = a5, y = a13; a5 = MIX(x, y, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) + MIX(x, y, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31); }
  { const vf x = a6, y = a14; a6 = MIX(x, y, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) + MIX(x, y, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31); }
  { const vf x = a7, y = a15; a7 = MIX(x, y, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) + MIX(x, y, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31); }
  { const vf x = a0, y = a4; a0 = MIX(x, y, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27) + MIX(x, y, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31); }
  { const vf x = a1, y = a5; a1 = MIX(x, y, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27) + MIX(x, y, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31); }
  { const vf x = a2, y = a6; a2 = MIX(x, y, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27) + MIX(x, y, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31); }
  { const vf x = a3, y = a7; a3 = MIX(x, y, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27) + MIX(x, y, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31); }
  { const vf x = a0, y = a2; a0 = MIX(x, y, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) + MIX(x, y, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31); }
  { const vf x = a1, y = a3; a1 = MIX(x, y, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) + MIX(x, y, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31); }
  { const vf x = a0, y = a1; a0 = MIX(x, y, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30) + MIX(x, y, 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31); }
  return a0;
}
