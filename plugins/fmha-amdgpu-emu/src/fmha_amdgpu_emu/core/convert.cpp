// Conversions between binary16, bfloat16, binary32, binary64 and integers. A conversion to an integer truncates towards
// zero unless the instruction says otherwise. It saturates, and turns NaN into zero.
#include "floats.hpp"
#include "tables.hpp"

namespace emu {

namespace {

// ---- between floating-point formats ----

void finish_half_row(const Wave& w, const Inst& i, uint32_t* out, const uint32_t* from) {
  if (fp16_overflow(w)) {
    for (int l = 0; l < kLanes; ++l)
      if ((out[l] & 0x7fff) == kInfinity16 && (from[l] & 0x7fffffff) != kInfinity32) out[l] -= 1;
  }
  finish16(w, i, out, w.mode.flush_out16_64(), !w.mode.flush_out16_64());
}

// A row of binary32 rounded to binary16.
void to_halves(Wave& w, const Inst& i, uint32_t* out, const Fetched& in, int round) {
  alignas(64) float x[kLanes];
  std::memcpy(x, in.x, sizeof x);
  floats_to_halves(out, x, round);
  finish_half_row(w, i, out, in.x);
}

void f16_from_f32(Wave& w, const Inst& i) {
  Fetched in;
  fetch32(w, i, 0, in, w.mode.flush_in32());
  Row out;
  to_halves(w, i, out.x, in, w.mode.round16_64());
  commit(w, i, out);
}

// Converts two numbers, to nearest even or towards zero, and ignores MODE.
template <int Round> void two_f16_from_f32(Wave& w, const Inst& i) {
  Row part[2], out;
  for (int k = 0; k < 2; ++k) {
    Fetched in;
    fetch32(w, i, k, in, w.mode.flush_in32());
    to_halves(w, i, part[k].x, in, Round);
  }
  EMU_LANES out.x[l] = part[0].x[l] | part[1].x[l] << 16;
  commit(w, i, out);
}

void two_bf16_from_f32(Wave& w, const Inst& i) {
  Fetched low, high;
  fetch32(w, i, 0, low, w.mode.flush_in32());
  fetch32(w, i, 1, high, w.mode.flush_in32());
  Row out;
  EMU_LANES out.x[l] = float_to_brain(as_float(low.x[l])) | float_to_brain(as_float(high.x[l])) << 16;
  commit(w, i, out);
}

void f32_from_f16(Wave& w, const Inst& i) {
  Fetched in;
  fetch16(w, i, 0, in, w.mode.flush_in16_64());
  alignas(64) float x[kLanes];
  halves_to_floats(x, in.x);
  Row out;
  std::memcpy(out.x, x, sizeof x);
  finish32(w, i, out.x, w.mode.flush_out32(), !w.mode.flush_out32());
  commit(w, i, out);
}

void f32_from_bf16(Wave& w, const Inst& i) {
  Fetched in[1];
  in[0].x = source(w, i, 0, in[0].room);
  const Operand& op = i.src(0);
  EMU_LANES in[0].room.x[l] = in[0].x[l] << 16;
  in[0].x = in[0].room.x;
  edit32(in[0], op.neg, op.abs, w.mode.flush_in32(), w.lanes);
  Row out;
  std::memcpy(out.x, in[0].x, sizeof out.x);
  settle_nans32(out.x, in, w.lanes);
  finish32(w, i, out.x, w.mode.flush_out32(), !w.mode.flush_out32());
  commit(w, i, out);
}

void f32_from_f64(Wave& w, const Inst& i) {
  Doubles in;
  fetch64(w, i, 0, in, w.mode.flush_in16_64());
  Row out;
  for (int l = 0; l < kLanes; ++l) {
    const uint64_t x = in.x[l];
    const uint32_t nan = uint32_t(x >> 32 & 0x80000000) | 0x7fc00000 | uint32_t(x >> 29 & 0x7fffff);
    out.x[l] = is_nan64(x) ? nan : bits_of(round_to_single(as_double(x), w.mode.round32()));
  }
  finish32(w, i, out.x, w.mode.flush_out32(), !w.mode.flush_out32());
  commit(w, i, out);
}

void f64_from_f32(Wave& w, const Inst& i) {
  Fetched in;
  fetch32(w, i, 0, in, w.mode.flush_in32());
  Doubles out;
  for (int l = 0; l < kLanes; ++l) out.x[l] = bits_of(double(as_float(in.x[l])));
  finish64(w, i, out.x, w.mode.flush_out16_64(), !w.mode.flush_out16_64());
  commit64(w, i, out.x);
}

// ---- from integers ----

// Every integer here is exact in binary64.
template <class F> void f32_from(Wave& w, const Inst& i, F number) {
  Row room, out;
  const uint32_t* a = source(w, i, 0, room);
  const int round = w.mode.round32();
  if (round == kNearest) {
    EMU_LANES out.x[l] = bits_of(float(number(a[l])));
  } else {
    for (int l = 0; l < kLanes; ++l) out.x[l] = bits_of(round_to_single(double(number(a[l])), round));
  }
  finish32(w, i, out.x, false, !w.mode.flush_out32());
  commit(w, i, out);
}

void f32_from_i32(Wave& w, const Inst& i) { f32_from(w, i, [](uint32_t x) { return int32_t(x); }); }
void f32_from_u32(Wave& w, const Inst& i) { f32_from(w, i, [](uint32_t x) { return x; }); }
template <int Byte> void f32_from_byte(Wave& w, const Inst& i) {
  f32_from(w, i, [](uint32_t x) { return int32_t(x >> (8 * Byte) & 0xff); });
}
// A sixteenth of a signed 4-bit number.
void f32_from_i4(Wave& w, const Inst& i) {
  f32_from(w, i, [](uint32_t x) { return double(int32_t(x << 28) >> 28) / 16; });
}

template <bool Signed> void f64_from_32(Wave& w, const Inst& i) {
  Row room;
  const uint32_t* a = source(w, i, 0, room);
  Doubles out;
  for (int l = 0; l < kLanes; ++l) out.x[l] = bits_of(Signed ? double(int32_t(a[l])) : double(a[l]));
  finish64(w, i, out.x, false, !w.mode.flush_out16_64());
  commit64(w, i, out.x);
}

template <bool Signed> void f16_from_16(Wave& w, const Inst& i) {
  Row room, out;
  const uint32_t* a = source(w, i, 0, room);
  alignas(64) float x[kLanes];
  EMU_LANES x[l] = Signed ? float(int16_t(a[l])) : float(int32_t(a[l] & 0xffff));
  floats_to_halves(out.x, x, w.mode.round16_64());
  finish_half_row(w, i, out.x, std::bit_cast<Row>(x).x);
  commit(w, i, out);
}

template <bool Signed> void b32_from_16(Wave& w, const Inst& i) {
  map1(w, i, [](uint32_t x) { return Signed ? uint32_t(int32_t(int16_t(x))) : x & 0xffff; });
}

// ---- to integers ----

// Truncates to a 32-bit integer. It compares bits, so that lanes stay together (floats.hpp, choose).
[[gnu::always_inline]] inline uint32_t cut_signed(uint32_t x) {
  const bool beyond = (x & 0x7fffffff) >= 0x4f000000;
  const uint32_t whole = uint32_t(int32_t(as_float(choose(beyond, 0, x)))), edge = 0x7fffffff + (x >> 31);
  return choose(is_nan32(x), 0, choose(beyond, edge, whole));
}

[[gnu::always_inline]] inline uint32_t cut_unsigned(uint32_t x) {
  const bool beyond = x >= 0x4f800000, negative = int32_t(x) < 0;
  const uint32_t whole = uint32_t(int64_t(as_float(choose(beyond, 0, x))));
  return choose(is_nan32(x) | negative, 0, choose(beyond, 0xffffffff, whole));
}

inline double saturated(double x, double least, double most) {
  return x != x ? 0 : x < least ? least : x > most ? most : x;
}

void i32_from_f32(Wave& w, const Inst& i) {
  Fetched in;
  fetch32(w, i, 0, in, w.mode.flush_in32());
  Row out;
  const uint32_t* a = in.x;
  EMU_LANES out.x[l] = cut_signed(a[l]);
  commit(w, i, out);
}

void u32_from_f32(Wave& w, const Inst& i) {
  Fetched in;
  fetch32(w, i, 0, in, w.mode.flush_in32());
  Row out;
  const uint32_t* a = in.x;
  EMU_LANES out.x[l] = cut_unsigned(a[l]);
  commit(w, i, out);
}

// floor(x + 1/2) or floor(x), exactly.
template <bool Nearest> void i32_floor(Wave& w, const Inst& i) {
  Fetched in;
  fetch32(w, i, 0, in, w.mode.flush_in32());
  Row out;
  for (int l = 0; l < kLanes; ++l) {
    const double x = double(as_float(in.x[l])), below = std::floor(Nearest ? x + 0.5 : x);
    out.x[l] = uint32_t(int32_t(saturated(below, -2147483648.0, 2147483647.0)));
  }
  commit(w, i, out);
}

template <bool Signed> void b32_from_f64(Wave& w, const Inst& i) {
  Doubles in;
  fetch64(w, i, 0, in, w.mode.flush_in16_64());
  Row out;
  for (int l = 0; l < kLanes; ++l) {
    const double x = as_double(in.x[l]);
    if (Signed) out.x[l] = uint32_t(int32_t(saturated(x, -2147483648.0, 2147483647.0)));
    else out.x[l] = uint32_t(saturated(x, 0, 4294967295.0));
  }
  commit(w, i, out);
}

template <bool Signed> void b16_from_f16(Wave& w, const Inst& i) {
  Fetched in;
  fetch16(w, i, 0, in, w.mode.flush_in16_64());
  Row out;
  for (int l = 0; l < kLanes; ++l) {
    const double x = half_to_float(in.x[l]);
    out.x[l] = uint32_t(int32_t(saturated(x, Signed ? -32768 : 0, Signed ? 32767 : 65535))) & 0xffff;
  }
  commit(w, i, out);
}

// Maps [-1, 1] to 32767ths or [0, 1] to 65535ths, to nearest even.
template <bool Signed> uint32_t normalised(double x) {
  const double inside = saturated(x, Signed ? -1.0 : 0.0, 1.0);
  return uint32_t(int32_t(std::nearbyint(inside * (Signed ? 32767.0 : 65535.0)))) & 0xffff;
}

template <bool Signed> void norm16_from_f16(Wave& w, const Inst& i) {
  Fetched in;
  fetch16(w, i, 0, in, w.mode.flush_in16_64());
  Row out;
  for (int l = 0; l < kLanes; ++l) out.x[l] = normalised<Signed>(half_to_float(in.x[l]));
  commit(w, i, out);
}

template <bool Signed, bool Halves> void two_norm16(Wave& w, const Inst& i) {
  Fetched in[2];
  for (int k = 0; k < 2; ++k) {
    if (Halves) fetch16(w, i, k, in[k], w.mode.flush_in16_64());
    else fetch32(w, i, k, in[k], w.mode.flush_in32());
  }
  Row out;
  for (int l = 0; l < kLanes; ++l) {
    uint32_t part[2];
    for (int k = 0; k < 2; ++k)
      part[k] = normalised<Signed>(Halves ? half_to_float(in[k].x[l]) : as_float(in[k].x[l]));
    out.x[l] = part[0] | part[1] << 16;
  }
  commit(w, i, out);
}

template <bool Signed> void two_b16_from_f32(Wave& w, const Inst& i) {
  Fetched in[2];
  for (int k = 0; k < 2; ++k) fetch32(w, i, k, in[k], w.mode.flush_in32());
  Row out;
  for (int l = 0; l < kLanes; ++l) {
    uint32_t part[2];
    for (int k = 0; k < 2; ++k)
      part[k] = uint32_t(int32_t(saturated(as_float(in[k].x[l]), Signed ? -32768 : 0, Signed ? 32767 : 65535))) & 0xffff;
    out.x[l] = part[0] | part[1] << 16;
  }
  commit(w, i, out);
}

void two_u16_from_u32(Wave& w, const Inst& i) {
  map2(w, i, [](uint32_t a, uint32_t b) { return (a > 65535 ? 65535 : a) | (b > 65535 ? 65535 : b) << 16; });
}

void two_i16_from_i32(Wave& w, const Inst& i) {
  const auto inside = [](uint32_t x) {
    const int32_t v = int32_t(x);
    return uint32_t(v < -32768 ? -32768 : v > 32767 ? 32767 : v) & 0xffff;
  };
  map2(w, i, [inside](uint32_t a, uint32_t b) { return inside(a) | inside(b) << 16; });
}

// Replaces a byte of the third source; rounds as MODE says.
uint32_t byte_of(float x, int round) {
  const double size = double(x);
  const double whole = round == kUp ? std::ceil(size) : round == kDown ? std::floor(size)
                     : round == kZero ? std::trunc(size) : std::nearbyint(size);
  return uint32_t(saturated(whole, 0, 255));
}

void replace_byte(Wave& w, const Inst& i, const uint32_t* into) {
  Fetched in;
  fetch32(w, i, 0, in, w.mode.flush_in32());
  Row room, out;
  const uint32_t* which = source(w, i, 1, room);
  for (int l = 0; l < kLanes; ++l) {
    const int at = 8 * (which[l] & 3);
    out.x[l] = (into[l] & ~(0xffu << at)) | byte_of(as_float(in.x[l]), w.mode.round32()) << at;
  }
  commit(w, i, out);
}

void u8_from_f32(Wave& w, const Inst& i) {
  Row room;
  replace_byte(w, i, source(w, i, 2, room));
}

void accumulate_u8(Wave& w, const Inst& i) { replace_byte(w, i, w.v[i.op[0].reg].x); }

constexpr Type F = Type::F32, H = Type::F16, D = Type::F64, I = Type::B32, S = Type::B16, B = Type::BF16;
using Types = std::array<Type, 6>;

#define ROW(name, run, flags, to, from, source) \
  {name, run, 1, Class::Valu, Flow::Lane, flags, Types{to, from, from}, nullptr, source}

constexpr Entry kEntries[] = {
    ROW("v_cvt_f16_f32", f16_from_f32, 0, H, F, "CDNA4 12.8 VOP1 10"),
    ROW("v_cvt_f32_f16", f32_from_f16, 0, F, H, "CDNA4 12.8 VOP1 11"),
    ROW("v_cvt_f32_bf16", f32_from_bf16, 0, F, B, "CDNA4 12.8 VOP1 91"),
    ROW("v_cvt_f32_f64", f32_from_f64, 0, F, D, "CDNA4 12.8 VOP1 15"),
    ROW("v_cvt_f64_f32", f64_from_f32, 0, D, F, "CDNA4 12.8 VOP1 16"),
    ROW("v_cvt_pkrtz_f16_f32", two_f16_from_f32<kZero>, 0, I, F, "CDNA4 12.11 VOP3 662"),
    ROW("v_cvt_pk_rtz_f16_f32", two_f16_from_f32<kZero>, 0, I, F, "RDNA4 16.7 VOP2 47"),
    ROW("v_cvt_pk_f16_f32", two_f16_from_f32<kNearest>, 0, I, F, "CDNA4 12.11 VOP3 615"),
    ROW("v_cvt_pk_bf16_f32", two_bf16_from_f32, 0, I, F, "CDNA4 12.11 VOP3 616"),
    ROW("v_cvt_f32_i32", f32_from_i32, 0, F, I, "CDNA4 12.8 VOP1 5"),
    ROW("v_cvt_f32_u32", f32_from_u32, 0, F, I, "CDNA4 12.8 VOP1 6"),
    ROW("v_cvt_f32_ubyte0", f32_from_byte<0>, 0, F, I, "CDNA4 12.8 VOP1 17"),
    ROW("v_cvt_f32_ubyte1", f32_from_byte<1>, 0, F, I, "CDNA4 12.8 VOP1 18"),
    ROW("v_cvt_f32_ubyte2", f32_from_byte<2>, 0, F, I, "CDNA4 12.8 VOP1 19"),
    ROW("v_cvt_f32_ubyte3", f32_from_byte<3>, 0, F, I, "CDNA4 12.8 VOP1 20"),
    ROW("v_cvt_off_f32_i4", f32_from_i4, 0, F, I, "CDNA4 12.8 VOP1 14"),
    ROW("v_cvt_f64_i32", f64_from_32<true>, 0, D, I, "CDNA4 12.8 VOP1 4"),
    ROW("v_cvt_f64_u32", f64_from_32<false>, 0, D, I, "CDNA4 12.8 VOP1 22"),
    ROW("v_cvt_f16_i16", f16_from_16<true>, 0, H, S, "CDNA4 12.8 VOP1 58"),
    ROW("v_cvt_f16_u16", f16_from_16<false>, 0, H, S, "CDNA4 12.8 VOP1 57"),
    ROW("v_cvt_i32_i16", b32_from_16<true>, 0, I, S, "RDNA3 16.8 VOP1 106"),
    ROW("v_cvt_u32_u16", b32_from_16<false>, 0, I, S, "RDNA3 16.8 VOP1 107"),
    ROW("v_cvt_i32_f32", i32_from_f32, 0, I, F, "CDNA4 12.8 VOP1 8"),
    ROW("v_cvt_u32_f32", u32_from_f32, 0, I, F, "CDNA4 12.8 VOP1 7"),
    ROW("v_cvt_rpi_i32_f32", i32_floor<true>, 0, I, F, "CDNA4 12.8 VOP1 12"),
    ROW("v_cvt_nearest_i32_f32", i32_floor<true>, 0, I, F, "RDNA3 16.8 VOP1 12"),
    ROW("v_cvt_flr_i32_f32", i32_floor<false>, 0, I, F, "CDNA4 12.8 VOP1 13"),
    ROW("v_cvt_floor_i32_f32", i32_floor<false>, 0, I, F, "RDNA3 16.8 VOP1 13"),
    ROW("v_cvt_i32_f64", b32_from_f64<true>, 0, I, D, "CDNA4 12.8 VOP1 3"),
    ROW("v_cvt_u32_f64", b32_from_f64<false>, 0, I, D, "CDNA4 12.8 VOP1 21"),
    ROW("v_cvt_i16_f16", b16_from_f16<true>, 0, S, H, "CDNA4 12.8 VOP1 60"),
    ROW("v_cvt_u16_f16", b16_from_f16<false>, 0, S, H, "CDNA4 12.8 VOP1 59"),
    ROW("v_cvt_norm_i16_f16", norm16_from_f16<true>, 0, S, H, "CDNA4 12.8 VOP1 77"),
    ROW("v_cvt_norm_u16_f16", norm16_from_f16<false>, 0, S, H, "CDNA4 12.8 VOP1 78"),
    ROW("v_cvt_pknorm_i16_f32", (two_norm16<true, false>), 0, I, F, "CDNA4 12.11 VOP3 660"),
    ROW("v_cvt_pknorm_u16_f32", (two_norm16<false, false>), 0, I, F, "CDNA4 12.11 VOP3 661"),
    ROW("v_cvt_pknorm_i16_f16", (two_norm16<true, true>), 0, I, H, "CDNA4 12.11 VOP3 665"),
    ROW("v_cvt_pknorm_u16_f16", (two_norm16<false, true>), 0, I, H, "CDNA4 12.11 VOP3 666"),
    ROW("v_cvt_pk_norm_i16_f32", (two_norm16<true, false>), 0, I, F, "RDNA3 16.12 VOP3 801"),
    ROW("v_cvt_pk_norm_u16_f32", (two_norm16<false, false>), 0, I, F, "RDNA3 16.12 VOP3 802"),
    ROW("v_cvt_pk_norm_i16_f16", (two_norm16<true, true>), 0, I, H, "RDNA3 16.12 VOP3 786"),
    ROW("v_cvt_pk_norm_u16_f16", (two_norm16<false, true>), 0, I, H, "RDNA3 16.12 VOP3 787"),
    ROW("v_cvt_pk_i16_f32", two_b16_from_f32<true>, 0, I, F, "RDNA3 16.12 VOP3 774"),
    ROW("v_cvt_pk_u16_f32", two_b16_from_f32<false>, 0, I, F, "RDNA3 16.12 VOP3 775"),
    ROW("v_cvt_pk_u16_u32", two_u16_from_u32, 0, I, I, "CDNA4 12.11 VOP3 663"),
    ROW("v_cvt_pk_i16_i32", two_i16_from_i32, 0, I, I, "CDNA4 12.11 VOP3 664"),
    {"v_cvt_pk_u8_f32", u8_from_f32, 1, Class::Valu, Flow::Lane, 0, Types{I, F, I, I}, nullptr, "CDNA4 12.11 VOP3 477"},
    {"v_cvt_pkaccum_u8_f32", accumulate_u8, 1, Class::Valu, Flow::Lane, kReadsDst, Types{I, F, I}, nullptr,
     "CDNA4 12.11 VOP3 496"},
};

}  // namespace

const Table kConvertTable{kEntries, sizeof kEntries / sizeof *kEntries};

}  // namespace emu
