// Matrix tiles: eight registers of up to 16 rows of 64 bytes, here always whole. TILES_SOFTWARE chooses the body: the
// instructions of AMX, or functions that do what Intel's manual (SDM volume 2, "TDPBF16PS", "LDTILECFG") says of them.
enum { TILE_ROWS = 16, TILE_BYTES = 64, TILE_KEYS = 32 };  // 32 elements of bf16, or 16 floats, in a row

struct TileConfig {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};
static const TileConfig WHOLE_TILES = {
    1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

#if TILES_SOFTWARE
struct TileState {
  TileConfig config;
  uint32_t words[8][TILE_ROWS][TILE_BYTES / 4];
};
static thread_local TileState tile_state;

// Where a processor would raise an exception: 1 a bad configuration, 2 no configuration, 4 shapes that do not match.
extern "C" EXPORT int fmha_tile_faults;
int fmha_tile_faults = 0;
static void tile_fault(int bit) { __atomic_fetch_or(&fmha_tile_faults, bit, __ATOMIC_RELAXED); }

static void load_tile_config(const TileConfig& c) {
  bool bad = c.palette > 1 || c.start_row >= TILE_ROWS;
  for (uint8_t byte : c.reserved) bad |= byte != 0;
  for (int t = 0; t < 16; ++t) {
    bad |= c.row_bytes[t] > TILE_BYTES || c.rows[t] > TILE_ROWS || !c.row_bytes[t] != !c.rows[t];
    bad |= t >= 8 && (c.row_bytes[t] || c.rows[t]);
  }
  if (bad) return tile_fault(1);
  memset(&tile_state, 0, sizeof tile_state);
  tile_state.config = c;
}
INLINE bool tile_ready(int t) {
  const bool ready = tile_state.config.palette == 1 && tile_state.config.rows[t];
  if (!ready) tile_fault(2);
  return ready;
}
static void tile_zero(int t) {
  if (tile_ready(t)) memset(tile_state.words[t], 0, sizeof tile_state.words[t]);
}
static void tile_load(int t, const void* from, i64 stride) {
  if (!tile_ready(t)) return;
  memset(tile_state.words[t], 0, sizeof tile_state.words[t]);
  for (int r = 0; r < tile_state.config.rows[t]; ++r)
    memcpy(tile_state.words[t][r], (const char*)from + r * stride, tile_state.config.row_bytes[t]);
}
static void tile_store(int t, void* to, i64 stride) {
  if (!tile_ready(t)) return;
  for (int r = 0; r < tile_state.config.rows[t]; ++r)
    memcpy((char*)to + r * stride, tile_state.words[t][r], tile_state.config.row_bytes[t]);
}
// Subnormal numbers count as zeros, and subnormal results become zeros.
INLINE float flushed(float x) { return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0, x) : x; }
INLINE float tile_low(uint32_t pair) { return flushed(as_float(pair << 16)); }
INLINE float tile_high(uint32_t pair) { return flushed(as_float(pair & 0xffff0000u)); }
// Even and odd elements have sums of their own, which are added at the end, to each other first.
static void tile_dot(int c, int a, int b) {
  const TileConfig& of = tile_state.config;
  if (!tile_ready(a) || !tile_ready(b) || !tile_ready(c)) return;
  const int rows = of.rows[c], columns = of.row_bytes[c] / 4, pairs = of.row_bytes[a] / 4;
  if (a == b || a == c || b == c || (of.row_bytes[a] | of.row_bytes[b] | of.row_bytes[c]) % 4 || of.rows[a] != rows ||
      of.row_bytes[b] / 4 != columns || of.rows[b] != pairs)
    return tile_fault(4);
  for (int m = 0; m < rows; ++m) {
    float even[TILE_ROWS] = {}, odd[TILE_ROWS] = {};
    for (int k = 0; k < pairs; ++k) {
      const uint32_t left = tile_state.words[a][m][k];
      const float low = tile_low(left), high = tile_high(left);
      for (int n = 0; n < columns; ++n) {
        const uint32_t right = tile_state.words[b][k][n];
        even[n] = flushed(__builtin_fmaf(low, tile_low(right), even[n]));
        odd[n] = flushed(__builtin_fmaf(high, tile_high(right), odd[n]));
      }
    }
    for (int n = 0; n < columns; ++n) {
      const float sum = flushed(even[n] + odd[n]);
      tile_state.words[c][m][n] = as_bits(flushed(flushed(as_float(tile_state.words[c][m][n])) + sum));
    }
  }
}
INLINE void tile_fence() {}
INLINE bool tiles_permitted() { return true; }
INLINE void configure_tiles() { load_tile_config(WHOLE_TILES); }
INLINE void release_tiles() { memset(&tile_state, 0, sizeof tile_state); }
#else
#include <sys/syscall.h>
#include <unistd.h>

// Registers are named by literals, so no compiler moves or spills them.
#define tile_zero(t) _tile_zero(t)
#define tile_load(t, from, stride) _tile_loadd(t, from, stride)
#define tile_store(t, to, stride) _tile_stored(t, to, stride)
#define tile_dot(c, a, b) _tile_dpbf16ps(c, a, b)
// GCC 12 does not say that a tile is loaded from memory: what was stored before must be there.
INLINE void tile_fence() { __asm__ volatile("" ::: "memory"); }
// Linux gives a process the state of tiles on request (arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA); all its
// threads have it then. Without it the first tile instruction is a signal.
INLINE bool tiles_permitted() { return syscall(SYS_arch_prctl, 0x1023, 18) == 0; }
INLINE void configure_tiles() { _tile_loadconfig(&WHOLE_TILES); }
INLINE void release_tiles() { _tile_release(); }
#endif
