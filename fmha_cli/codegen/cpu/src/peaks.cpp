// Loops that measure what this machine can do at best: fused multiply-adds, bf16 dot products, reads from memory.
// VECTOR_BYTES, HAS_DOT and HAS_TILES come before this text. Compile with -ffp-contract=fast.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>
#if HAS_DOT && defined(__aarch64__)
#include <arm_neon.h>
typedef bfloat16x8_t Pairs;
#define PAIRS_OF(x) vreinterpretq_bf16_f32(x)
#define DOT(sum, a, b) vbfdotq_f32(sum, a, b)
#elif HAS_DOT
#include <immintrin.h>
#if HAS_TILES
#include <sys/syscall.h>
#include <unistd.h>
#endif
typedef __m512bh Pairs;
#define PAIRS_OF(x) (__m512bh) _mm512_castps_si512(x)
#define DOT(sum, a, b) _mm512_dpbf16_ps(sum, a, b)
#endif

// As many independent chains as there are registers for, and what the compiler calls such a register.
#if VECTOR_BYTES == 64
#define CHAINS 24
#define REGISTER(a) "v"(a)
#elif defined(__x86_64__)
#define CHAINS 12
#define REGISTER(a) "x"(a)
#elif defined(__aarch64__)
#define CHAINS 24
#define REGISTER(a) "w"(a)
#else
#define CHAINS 12
#define REGISTER(a) "m"(a)
#endif

typedef float Vec __attribute__((vector_size(VECTOR_BYTES)));

static double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The largest of several rounds of (work of all threads) / (time of the slowest): noise only ever slows a round.
template <class Work>
static double best_rate(int threads, int rounds, double work_per_thread, const Work& work) {
  double best = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::thread> pool;
    const double start = now();
    for (int t = 0; t < threads; ++t) pool.emplace_back([&, t] { work(t); });
    for (auto& thread : pool) thread.join();
    const double rate = threads * work_per_thread / (now() - start);
    best = rate > best ? rate : best;
  }
  return best;
}

static volatile float sink;

// Independent accumulators with scalar names: an array of them is spilled by GCC 12.
#define EACH_12(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define EACH_24(X) EACH_12(X) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23)
#if CHAINS == 24
#define EACH EACH_24
#else
#define EACH EACH_12
#endif

static void multiply_add(int64_t steps, float factor, float term) {
  const Vec m = factor - Vec{}, c = term - Vec{};
#define DECLARE(n) Vec a##n = m + float(n);
  EACH(DECLARE)
  for (int64_t i = 0; i < steps; ++i) {
#define STEP(n) a##n = a##n * m + c;
    EACH(STEP)
#define KEEP(n) asm volatile("" : "+" REGISTER(a##n));
    EACH(KEEP)
  }
  Vec total = {};
#define ADD(n) total += a##n;
  EACH(ADD)
  sink = total[0];
}

#if HAS_TILES
// Six independent sums hide the latency of a product of tiles. All tiles are zero: no number slows them.
enum { TILE_SUMS = 6, TILE_FLOPS = 2 * 16 * 16 * 32, TILE_SHARE = 8 };  // a step takes eight times as long as one of vectors
static void dot(int64_t steps, float) {
  alignas(64) const unsigned char config[64] = {1,  0, 0, 0, 0,  0, 0,  0, 0,  0, 0,  0, 0,  0, 0,  0,  //
                                                64, 0, 64, 0, 64, 0, 64, 0, 64, 0, 64, 0, 64, 0, 64, 0,  //
                                                0,  0, 0, 0, 0,  0, 0,  0, 0,  0, 0,  0, 0,  0, 0,  0,  //
                                                16, 16, 16, 16, 16, 16, 16, 16};
  _tile_loadconfig(config);  // which clears the tiles
  for (int64_t i = 0; i < steps / TILE_SHARE; ++i) {
    _tile_dpbf16ps(0, 6, 7);
    _tile_dpbf16ps(1, 6, 7);
    _tile_dpbf16ps(2, 6, 7);
    _tile_dpbf16ps(3, 6, 7);
    _tile_dpbf16ps(4, 6, 7);
    _tile_dpbf16ps(5, 6, 7);
  }
  _tile_release();
}
#elif HAS_DOT
static void dot(int64_t steps, float factor) {
  const Vec all = factor - Vec{};
  const Pairs m = PAIRS_OF(all);
#define DECLARE_DOT(n) Vec d##n = float(n) - Vec{};
  EACH(DECLARE_DOT)
  for (int64_t i = 0; i < steps; ++i) {
#define STEP_DOT(n) d##n = DOT(d##n, m, m);
    EACH(STEP_DOT)
#define KEEP_DOT(n) asm volatile("" : "+" REGISTER(d##n));
    EACH(KEEP_DOT)
  }
  Vec total = {};
#define ADD_DOT(n) total += d##n;
  EACH(ADD_DOT)
  sink = total[0];
}
#endif

// A register tile as the kernels have it: 12 accumulators, 2 vectors and 6 broadcast numbers from the first-level cache for every
// 12 multiply-adds. A neighbour that shares the core's cache or front end slows it, which it need not do to the loops above.
static void tile(int64_t steps, float factor) {
  enum { LANES = VECTOR_BYTES / 4, PLACES = 32 };
  alignas(64) float vectors[PLACES * 2 * LANES], numbers[PLACES * 6];
  for (auto& value : vectors) value = factor;
  for (auto& value : numbers) value = factor;
  asm volatile("" : : "r"(vectors), "r"(numbers) : "memory");
#define DECLARE_TILE(n) Vec t##n = {};
  EACH_12(DECLARE_TILE)
  for (int64_t i = 0; i < steps; ++i) {
    const float* v = vectors + (i % PLACES) * 2 * LANES;
    const float* s = numbers + (i % PLACES) * 6;
    const Vec x = *(const Vec*)v, y = *(const Vec*)(v + LANES);
#define STEP_TILE(n, left, right) t##left += s[n] * x, t##right += s[n] * y;
    STEP_TILE(0, 0, 1) STEP_TILE(1, 2, 3) STEP_TILE(2, 4, 5) STEP_TILE(3, 6, 7) STEP_TILE(4, 8, 9) STEP_TILE(5, 10, 11)
#define KEEP_TILE(n) asm volatile("" : "+" REGISTER(t##n));
    EACH_12(KEEP_TILE)
  }
  Vec total = {};
#define ADD_TILE(n) total += t##n;
  EACH_12(ADD_TILE)
  sink = total[0];
}

// Reads a block. Which prefetch hint is the fastest depends on the processor: 3 = into the first-level cache, 2 = into the second,
// 0 = none.
template <int HINT>
static void sweep(const char* block, int64_t bytes, int64_t line) {
  Vec a = {}, b = {}, c = {}, d = {};
  constexpr int width = VECTOR_BYTES, each = 256 / width / 4;
  for (const char* p = block; p < block + bytes; p += line) {
    if (HINT) __builtin_prefetch(p + 4096, 0, HINT);
    for (int n = 0; n < each; ++n) {
      a += *(const Vec*)(p + (4 * n) * width);
      b += *(const Vec*)(p + (4 * n + 1) * width);
      c += *(const Vec*)(p + (4 * n + 2) * width);
      d += *(const Vec*)(p + (4 * n + 3) * width);
    }
    if (HINT) {
      __builtin_prefetch(p + 4096 + 64, 0, HINT);
      __builtin_prefetch(p + 4096 + 128, 0, HINT);
      __builtin_prefetch(p + 4096 + 192, 0, HINT);
    }
  }
  sink = (a + b + c + d)[0];
}

#define EXPORT extern "C" __attribute__((visibility("default")))

// FLOP/s of float32 fused multiply-adds, two operations each.
EXPORT double fmha_peak_fma(int threads, int rounds, int64_t steps, float factor, float term) {
  const double work = 2.0 * CHAINS * (VECTOR_BYTES / 4) * double(steps);
  return best_rate(threads, rounds, work, [=](int) { multiply_add(steps, factor, term); });
}

// FLOP/s of bf16 dot products with float32 accumulation; 0 where the instruction is absent, or the system
// does not permit tiles.
EXPORT double fmha_peak_dot(int threads, int rounds, int64_t steps, float factor) {
#if HAS_TILES
  if (syscall(SYS_arch_prctl, 0x1023, 18) != 0) return 0;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  const double work = double(TILE_SUMS) * TILE_FLOPS * double(steps / TILE_SHARE);
  return best_rate(threads, rounds, work, [=](int) { dot(steps, factor); });
#elif HAS_DOT
  const double work = 2.0 * CHAINS * (VECTOR_BYTES / 2) * double(steps);
  return best_rate(threads, rounds, work, [=](int) { dot(steps, factor); });
#else
  (void)threads, (void)rounds, (void)steps, (void)factor;
  return 0;
#endif
}

// FLOP/s of the register tile.
EXPORT double fmha_peak_tile(int threads, int rounds, int64_t steps, float factor) {
  const double work = 2.0 * 12 * (VECTOR_BYTES / 4) * double(steps);
  return best_rate(threads, rounds, work, [=](int) { tile(steps, factor); });
}

// Bytes/s read by all threads, each from its own block of `bytes`, with the fastest prefetch hint; -1 without the memory.
EXPORT double fmha_peak_read(int threads, int rounds, int64_t bytes) {
  const int64_t line = 256, lines = bytes / line;
  std::vector<char*> blocks(threads, nullptr);
  bool whole = true;
  for (auto& block : blocks) whole = (block = (char*)aligned_alloc(4096, lines * line)) && whole;
  double best = -1;
  if (whole) {
    for (int t = 0; t < threads; ++t)
      for (int64_t i = 0; i < lines * line; i += 8) *(int64_t*)(blocks[t] + i) = i * (t + 1);  // pages of its own
    const double work = double(lines * line);
    for (int round = 0; round < rounds; ++round)  // in turns, so that a disturbance meets every hint
      for (double rate : {best_rate(threads, 1, work, [&](int t) { sweep<3>(blocks[t], lines * line, line); }),
                          best_rate(threads, 1, work, [&](int t) { sweep<2>(blocks[t], lines * line, line); }),
                          best_rate(threads, 1, work, [&](int t) { sweep<0>(blocks[t], lines * line, line); })})
        best = rate > best ? rate : best;
  }
  for (auto block : blocks) free(block);
  return best;
}
