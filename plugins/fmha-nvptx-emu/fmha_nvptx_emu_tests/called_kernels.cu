// Functions that a compiler may not inline: values, structures, arrays on the stack, divergent calls, calls of calls, recursion.
struct Pair {
  int a;
  float b;
  long long c;
};

extern "C" {

__attribute__((device, noinline)) int twice_plus(int x, int y) { return 2 * x + y; }

__attribute__((device, noinline)) int nested(int x, int y) {
  if (x & 1) return twice_plus(x, y) - 7;
  return twice_plus(y, x) * twice_plus(x, x);
}

__attribute__((device, noinline)) Pair mixed(Pair p, int by) {
  Pair out;
  out.a = p.a - by, out.b = p.b * 0.5f, out.c = p.c + p.a;
  return out;
}

__attribute__((device, noinline)) void into(int* to, int n) {
  for (int k = 0; k < n; ++k) to[k] = n * k;
}

__attribute__((device, noinline)) int triangle(int n) { return n <= 0 ? 0 : n + triangle(n - 1) * (n & 1 ? 1 : 3); }

__attribute__((global)) void values(const int* x, const int* y, int* out) {
  const int i = int(__nvvm_read_ptx_sreg_tid_x());
  int sum = nested(x[i], y[i]);
  if (i % 3 == 0) sum += twice_plus(sum, y[i]);
  out[i] = sum;
}

__attribute__((global)) void structures(const int* x, const float* y, const long long* z, int* a, float* b, long long* c) {
  const int i = int(__nvvm_read_ptx_sreg_tid_x());
  const Pair got = mixed(Pair{x[i], y[i], z[i]}, i);
  a[i] = got.a, b[i] = got.b, c[i] = got.c;
}

__attribute__((global)) void arrays(const int* x, int* out) {
  const int i = int(__nvvm_read_ptx_sreg_tid_x());
  int room[8];
  into(room, 8);
  out[i] = room[x[i] & 7];
}

__attribute__((global)) void recursion(const int* x, int* out) {
  const int i = int(__nvvm_read_ptx_sreg_tid_x());
  out[i] = triangle(x[i]);
}

}
