NOINLINE void add(const char* w, i64 w_step, i64 w_row, const float* x, i64 x_step, i64 steps, float* a, i64 a_row,
                i64 columns) {
  if (steps <= 0) return;
  i64 left = columns / NL;
  for (i64 c = 0, width; left; c += width * NL, left -= width) {
    width = ceil_div(left, ceil_div(left, 4));
    switch (width) {
      case 4: add_4(w, w_step, w_row, x + c, x_step, steps, a + c, a_row); break;
      case 3: add_3(w, w_step, w_row, x + c, x_step, steps, a + c, a_row); break;
      case 2: add_2(w, w_step, w_row, x + c, x_step, steps, a + c, a_row); break;
      case 1: add_1(w, w_step, w_row, x + c, x_step, steps, a + c, a_row); break;
    }
  }
}
