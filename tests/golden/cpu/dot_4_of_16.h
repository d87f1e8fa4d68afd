template <bool FAR>
INLINE vf dot_4(const float* query, i64 q_stride, const Lines& k, i64 last, i64 columns) {
  vf a0 = vset(0), a1 = vset(0), a2 = vset(0), a3 = vset(0), a4 = vset(0), a5 = vset(0), a6 = vset(0), a7 = vset(0), a8 = vset(0), a9 = vset(0), a10 = vset(0), a11 = vset(0), a12 = vset(0), a13 = vset(0), a14 = vset(0), a15 = vset(0);
  const ROW* r0 = k.first + min64(0, last) * k.stride;
  const ROW* r1 = k.first + min64(1, last) * k.stride;
  const ROW* r2 = k.first + min64(2, last) * k.stride;
  const ROW* r3 = k.first + min64(3, last) * k.stride;
  i64 c = 0, at = 0;
  while (c + QUERY_STEP <= columns) {
  {
    ask<FAR>(k, 0, r0 + c, c);
    ask<FAR>(k, 1, r1 + c, c);
    ask<FAR>(k, 2, r2 + c, c);
    ask<FAR>(k, 3, r3 + c, c);
    const vf k0 = load_keys(r0 + c);
    const vf k1 = load_keys(r1 + c);
    const vf k2 = load_keys(r2 + c);
    const vf k3 = load_keys(r3 + c);
    { const vf q = vload(query + 0 * q_stride + at);
      a0 = vfma(k0, q, a0);
      a1 = vfma(k1, q, a1);
      a2 = vfma(k2, q, a2);
      a3 = vfma(k3, q, a3);
    }
    { const vf q = vload(query + 1 * q_stride + at);
      a4 = vfma(k0, q, a4);
      a5 = vfma(k1, q, a5);
      a6 = vfma(k2, q, a6);
      a7 = vfma(k3, q, a7);
    }
    { const vf q = vload(query + 2 * q_stride + at);
      a8 = vfma(k0, q, a8);
      a9 = vfma(k1, q, a9);
      a10 = vfma(k2, q, a10);
      a11 = vfma(k3, q, a11);
    }
    { const vf q = vload(query + 3 * q_stride + at);
      a12 = vfma(k0, q, a12);
      a13 = vfma(k1, q, a13);
      a14 = vfma(k2, q, a14);
      a15 = vfma(k3, q, a15);
    }
  } c += QUERY_STEP, at += NL;
  }
  if (c < columns) {
  {
    ask<FAR>(k, 0, r0 + c, c);
    ask<FAR>(k, 1, r1 + c, c);
    ask<FAR>(k, 2, r2 + c, c);
    ask<FAR>(k, 3, r3 + c, c);
    const vf k0 = vload_n(r0 + c, columns - c);
    const vf k1 = vload_n(r1 + c, columns - c);
    const vf k2 = vload_n(r2 + c, columns - c);
    const vf k3 = vload_n(r3 + c, columns - c);
    { const vf q = vload(query + 0 * q_stride + at);
      a0 = vfma(k0, q, a0);
      a1 = vfma(k1, q, a1);
      a2 = vfma(k2, q, a2);
      a3 = vfma(k3, q, a3);
    }
    { const vf q = vload(query + 1 * q_stride + at);
      a4 = vfma(k0, q, a4);
      a5 = vfma(k1, q, a5);
      a6 = vfma(k2, q, a6);
      a7 = vfma(k3, q, a7);
    }
    { const vf q = vload(query + 2 * q_stride + at);
      a8 = vfma(k0, q, a8);
      a9 = vfma(k1, q, a9);
      a10 = vfma(k2, q, a10);
      a11 = vfma(k3, q, a11);
    }
    { const vf q = vload(query + 3 * q_stride + at);
      a12 = vfma(k0, q, a12);
      a13 = vfma(k1, q, a13);
      a14 = vfma(k2, q, a14);
      a15 = vfma(k3, q, a15);
    }
  } c += QUERY_STEP, at += NL;
  }
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
