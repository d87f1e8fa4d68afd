// gfx950's v_cvt_scalef32_*: numbers of 4 to 32 bits, scaled by a power of two. The exponent of a binary32 source holds
// that power (CDNA4 12.11, 565 to 618). A conversion to a narrow format divides by the scale, one from a narrow format
// multiplies (OCP MX: value = scale x element). A result beyond the largest number of a format without infinity becomes
// that number; MODE.FP16_OVFL extends this to all formats.
#include <cstring>

#include "narrow.hpp"
#include "tables.hpp"

namespace emu {

namespace {

enum class Wide : uint8_t { F32, F16, Bf16 };

// The scale's exponent; 255 is NaN's.
struct Scale {
  int exponent;
  bool nan;
};

Scale scale_of(uint32_t bits) { return {int(bits >> 23 & 0xff) - 127, (bits >> 23 & 0xff) == 255}; }

double number_of(Wide type, uint32_t bits) {
  if (type == Wide::F32) return as_float(bits);
  return type == Wide::F16 ? half_to_float(bits & 0xffff) : brain_to_float(bits & 0xffff);
}

uint32_t narrowed(const Wave& w, const Format& f, Wide from, uint32_t bits, Scale scale) {
  const double x = scale.nan ? double(NAN) : std::ldexp(number_of(from, bits), -scale.exponent);
  return uint32_t(encode(f, x, kNearest, fp16_overflow(w)));
}

uint32_t narrowed_stochastic(const Wave& w, const Format& f, Wide from, uint32_t bits, uint32_t seed, Scale scale) {
  const double x = scale.nan ? double(NAN) : std::ldexp(number_of(from, bits), -scale.exponent);
  return uint32_t(encode_stochastic(f, x, seed, fp16_overflow(w)));
}

uint32_t widened(const Format& f, Wide to, uint32_t code, Scale scale) {
  const double x = scale.nan ? double(NAN) : std::ldexp(decode(f, code), scale.exponent);
  if (to == Wide::F32) return std::isnan(x) ? 0x7fc00000 | uint32_t(std::signbit(x)) << 31 : bits_of(float(x));
  return uint32_t(encode(to == Wide::F16 ? kHalf : kBrain, x));
}

// V_PRNG_B32: the seed of the next element.
uint32_t next_random(uint32_t x) { return x << 1 ^ (x >> 31 ? 197 : 0); }

// The values of lane l in a run of registers.
template <int Dwords> void load_lane(const uint32_t* const* rows, int l, uint32_t (&to)[Dwords]) {
  for (int d = 0; d < Dwords; ++d) to[d] = rows[d][l];
}

// Reads `bits` bits of a packed run from bit `at` on. An element may straddle two dwords.
uint32_t packed_bits(const uint32_t* run, int at, int bits) {
  uint64_t two = run[at / 32];
  if (at % 32 + bits > 32) two |= uint64_t(run[at / 32 + 1]) << 32;
  return uint32_t(two >> (at % 32) & ((uint64_t(1) << bits) - 1));
}

void put_bits(uint32_t* run, int at, int bits, uint32_t value) {
  run[at / 32] |= value << (at % 32);
  if (at % 32 + bits > 32) run[at / 32 + 1] |= value >> (32 - at % 32);
}

constexpr int width_of(Wide type) { return type == Wide::F32 ? 32 : 16; }

// neg and abs of a binary32, binary16 or bfloat16 source.
uint32_t edited(const Operand& op, Wide type, uint32_t bits) {
  const uint32_t sign = type == Wide::F32 ? 0x80000000 : 0x8000;
  return (op.abs ? bits & ~sign : bits) ^ (op.neg ? sign : 0);
}

// ---- one and two elements ----

// Which part of the destination is written: its width in bits and its first bit.
void insert(Wave& w, const Inst& i, Row& out, int at, int bits) {
  const uint32_t mask = ((bits < 32 ? 1u << bits : 0) - 1) << at, *old = w.v[i.op[0].reg].x;
  EMU_LANES out.x[l] = (old[l] & ~mask) | (out.x[l] << at & mask);
  whole_commit(w, i, out.x);
}

// Converts two elements to fp8 or bf8 (a half of the destination) or to fp4 (a byte). binary32 arrives in two sources,
// the others packed in one.
template <const Format& F, Wide From> void pack_two(Wave& w, const Inst& i) {
  constexpr bool two_sources = From == Wide::F32;
  Row r0, r1, rs, out;
  const uint32_t *a = whole_source(w, i, 0, r0), *b = two_sources ? whole_source(w, i, 1, r1) : a,
                 *s = whole_source(w, i, two_sources ? 2 : 1, rs);
  const int bits = F.width();
  for (int l = 0; l < kLanes; ++l) {
    const Scale scale = scale_of(s[l]);
    const uint32_t first = edited(i.src(0), From, two_sources ? a[l] : a[l] & 0xffff);
    const uint32_t second = edited(i.src(two_sources ? 1 : 0), From, two_sources ? b[l] : a[l] >> 16);
    out.x[l] = narrowed(w, F, From, first, scale) | narrowed(w, F, From, second, scale) << bits;
  }
  // Bit 3 of op_sel (written behind the sources) names a half; bits 2 and 3 name a byte.
  const int sources = two_sources ? 3 : 2;
  const int at = bits == 8 ? (i.mod.op_sel >> sources & 1) * 16 : (i.mod.op_sel >> 2 & 3) * 8;
  insert(w, i, out, at, 2 * bits);
}

// One element to a byte that op_sel's bits 2 and 3 name.
template <const Format& F, Wide From> void pack_one_stochastic(Wave& w, const Inst& i) {
  Row r0, r1, rs, out;
  const uint32_t *a = whole_source(w, i, 0, r0), *seed = whole_source(w, i, 1, r1), *s = whole_source(w, i, 2, rs);
  const int half = From != Wide::F32 && (i.mod.op_sel & 1) ? 16 : 0;
  for (int l = 0; l < kLanes; ++l)
    out.x[l] = narrowed_stochastic(w, F, From, edited(i.src(0), From, a[l] >> half), seed[l], scale_of(s[l]));
  insert(w, i, out, (i.mod.op_sel >> 2 & 3) * 8, 8);
}

template <Wide From> void pack_two_fp4_stochastic(Wave& w, const Inst& i) {
  Row r0, r1, r2, rs, out;
  const uint32_t *a = whole_source(w, i, 0, r0), *b = From == Wide::F32 ? whole_source(w, i, 0, r1, 1) : a,
                 *seed = whole_source(w, i, 1, r2), *s = whole_source(w, i, 2, rs);
  for (int l = 0; l < kLanes; ++l) {
    const Scale scale = scale_of(s[l]);
    const uint32_t second = From == Wide::F32 ? b[l] : a[l] >> 16;
    out.x[l] = narrowed_stochastic(w, kFp4, From, edited(i.src(0), From, a[l]), seed[l], scale) |
               narrowed_stochastic(w, kFp4, From, edited(i.src(0), From, second), next_random(seed[l]), scale) << 4;
  }
  insert(w, i, out, (i.mod.op_sel >> 2 & 3) * 8, 8);
}

// Two elements of a source's half (fp8, bf8: op_sel bit 0) or byte (fp4: bits 0 and 1).
template <const Format& F, Wide To> void unpack_two(Wave& w, const Inst& i) {
  Row r0, rs, part[2];
  const uint32_t *a = whole_source(w, i, 0, r0), *s = whole_source(w, i, 1, rs);
  const int bits = F.width(), at = bits == 8 ? (i.mod.op_sel & 1) * 16 : (i.mod.op_sel & 3) * 8;
  for (int l = 0; l < kLanes; ++l)
    for (int e = 0; e < 2; ++e)
      part[e].x[l] = widened(F, To, a[l] >> (at + e * bits) & ((1u << bits) - 1), scale_of(s[l]));
  if (To == Wide::F32) {
    whole_commit(w, i, part[0].x, 0);
    whole_commit(w, i, part[1].x, 1);
  } else {
    EMU_LANES part[0].x[l] |= part[1].x[l] << 16;
    whole_commit(w, i, part[0].x);
  }
}

// Converts one element of the byte that bits 0 and 1 of op_sel name. A 16-bit result goes into the half that bit 2
// names (in the written form, the last bit).
template <const Format& F, Wide To> void unpack_one(Wave& w, const Inst& i) {
  Row r0, rs, out;
  const uint32_t *a = whole_source(w, i, 0, r0), *s = whole_source(w, i, 1, rs);
  const int at = (i.mod.op_sel & 3) * 8;
  for (int l = 0; l < kLanes; ++l) out.x[l] = widened(F, To, a[l] >> at & 0xff, scale_of(s[l]));
  if (To == Wide::F32) whole_commit(w, i, out.x);
  else insert(w, i, out, i.mod.op_sel & 4 ? 16 : 0, 16);
}

// ---- thirty-two elements of six bits ----

constexpr int kElements = 32;

template <int Dwords> void rows_of(const Wave& w, const Operand& op, const uint32_t* (&rows)[Dwords]) {
  for (int d = 0; d < Dwords; ++d) rows[d] = w.v[op.reg + d].x;
}

template <size_t Dwords> void commit_run(Wave& w, const Inst& i, const std::array<Row, Dwords>& rows) {
  for (size_t d = 0; d < Dwords; ++d) whole_commit(w, i, rows[d].x, int(d));
}

template <const Format& F, Wide From, bool Stochastic> void pack_run(Wave& w, const Inst& i) {
  constexpr int kDwords = kElements * width_of(From) / 32;
  const uint32_t* from[kDwords];
  rows_of(w, i.src(0), from);
  Row rr, rs;
  const uint32_t *seeds = Stochastic ? whole_source(w, i, 1, rr) : nullptr,
                 *s = whole_source(w, i, Stochastic ? 2 : 1, rs);
  std::array<Row, 6> out;
  for (int l = 0; l < kLanes; ++l) {
    uint32_t run[kDwords], packed[7] = {};
    load_lane(from, l, run);
    const Scale scale = scale_of(s[l]);
    uint32_t seed = Stochastic ? seeds[l] : 0;
    for (int e = 0; e < kElements; ++e) {
      const uint32_t bits = packed_bits(run, e * width_of(From), width_of(From));
      put_bits(packed, e * 6, 6, Stochastic ? narrowed_stochastic(w, F, From, bits, seed, scale)
                                            : narrowed(w, F, From, bits, scale));
      seed = next_random(seed);
    }
    for (int d = 0; d < 6; ++d) out[d].x[l] = packed[d];
  }
  commit_run(w, i, out);
}

// Two runs of 16 binary32 numbers; elements come from each in turn.
template <const Format& F> void pack_two_runs(Wave& w, const Inst& i) {
  const uint32_t *first[16], *second[16];
  rows_of(w, i.src(0), first);
  rows_of(w, i.src(1), second);
  Row rs;
  const uint32_t* s = whole_source(w, i, 2, rs);
  std::array<Row, 6> out;
  for (int l = 0; l < kLanes; ++l) {
    uint32_t packed[7] = {};
    const Scale scale = scale_of(s[l]);
    for (int e = 0; e < 16; ++e) {
      put_bits(packed, e * 12, 6, narrowed(w, F, Wide::F32, first[e][l], scale));
      put_bits(packed, e * 12 + 6, 6, narrowed(w, F, Wide::F32, second[e][l], scale));
    }
    for (int d = 0; d < 6; ++d) out[d].x[l] = packed[d];
  }
  commit_run(w, i, out);
}

template <const Format& F, Wide To> void unpack_run(Wave& w, const Inst& i) {
  constexpr int kDwords = kElements * width_of(To) / 32;
  const uint32_t* from[6];
  rows_of(w, i.src(0), from);
  Row rs;
  const uint32_t* s = whole_source(w, i, 1, rs);
  std::array<Row, kDwords> out;
  for (int l = 0; l < kLanes; ++l) {
    uint32_t run[6], wide[kDwords + 1] = {};
    load_lane(from, l, run);
    for (int e = 0; e < kElements; ++e)
      put_bits(wide, e * width_of(To), width_of(To), widened(F, To, packed_bits(run, e * 6, 6), scale_of(s[l])));
    for (int d = 0; d < kDwords; ++d) out[d].x[l] = wide[d];
  }
  commit_run(w, i, out);
}

std::string needs_registers(Inst& i, const ArchTraits&) {
  return i.src(0).kind == Kind::Vgpr ? "" : "a run of elements that is not in vector registers";
}

constexpr Type T = Type::Wide, F = Type::F32, I = Type::B32;
using Types = std::array<Type, 6>;
constexpr Wide S = Wide::F32, H = Wide::F16, B = Wide::Bf16;

#define ROW(name, run, bind, source) \
  {"v_cvt_scalef32_" name, run, 1, Class::Valu, Flow::Lane, 0, Types{T, I, I, F}, bind, "CDNA4 12.11 VOP3 " source}

constexpr Entry kEntries[] = {
    ROW("pk_fp8_f32", (pack_two<kFp8, S>), nullptr, "565"),
    ROW("pk_bf8_f32", (pack_two<kBf8, S>), nullptr, "566"),
    ROW("sr_fp8_f32", (pack_one_stochastic<kFp8, S>), nullptr, "567"),
    ROW("sr_bf8_f32", (pack_one_stochastic<kBf8, S>), nullptr, "568"),
    ROW("pk_f32_fp8", (unpack_two<kFp8, S>), nullptr, "569"),
    ROW("pk_f32_bf8", (unpack_two<kBf8, S>), nullptr, "570"),
    ROW("f32_fp8", (unpack_one<kFp8, S>), nullptr, "571"),
    ROW("f32_bf8", (unpack_one<kBf8, S>), nullptr, "572"),
    ROW("pk_fp4_f32", (pack_two<kFp4, S>), nullptr, "573"),
    ROW("sr_pk_fp4_f32", pack_two_fp4_stochastic<S>, nullptr, "574"),
    ROW("pk_f32_fp4", (unpack_two<kFp4, S>), nullptr, "575"),
    ROW("pk_fp8_f16", (pack_two<kFp8, H>), nullptr, "576"),
    ROW("pk_bf8_f16", (pack_two<kBf8, H>), nullptr, "577"),
    ROW("sr_fp8_f16", (pack_one_stochastic<kFp8, H>), nullptr, "578"),
    ROW("sr_bf8_f16", (pack_one_stochastic<kBf8, H>), nullptr, "579"),
    ROW("pk_fp8_bf16", (pack_two<kFp8, B>), nullptr, "580"),
    ROW("pk_bf8_bf16", (pack_two<kBf8, B>), nullptr, "581"),
    ROW("sr_fp8_bf16", (pack_one_stochastic<kFp8, B>), nullptr, "582"),
    ROW("sr_bf8_bf16", (pack_one_stochastic<kBf8, B>), nullptr, "583"),
    ROW("pk_f16_fp8", (unpack_two<kFp8, H>), nullptr, "584"),
    ROW("pk_f16_bf8", (unpack_two<kBf8, H>), nullptr, "585"),
    ROW("f16_fp8", (unpack_one<kFp8, H>), nullptr, "586"),
    ROW("f16_bf8", (unpack_one<kBf8, H>), nullptr, "587"),
    ROW("pk_fp4_f16", (pack_two<kFp4, H>), nullptr, "588"),
    ROW("pk_fp4_bf16", (pack_two<kFp4, B>), nullptr, "589"),
    ROW("sr_pk_fp4_f16", pack_two_fp4_stochastic<H>, nullptr, "590"),
    ROW("sr_pk_fp4_bf16", pack_two_fp4_stochastic<B>, nullptr, "591"),
    ROW("pk_f16_fp4", (unpack_two<kFp4, H>), nullptr, "592"),
    ROW("pk_bf16_fp4", (unpack_two<kFp4, B>), nullptr, "593"),
    ROW("2xpk16_fp6_f32", pack_two_runs<kFp6>, needs_registers, "594"),
    ROW("2xpk16_bf6_f32", pack_two_runs<kBf6>, needs_registers, "595"),
    ROW("sr_pk32_fp6_f32", (pack_run<kFp6, S, true>), needs_registers, "596"),
    ROW("sr_pk32_bf6_f32", (pack_run<kBf6, S, true>), needs_registers, "597"),
    ROW("pk32_f32_fp6", (unpack_run<kFp6, S>), needs_registers, "598"),
    ROW("pk32_f32_bf6", (unpack_run<kBf6, S>), needs_registers, "599"),
    ROW("pk32_fp6_f16", (pack_run<kFp6, H, false>), needs_registers, "600"),
    ROW("pk32_fp6_bf16", (pack_run<kFp6, B, false>), needs_registers, "601"),
    ROW("pk32_bf6_f16", (pack_run<kBf6, H, false>), needs_registers, "602"),
    ROW("pk32_bf6_bf16", (pack_run<kBf6, B, false>), needs_registers, "603"),
    ROW("sr_pk32_fp6_f16", (pack_run<kFp6, H, true>), needs_registers, "604"),
    ROW("sr_pk32_fp6_bf16", (pack_run<kFp6, B, true>), needs_registers, "605"),
    ROW("sr_pk32_bf6_f16", (pack_run<kBf6, H, true>), needs_registers, "606"),
    ROW("sr_pk32_bf6_bf16", (pack_run<kBf6, B, true>), needs_registers, "607"),
    ROW("pk32_f16_fp6", (unpack_run<kFp6, H>), needs_registers, "608"),
    ROW("pk32_bf16_fp6", (unpack_run<kFp6, B>), needs_registers, "609"),
    ROW("pk32_f16_bf6", (unpack_run<kBf6, H>), needs_registers, "610"),
    ROW("pk32_bf16_bf6", (unpack_run<kBf6, B>), needs_registers, "611"),
    ROW("pk_bf16_fp8", (unpack_two<kFp8, B>), nullptr, "617"),
    ROW("pk_bf16_bf8", (unpack_two<kBf8, B>), nullptr, "618"),
};

}  // namespace

const Table kScaledConvertTable{kEntries, sizeof kEntries / sizeof *kEntries};

}  // namespace emu
