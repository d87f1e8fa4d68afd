NOINLINE vf dot_wide(const float* query, i64 q_stride, const WideRows& k, i64 last, i64 columns) {
  vf a0 = vset(0), a1 = vset(0), a2 = vset(0), a3 = vset(0), a4 = vset(0), a5 = vset(0), a6 = vset(0), a7 = vset(0), a8 = vset(0), a9 = vset(0), a10 = vset(0), a11 = vset(0), a12 = vset(0), a13 = vset(0), a14 = vset(0), a15 = vset(0);
  const float* r0 = k.first + min64(0, last) * k.stride;
  const float* r1 = k.first + min64(1, last) * k.stride;
  const float* r2 = k.first + min64(2, last) * k.stride;
  const float* r3 = k.first + min64(3, last) * k.stride;
  for (i64 c = 0, at = 0; c < columns; c += CODES, at += 2 * NL) {
    const vf e0 = vload(r0 + at), f0 = vload(r0 + at + NL);
    const vf e1 = vload(r1 + at), f1 = vload(r1 + at + NL);
    const vf e2 = vload(r2 + at), f2 = vload(r2 + at + NL);
    const vf e3 = vload(r3 + at), f3 = vload(r3 + at + NL);
    { const vf q = vload(query + 0 * q_stride + at), s = vload(query + 0 * q_stride + at + NL); a0 = vdot(vdot(a0, e0, q), f0, s); a1 = vdot(vdot(a1, e1, q), f1, s); a2 = vdot(vdot(a2, e2, q), f2, s); a3 = vdot(vdot(a3, e3, q), f3, s); }
    { const vf q = vload(query + 1 * q_stride + at), s = vload(query + 1 * q_stride + at + NL); a4 = vdot(vdot(a4, e0, q), f0, s); a5 = vdot(vdot(a5, e1, q), f1, s); a6 = vdot(vdot(a6, e2, q), f2, s); a7 = vdot(vdot(a7, e3, q), f3, s); }
    { const vf q = vload(query + 2 * q_stride + at), s = vload(query + 2 * q_stride + at + NL); a8 = vdot(vdot(a8, e0, q), f0, s); a9 = vdot(vdot(a9, e1, q), f1, s); a10 = vdot(vdot(a10, e2, q), f2, s); a11 = vdot(vdot(a11, e3, q), f3, s); }
    { const vf q = vload(query + 3 * q_stride + at), s = vload(query + 3 * q_stride + at + NL); a12 = vdot(vdot(a12, e0, q), f0, s); a13 = vdot(vdot(a13, e1, q), f1, s); a14 = vdot(vdot(a14, e2, q), f2, s); a15 = vdot(vdot(a15, e3, q), f3, s); }
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
