// Backward operands without matrix tiles: dQ reads K in the steps that Q and dO have.
INLINE void copy_key_steps(float* out, const T* in, i64 stride, i64 rows, i64 all, i64 d) {
  copy_steps(out, in, stride, rows, all, d);
}
