INLINE void add_1(const char* w, i64 w_step, i64 w_row, const float* x, i64 x_step, i64 steps, float* a,
                  i64 a_row) {
  vf a0_0 = vload(a + 0 * a_row + 0 * NL);
  vf a1_0 = vload(a + 1 * a_row + 0 * NL);
  vf a2_0 = vload(a + 2 * a_row + 0 * NL);
  vf a3_0 = vload(a + 3 * a_row + 0 * NL);
  if (w_row == 4) {
    for (; steps > 0; --steps, w += w_step, x += x_step) {
      const vf word = vload((const float*)w);
      const vf x0 = vload(x + 0 * NL);
      a0_0 = vdot_word<0>(a0_0, word, x0);
      a1_0 = vdot_word<1>(a1_0, word, x0);
      a2_0 = vdot_word<2>(a2_0, word, x0);
      a3_0 = vdot_word<3>(a3_0, word, x0);
    }
  }
  const char* w3 = w + 3 * w_row;
  for (; steps >= 4; steps -= 4, w += 16, w3 += 16, x += 4 * x_step) {
    const vf u0 = vload((const float*)(w));
    const vf u1 = vload((const float*)(w + w_row));
    const vf u2 = vload((const float*)(w + 2 * w_row));
    const vf u3 = vload((const float*)(w3));
    {
      const vf x0 = vload(x + 0 * NL);
      a0_0 = vdot_word<0>(a0_0, u0, x0);
      a1_0 = vdot_word<0>(a1_0, u1, x0);
      a2_0 = vdot_word<0>(a2_0, u2, x0);
      a3_0 = vdot_word<0>(a3_0, u3, x0);
    }
    {
      const vf x0 = vload(x + 1 * x_step + 0 * NL);
      a0_0 = vdot_word<1>(a0_0, u0, x0);
      a1_0 = vdot_word<1>(a1_0, u1, x0);
      a2_0 = vdot_word<1>(a2_0, u2, x0);
      a3_0 = vdot_word<1>(a3_0, u3, x0);
    }
    {
      const vf x0 = vload(x + 2 * x_step + 0 * NL);
      a0_0 = vdot_word<2>(a0_0, u0, x0);
      a1_0 = vdot_word<2>(a1_0, u1, x0);
      a2_0 = vdot_word<2>(a2_0, u2, x0);
      a3_0 = vdot_word<2>(a3_0, u3, x0);
    }
    {
      const vf x0 = vload(x + 3 * x_step + 0 * NL);
      a0_0 = vdot_word<3>(a0_0, u0, x0);
      a1_0 = vdot_word<3>(a1_0, u1, x0);
      a2_0 = vdot_word<3>(a2_0, u2, x0);
      a3_0 = vdot_word<3>(a3_0, u3, x0);
    }
  }
  for (; steps > 0; --steps, w += w_step, w3 += w_step, x += x_step) {
    const vf e0 = vword(w);
    const vf e1 = vword(w + w_row);
    const vf e2 = vword(w + 2 * w_row);
    const vf e3 = vword(w3);
    const vf x0 = vload(x + 0 * NL);
    a0_0 = vdot(a0_0, e0, x0);
    a1_0 = vdot(a1_0, e1, x0);
    a2_0 = vdot(a2_0, e2, x0);
    a3_0 = vdot(a3_0, e3, x0);
  }
  vstore(a + 0 * a_row + 0 * NL, a0_0);
  vstore(a + 1 * a_row + 0 * NL, a1_0);
  vstore(a + 2 * a_row + 0 * NL, a2_0);
  vstore(a + 3 * a_row + 0 * NL, a3_0);
}
