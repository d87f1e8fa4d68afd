// Comparisons: V_CMP_* write a lane mask, V_CMPX_* write EXEC. Lanes that EXEC (or DPP) leaves out get 0. Sources:
// CDNA3 12.9 VOPC (V_CMPX writes EXEC and its destination), RDNA3 and RDNA4 16.9 (V_CMPX writes EXEC only and has no
// destination). Denormals that MODE flushes on input compare as zeros; the class tests see them unflushed.

#include "floats.hpp"
#include "tables.hpp"

namespace emu {

namespace {

// The relations that can hold between two ordered values. A condition is a set of these. One that unordered values meet
// is the opposite of one that they do not meet.
enum : int { kLess = 1, kEqual = 2, kGreater = 4 };

// What the binder keeps in Inst::extra.
enum : uint32_t { kOpposite = 1, kExecToo = 2 };

template <int kCondition, class T> bool holds(T a, T b) {
  if constexpr (kCondition == 0) return false;
  else if constexpr (kCondition == kLess) return a < b;
  else if constexpr (kCondition == kEqual) return a == b;
  else if constexpr (kCondition == (kLess | kEqual)) return a <= b;
  else if constexpr (kCondition == kGreater) return a > b;
  else if constexpr (kCondition == (kLess | kGreater)) return a < b || a > b;
  else if constexpr (kCondition == (kGreater | kEqual)) return a >= b;
  else return a == a && b == b;
}

void write_mask(Wave& w, const Inst& i, const uint32_t* lanes) {
  uint64_t mask = (i.extra & kOpposite ? ~nonzero(lanes) : nonzero(lanes)) & w.exec();
  if (i.mod.dpp != Dpp::None) mask &= w.dpp_mask;
  if (i.dsts) set_mask_of(w, i.op[0], mask);
  if (i.extra & kExecToo) w.set_exec(mask);
}

// ---- integers ----

// T says how to read the low bits of a source.
template <class T, int kCondition> void integers(Wave& w, const Inst& i) {
  Row ra, rb, out;
  const uint32_t* a = source(w, i, 0, ra);
  const uint32_t* b = source(w, i, 1, rb);
  EMU_LANES out.x[l] = holds<kCondition>(T(a[l]), T(b[l]));
  write_mask(w, i, out.x);
}

template <class T, int kCondition> void integers64(Wave& w, const Inst& i) {
  Doubles a, b;
  Row out;
  fetch64(w, i, 0, a, false);
  fetch64(w, i, 1, b, false);
  EMU_LANES out.x[l] = holds<kCondition>(T(a.x[l]), T(b.x[l]));
  write_mask(w, i, out.x);
}

// ---- floats ----

template <int kCondition> void floats32(Wave& w, const Inst& i) {
  Fetched a, b;
  Row out;
  const bool flush = w.mode.flush_in32();
  fetch32(w, i, 0, a, flush);
  fetch32(w, i, 1, b, flush);
  EMU_LANES out.x[l] = holds<kCondition>(as_float(a.x[l]), as_float(b.x[l]));
  write_mask(w, i, out.x);
}

template <int kCondition> void floats64(Wave& w, const Inst& i) {
  Doubles a, b;
  Row out;
  const bool flush = w.mode.flush_in16_64();
  fetch64(w, i, 0, a, flush);
  fetch64(w, i, 1, b, flush);
  EMU_LANES out.x[l] = holds<kCondition>(as_double(a.x[l]), as_double(b.x[l]));
  write_mask(w, i, out.x);
}

// Integers that order binary16 numbers; both zeros map to 0.
int32_t order16(uint32_t x) { return x & 0x8000 ? -int32_t(x & 0x7fff) : int32_t(x & 0x7fff); }

template <int kCondition> void floats16(Wave& w, const Inst& i) {
  Fetched a, b;
  Row out;
  const bool flush = w.mode.flush_in16_64();
  fetch16(w, i, 0, a, flush);
  fetch16(w, i, 1, b, flush);
  EMU_LANES {
    const bool unordered = is_nan16(a.x[l]) || is_nan16(b.x[l]);
    out.x[l] = !unordered && holds<kCondition>(order16(a.x[l]), order16(b.x[l]));
  }
  write_mask(w, i, out.x);
}

// ---- classes: a bit of S1 for each kind of number ----

// Bits 0 signalling and 1 quiet NaN; 2 -inf, 3 negative normal, 4 negative denormal, 5 -0, 6 +0, 7 positive denormal,
// 8 positive normal, 9 +inf.
template <class B> uint32_t class_of(B x, B sign, B infinity, B quiet) {
  const B size = x & ~sign;
  if (size > infinity) return x & quiet ? 2 : 1;
  const int kind = size == infinity ? 3 : size >= (quiet << 1) ? 2 : size ? 1 : 0;  // the least normal is quiet * 2
  return 1u << (x & sign ? 5 - kind : 6 + kind);
}

void class32(Wave& w, const Inst& i) {
  Fetched a;
  Row rb, out;
  fetch32(w, i, 0, a, false);
  const uint32_t* b = source(w, i, 1, rb);
  EMU_LANES out.x[l] = class_of<uint32_t>(a.x[l], 0x80000000, kInfinity32, 0x00400000) & b[l];
  write_mask(w, i, out.x);
}

void class16(Wave& w, const Inst& i) {
  Fetched a;
  Row rb, out;
  fetch16(w, i, 0, a, false);
  const uint32_t* b = source(w, i, 1, rb);
  EMU_LANES out.x[l] = class_of<uint32_t>(a.x[l], 0x8000, kInfinity16, 0x0200) & b[l];
  write_mask(w, i, out.x);
}

void class64(Wave& w, const Inst& i) {
  Doubles a;
  Row rb, out;
  fetch64(w, i, 0, a, false);
  const uint32_t* b = source(w, i, 1, rb);
  EMU_LANES out.x[l] = class_of<uint64_t>(a.x[l], uint64_t(1) << 63, kInfinity64, uint64_t(1) << 51) & b[l];
  write_mask(w, i, out.x);
}

template <uint32_t kHow> std::string keep_how(Inst& i, const ArchTraits&) {
  i.extra = kHow;
  return "";
}

constexpr Entry row(const char* name, Handler run, Type a, Type b, Binder bind) {
  return {name, run, 1, Class::Valu, Flow::Sink, kReadsExec, {Type::B64, a, b}, bind, "CDNA3 12.9, RDNA4 16.9 VOPC"};
}

#define BOTH(name, handler, a, b, how) \
  row("v_cmp_" name, handler, a, b, keep_how<how>), row("v_cmpx_" name, handler, a, b, keep_how<(how) | kExecToo>)

#define INTEGERS(name, handler, T, type, condition) BOTH(name, (handler<T, condition>), type, type, 0)
#define ALL_INTEGERS(suffix, handler, T, type)                                                 \
  INTEGERS("f_" suffix, handler, T, type, 0), INTEGERS("lt_" suffix, handler, T, type, kLess), \
      INTEGERS("eq_" suffix, handler, T, type, kEqual),                                        \
      INTEGERS("le_" suffix, handler, T, type, (kLess | kEqual)),                              \
      INTEGERS("gt_" suffix, handler, T, type, kGreater),                                      \
      INTEGERS("ne_" suffix, handler, T, type, (kLess | kGreater)),                            \
      INTEGERS("ge_" suffix, handler, T, type, (kGreater | kEqual)), INTEGERS("t_" suffix, handler, T, type, 7)

#define FLOATS(name, handler, type, condition) BOTH(name, handler<condition>, type, type, 0)
#define OPPOSITE(name, handler, type, condition) BOTH(name, handler<condition>, type, type, kOpposite)
#define ALL_FLOATS(suffix, handler, type)                                                                                \
  FLOATS("f_" suffix, handler, type, 0), FLOATS("lt_" suffix, handler, type, 1), FLOATS("eq_" suffix, handler, type, 2), \
      FLOATS("le_" suffix, handler, type, 3), FLOATS("gt_" suffix, handler, type, 4),                                    \
      FLOATS("lg_" suffix, handler, type, 5), FLOATS("ge_" suffix, handler, type, 6),                                    \
      FLOATS("o_" suffix, handler, type, 7), OPPOSITE("u_" suffix, handler, type, 7),                                    \
      OPPOSITE("nge_" suffix, handler, type, 6), OPPOSITE("nlg_" suffix, handler, type, 5),                              \
      OPPOSITE("ngt_" suffix, handler, type, 4), OPPOSITE("nle_" suffix, handler, type, 3),                              \
      OPPOSITE("neq_" suffix, handler, type, 2), OPPOSITE("nlt_" suffix, handler, type, 1),                              \
      OPPOSITE("tru_" suffix, handler, type, 0), OPPOSITE("t_" suffix, handler, type, 0)

#define CLASS(suffix, handler, a, b) BOTH("class_" suffix, handler, a, b, 0)

const Entry kRows[] = {
    ALL_INTEGERS("i16", integers, int16_t, Type::B16),
    ALL_INTEGERS("u16", integers, uint16_t, Type::B16),
    ALL_INTEGERS("i32", integers, int32_t, Type::B32),
    ALL_INTEGERS("u32", integers, uint32_t, Type::B32),
    ALL_INTEGERS("i64", integers64, int64_t, Type::B64),
    ALL_INTEGERS("u64", integers64, uint64_t, Type::B64),
    ALL_FLOATS("f16", floats16, Type::F16),
    ALL_FLOATS("f32", floats32, Type::F32),
    ALL_FLOATS("f64", floats64, Type::F64),
    CLASS("f16", class16, Type::F16, Type::B16),
    CLASS("f32", class32, Type::F32, Type::B32),
    CLASS("f64", class64, Type::F64, Type::B32),
};

}  // namespace

const Table kCompareTable{kRows, std::size(kRows)};

}  // namespace emu
