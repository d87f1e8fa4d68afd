static void values(const VALUE* v, i64 stride, const float* p, i64 steps, float* o, i64 columns,
                   const float* shrink, bool first) {
  i64 d = 0;
  for (; columns - d >= 12 && (columns - d > 16 || (columns - d) % 8); d += 12) pv_12(v + d, stride, p, steps, o + d * BQ, shrink, first);
  for (; columns - d >= 8; d += 8) pv_8(v + d, stride, p, steps, o + d * BQ, shrink, first);
  for (; columns - d >= 4; d += 4) pv_4(v + d, stride, p, steps, o + d * BQ, shrink, first);
  for (; columns - d >= 1; d += 1) pv_1(v + d, stride, p, steps, o + d * BQ, shrink, first);
}
