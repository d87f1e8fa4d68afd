// The 8-bit formats fp8 and bf8 in the architecture's encoding (FNUZ or OCP), and stochastic rounding. For a result
// beyond the largest number, MODE.FP16_OVFL decides between that number and infinity or NaN (CDNA4 12.11 674 to 679,
// RDNA4 16.12 873 to 876).
#include "narrow.hpp"
#include "tables.hpp"

namespace emu {

namespace {

template <bool Wide> const Format& format_of(const Wave& w) {  // Wide: the exponent has five bits
  if (w.arch->facts.fnuz) return Wide ? kBf8Fnuz : kFp8Fnuz;
  return Wide ? kBf8 : kFp8;
}

template <bool Wide> void f32_from_8(Wave& w, const Inst& i) {
  const float* table = numbers_of(format_of<Wide>(w));
  Row room, out;
  const uint32_t* a = source(w, i, 0, room);
  const int at = 8 * int(i.mod.byte_sel & 3);
  EMU_LANES out.x[l] = bits_of(table[a[l] >> at & 0xff]);
  finish32(w, i, out.x, w.mode.flush_out32(), !w.mode.flush_out32());
  commit(w, i, out);
}

template <bool Wide> void two_f32_from_8(Wave& w, const Inst& i) {
  const float* table = numbers_of(format_of<Wide>(w));
  Row room, part[2];
  const uint32_t* a = source(w, i, 0, room);
  for (int k = 0; k < 2; ++k) {
    EMU_LANES part[k].x[l] = bits_of(table[a[l] >> (8 * k) & 0xff]);
    finish32(w, i, part[k].x, w.mode.flush_out32(), !w.mode.flush_out32());
  }
  commit(w, i, part[0], 0);
  commit(w, i, part[1], 1);
}

template <bool Wide> void two_8_from_f32(Wave& w, const Inst& i) {
  Row part[2], out;
  for (int k = 0; k < 2; ++k) {
    Fetched in;
    fetch32(w, i, k, in, false);
    narrow_row(format_of<Wide>(w), part[k].x, in.x, fp16_overflow(w));
  }
  EMU_LANES out.x[l] = part[0].x[l] | part[1].x[l] << 8;
  commit(w, i, out);
}

// Writes one byte of the destination: byte_sel or bits 2 and 3 of op_sel choose it.
template <bool Wide> void stochastic_8(Wave& w, const Inst& i) {
  Fetched in;
  fetch32(w, i, 0, in, false);
  Row room, out;
  const uint32_t *seed = source(w, i, 1, room), *old = w.v[i.op[0].reg].x;
  const int at = 8 * int(w.arch->byte_sel ? i.mod.byte_sel & 3 : i.mod.op_sel >> 2 & 3);
  const bool saturate = fp16_overflow(w);
  for (int l = 0; l < kLanes; ++l) {
    const double x = as_float(in.x[l]);
    const uint32_t code = uint32_t(encode_stochastic(format_of<Wide>(w), x, seed[l], saturate));
    out.x[l] = (old[l] & ~(0xffu << at)) | code << at;
  }
  whole_commit(w, i, out.x);
}

// Writes one half of the destination: bit 2 of op_sel chooses it.
template <bool Brain> void stochastic_16(Wave& w, const Inst& i) {
  Fetched in;
  fetch32(w, i, 0, in, w.mode.flush_in32());
  Row room, out;
  const uint32_t *seed = source(w, i, 1, room), *old = w.v[i.op[0].reg].x;
  const int at = i.mod.op_sel & 4 ? 16 : 0;
  const Format& format = Brain ? kBrain : kHalf;
  for (int l = 0; l < kLanes; ++l) {
    const uint32_t x = in.x[l];
    uint32_t code = uint32_t(encode_stochastic(format, as_float(x), seed[l], !Brain && fp16_overflow(w)));
    if (is_nan32(x)) code = Brain ? float_to_brain(as_float(x)) : float_to_half(as_float(x));
    out.x[l] = (old[l] & ~(0xffffu << at)) | code << at;
  }
  whole_commit(w, i, out.x);
}

constexpr Type F = Type::F32, I = Type::B32, S = Type::B16;
using Types = std::array<Type, 6>;

#define ROW(name, run, flags, types, source) {name, run, 1, Class::Valu, Flow::Lane, flags, types, nullptr, source}

constexpr Entry kEntries[] = {
    ROW("v_cvt_f32_fp8", f32_from_8<false>, 0, (Types{F, I}), "CDNA4 12.8 VOP1 84, RDNA4 16.8 VOP1 108"),
    ROW("v_cvt_f32_bf8", f32_from_8<true>, 0, (Types{F, I}), "CDNA4 12.8 VOP1 85, RDNA4 16.8 VOP1 109"),
    ROW("v_cvt_pk_f32_fp8", two_f32_from_8<false>, 0, (Types{F, S}), "CDNA4 12.8 VOP1 86, RDNA4 16.8 VOP1 110"),
    ROW("v_cvt_pk_f32_bf8", two_f32_from_8<true>, 0, (Types{F, S}), "CDNA4 12.8 VOP1 87, RDNA4 16.8 VOP1 111"),
    ROW("v_cvt_pk_fp8_f32", two_8_from_f32<false>, kKeepsUpper, (Types{S, F, F}), "CDNA4 12.11 674"),
    ROW("v_cvt_pk_bf8_f32", two_8_from_f32<true>, kKeepsUpper, (Types{S, F, F}), "CDNA4 12.11 675"),
    ROW("v_cvt_sr_fp8_f32", stochastic_8<false>, 0, (Types{I, F, I}), "CDNA4 12.11 676"),
    ROW("v_cvt_sr_bf8_f32", stochastic_8<true>, 0, (Types{I, F, I}), "CDNA4 12.11 677"),
    ROW("v_cvt_sr_f16_f32", stochastic_16<false>, 0, (Types{I, F, I}), "CDNA4 12.11 678"),
    ROW("v_cvt_sr_bf16_f32", stochastic_16<true>, 0, (Types{I, F, I}), "CDNA4 12.11 679"),
};

}  // namespace

const Table kNarrowTable{kEntries, sizeof kEntries / sizeof *kEntries};

}  // namespace emu
