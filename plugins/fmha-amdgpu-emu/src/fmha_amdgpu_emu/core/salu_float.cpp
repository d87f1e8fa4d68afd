// Scalar floating-point operations of gfx11.5 and gfx12. They give what the vector operations give for one value,
// without modifiers (RDNA4 6.8 "Scalar floating point", 16.1 SOP2, 16.3 SOP1, 16.4 SOPC). A binary16 value is in the
// low half; the high half of a binary16 result is zero.
#include "arith.hpp"
#include "select.hpp"
#include "tables.hpp"

namespace emu {

namespace {

// One value in all lanes, so that the row definitions apply.
void fetch_scalar(const Wave& w, const Operand& op, bool half, Fetched& f) {
  uint32_t x = scalar32(w, op);
  if (half) x = w.mode.flush_in16_64() ? flushed16(x & 0xffff) : x & 0xffff;
  else if (w.mode.flush_in32()) x = flushed32(x);
  fill(f.room.x, x);
  f.x = f.room.x;
}

uint32_t outgoing(const Wave& w, uint32_t x, bool half) {
  if (half) return w.mode.flush_out16_64() ? flushed16(x) : x;
  return w.mode.flush_out32() ? flushed32(x) : x;
}

template <class Op, int N, bool Half16, bool Accumulates = false> void arithmetic(Wave& w, const Inst& i) {
  Fetched in[N];
  for (int k = 0; k < N - Accumulates; ++k) fetch_scalar(w, i.src(k), Half16, in[k]);
  if (Accumulates) fetch_scalar(w, i.op[0], Half16, in[N - 1]);
  Row out;
  if constexpr (Half16) compute16<Op>(out.x, in, w.mode.round16_64(), fp16_overflow(w));
  else compute32<Op>(out.x, in, w.mode.round32(), w.lanes);
  set_scalar32(w, i.op[0], outgoing(w, out.x[0], Half16));
}

template <class T, bool Largest, Nans N> void choose_one(Wave& w, const Inst& i) {
  constexpr bool half = std::is_same_v<T, Half>;
  Fetched in[2];
  for (int k = 0; k < 2; ++k) fetch_scalar(w, i.src(k), half, in[k]);
  const Careful<T> how{rule_of(w, N)};
  set_scalar32(w, i.op[0], how.template two<Largest>(in[0].x[0], in[1].x[0]));
}

// ---- rounding to an integer ----

struct Ceil {
  static float at(float x) { return std::ceil(x); }
};
struct Floor {
  static float at(float x) { return std::floor(x); }
};
struct Trunc {
  static float at(float x) { return std::trunc(x); }
};
struct RoundEven {
  static float at(float x) { return __builtin_roundevenf(x); }
};

template <class Op, bool Half16> void to_integer(Wave& w, const Inst& i) {
  Fetched in;
  fetch_scalar(w, i.src(0), Half16, in);
  const uint32_t x = in.x[0];
  uint32_t out;
  if (Half16) out = is_nan16(x) ? quiet16(x) : float_to_half(Op::at(half_to_float(x)));
  else out = is_nan32(x) ? quiet32(x) : bits_of(Op::at(as_float(x)));
  set_scalar32(w, i.op[0], outgoing(w, out, Half16));
}

// ---- conversions ----

uint32_t half_of(const Wave& w, uint32_t x, int round) {
  if (is_nan32(x)) return float_to_half(as_float(x));
  const uint32_t code = uint32_t(encode(kHalf, as_float(x), round));
  const bool saturates = fp16_overflow(w) && (code & 0x7fff) == kInfinity16 && (x & 0x7fffffff) != kInfinity32;
  return outgoing(w, saturates ? code - 1 : code, true);
}

void f16_from_f32(Wave& w, const Inst& i) {
  Fetched in;
  fetch_scalar(w, i.src(0), false, in);
  set_scalar32(w, i.op[0], half_of(w, in.x[0], w.mode.round16_64()));
}

void two_f16_from_f32(Wave& w, const Inst& i) {
  Fetched in[2];
  for (int k = 0; k < 2; ++k) fetch_scalar(w, i.src(k), false, in[k]);
  set_scalar32(w, i.op[0], half_of(w, in[0].x[0], kZero) | half_of(w, in[1].x[0], kZero) << 16);
}

template <bool High> void f32_from_f16(Wave& w, const Inst& i) {
  uint32_t x = scalar32(w, i.src(0)) >> (High ? 16 : 0) & 0xffff;
  if (w.mode.flush_in16_64()) x = flushed16(x);
  set_scalar32(w, i.op[0], bits_of(half_to_float(x)));
}

template <bool Signed> void f32_from_32(Wave& w, const Inst& i) {
  const uint32_t x = scalar32(w, i.src(0));
  set_scalar32(w, i.op[0], bits_of(round_to_single(Signed ? double(int32_t(x)) : double(x), w.mode.round32())));
}

template <bool Signed> void b32_from_f32(Wave& w, const Inst& i) {
  Fetched in;
  fetch_scalar(w, i.src(0), false, in);
  const double x = as_float(in.x[0]), least = Signed ? -2147483648.0 : 0, most = Signed ? 2147483647.0 : 4294967295.0;
  const double inside = x != x ? 0 : x < least ? least : x > most ? most : x;
  set_scalar32(w, i.op[0], uint32_t(int64_t(inside)));
}

// ---- comparisons: SCC ----

enum : int { kLess = 1, kEqual = 2, kGreater = 4, kUnordered = 8 };

template <int Relations, bool Half16> void compare(Wave& w, const Inst& i) {
  Fetched in[2];
  for (int k = 0; k < 2; ++k) fetch_scalar(w, i.src(k), Half16, in[k]);
  const float a = Half16 ? half_to_float(in[0].x[0]) : as_float(in[0].x[0]);
  const float b = Half16 ? half_to_float(in[1].x[0]) : as_float(in[1].x[0]);
  const int relation = a < b ? kLess : a > b ? kGreater : a == b ? kEqual : kUnordered;
  w.scc = relation & Relations;
}

constexpr Type F = Type::F32, H = Type::F16, I = Type::B32;
using Types = std::array<Type, 6>;
constexpr const char* kSop1 = "RDNA4 16.3 SOP1";
constexpr const char* kSop2 = "RDNA4 16.1 SOP2";
constexpr const char* kSopc = "RDNA4 16.4 SOPC";

#define ROW(name, run, flags, to, from, source) \
  {name, run, 1, Class::Salu, Flow::Lane, flags, Types{to, from, from, from}, nullptr, source}
#define BOTH(name, op, n) \
  ROW("s_" name "_f32", (arithmetic<op, n, false>), 0, F, F, kSop2), ROW("s_" name "_f16", (arithmetic<op, n, true>), 0, H, H, kSop2)
#define PICK(name, largest, nans)                                                    \
  ROW("s_" name "_f32", (choose_one<Single, largest, nans>), 0, F, F, kSop2),      \
      ROW("s_" name "_f16", (choose_one<Half, largest, nans>), 0, H, H, kSop2)
#define WHOLE(name, op) \
  ROW("s_" name "_f32", (to_integer<op, false>), 0, F, F, kSop1), ROW("s_" name "_f16", (to_integer<op, true>), 0, H, H, kSop1)
#define COMPARE(name, relations)                                                                                       \
  {"s_cmp_" name "_f32", compare<(relations), false>, 0, Class::Salu, Flow::Lane, 0, Types{F, F}, nullptr, kSopc},     \
      {"s_cmp_" name "_f16", compare<(relations), true>, 0, Class::Salu, Flow::Lane, 0, Types{H, H}, nullptr, kSopc}

constexpr Entry kEntries[] = {
    BOTH("add", Add, 2),
    BOTH("sub", Sub, 2),
    BOTH("mul", Mul, 2),
    ROW("s_fmac_f32", (arithmetic<Fma, 3, false, true>), kReadsDst, F, F, kSop2),
    ROW("s_fmac_f16", (arithmetic<Fma, 3, true, true>), kReadsDst, H, H, kSop2),
    ROW("s_fmamk_f32", (arithmetic<Fma, 3, false>), 0, F, F, kSop2),
    ROW("s_fmaak_f32", (arithmetic<Fma, 3, false>), 0, F, F, kSop2),
    PICK("min", false, Nans::ByArch),
    PICK("max", true, Nans::ByArch),
    PICK("min_num", false, Nans::Number),
    PICK("max_num", true, Nans::Number),
    PICK("minimum", false, Nans::Propagate),
    PICK("maximum", true, Nans::Propagate),
    WHOLE("ceil", Ceil),
    WHOLE("floor", Floor),
    WHOLE("trunc", Trunc),
    WHOLE("rndne", RoundEven),
    ROW("s_cvt_f16_f32", f16_from_f32, 0, H, F, kSop1),
    ROW("s_cvt_pk_rtz_f16_f32", two_f16_from_f32, 0, I, F, kSop2),
    ROW("s_cvt_f32_f16", f32_from_f16<false>, 0, F, H, kSop1),
    ROW("s_cvt_hi_f32_f16", f32_from_f16<true>, 0, F, H, kSop1),
    ROW("s_cvt_f32_i32", f32_from_32<true>, 0, F, I, kSop1),
    ROW("s_cvt_f32_u32", f32_from_32<false>, 0, F, I, kSop1),
    ROW("s_cvt_i32_f32", b32_from_f32<true>, 0, I, F, kSop1),
    ROW("s_cvt_u32_f32", b32_from_f32<false>, 0, I, F, kSop1),
    COMPARE("lt", kLess),
    COMPARE("eq", kEqual),
    COMPARE("le", kLess | kEqual),
    COMPARE("gt", kGreater),
    COMPARE("lg", kLess | kGreater),
    COMPARE("ge", kGreater | kEqual),
    COMPARE("o", kLess | kEqual | kGreater),
    COMPARE("u", kUnordered),
    COMPARE("nge", kLess | kUnordered),
    COMPARE("nlg", kEqual | kUnordered),
    COMPARE("ngt", kLess | kEqual | kUnordered),
    COMPARE("nle", kGreater | kUnordered),
    COMPARE("neq", kLess | kGreater | kUnordered),
    COMPARE("nlt", kEqual | kGreater | kUnordered),
};

}  // namespace

const Table kSaluFloatTable{kEntries, sizeof kEntries / sizeof *kEntries};

}  // namespace emu
