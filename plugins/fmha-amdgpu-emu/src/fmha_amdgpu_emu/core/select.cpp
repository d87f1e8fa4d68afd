// v_min, v_max, v_med3 and their combinations: select.hpp on whole instructions.
#include "select.hpp"

#include "tables.hpp"

namespace emu {

namespace {

template <class T> using Evaluate = void (*)(const Rule&, typename T::Bits* out, const typename T::Bits* a,
                                             const typename T::Bits* b, const typename T::Bits* c, int lanes);

void run32(Wave& w, const Inst& i, int sources, Nans nans, Evaluate<Single> evaluated) {
  Fetched in[3];
  for (int k = 0; k < sources; ++k) fetch32(w, i, k, in[k], w.mode.flush_in32());
  Row out;
  evaluated(rule_of(w, nans), out.x, in[0].x, in[1].x, in[sources - 1].x, w.lanes);
  finish32(w, i, out.x, false, !w.mode.flush_out32());
  commit(w, i, out);
}

void run16(Wave& w, const Inst& i, int sources, Nans nans, Evaluate<Half> evaluated) {
  Fetched in[3];
  for (int k = 0; k < sources; ++k) fetch16(w, i, k, in[k], w.mode.flush_in16_64());
  Row out;
  evaluated(rule_of(w, nans), out.x, in[0].x, in[1].x, in[sources - 1].x, w.lanes);
  finish16(w, i, out.x, false, !w.mode.flush_out16_64());
  commit(w, i, out);
}

void run64(Wave& w, const Inst& i, Nans nans, Evaluate<Double> evaluated) {
  Doubles in[2], out;
  for (int k = 0; k < 2; ++k) fetch64(w, i, k, in[k], w.mode.flush_in16_64());
  evaluated(rule_of(w, nans), out.x, in[0].x, in[1].x, in[1].x, w.lanes);
  finish64(w, i, out.x, false, !w.mode.flush_out16_64());
  commit64(w, i, out.x);
}

template <class Op, Nans N> void select32(Wave& w, const Inst& i) { run32(w, i, Op::sources, N, evaluate<Single, Op>); }
template <class Op, Nans N> void select16(Wave& w, const Inst& i) { run16(w, i, Op::sources, N, evaluate<Half, Op>); }
template <class Op, Nans N> void select64(Wave& w, const Inst& i) { run64(w, i, N, evaluate<Double, Op>); }

constexpr Nans A = Nans::ByArch, N = Nans::Number, P = Nans::Propagate;
constexpr Type F = Type::F32, H = Type::F16, D = Type::F64;
using Types = std::array<Type, 6>;

#define ROW32(name, op, nans, source) \
  {name, select32<op, nans>, 1, Class::Valu, Flow::Lane, 0, Types{F, F, F, F}, nullptr, source}
#define ROW16(name, op, nans, source) \
  {name, select16<op, nans>, 1, Class::Valu, Flow::Lane, 0, Types{H, H, H, H}, nullptr, source}
#define ROW16_KEEPS(name, op, nans, source) \
  {name, select16<op, nans>, 1, Class::Valu, Flow::Lane, kKeepsUpper, Types{H, H, H, H}, nullptr, source}
#define ROW64(name, op, nans, source) \
  {name, select64<op, nans>, 1, Class::Valu, Flow::Lane, 0, Types{D, D, D}, nullptr, source}

constexpr Entry kEntries[] = {
    ROW32("v_min_f32", Min, A, "CDNA4 12.7 VOP2 10, RDNA3 16.7 VOP2 15"),
    ROW32("v_max_f32", Max, A, "CDNA4 12.7 VOP2 11, RDNA3 16.7 VOP2 16"),
    ROW32("v_min3_f32", Min3, A, "CDNA4 12.11 VOP3 464"),
    ROW32("v_max3_f32", Max3, A, "CDNA4 12.11 VOP3 467"),
    ROW32("v_med3_f32", Median<Single>, A, "CDNA4 12.11 VOP3 470"),
    ROW32("v_minmax_f32", MinMax, A, "RDNA3 16.12 VOP3 607"),
    ROW32("v_maxmin_f32", MaxMin, A, "RDNA3 16.12 VOP3 606"),
    ROW32("v_min_num_f32", Min, N, "RDNA4 16.7 VOP2 21"),
    ROW32("v_max_num_f32", Max, N, "RDNA4 16.7 VOP2 22"),
    ROW32("v_min3_num_f32", Min3, N, "RDNA4 16.12 VOP3"),
    ROW32("v_max3_num_f32", Max3, N, "RDNA4 16.12 VOP3"),
    ROW32("v_med3_num_f32", Median<Single>, N, "RDNA4 16.12 VOP3"),
    ROW32("v_minmax_num_f32", MinMax, N, "RDNA4 16.12 VOP3"),
    ROW32("v_maxmin_num_f32", MaxMin, N, "RDNA4 16.12 VOP3"),
    ROW32("v_minimum_f32", Min, P, "RDNA4 16.12 VOP3"),
    ROW32("v_maximum_f32", Max, P, "RDNA4 16.12 VOP3"),
    ROW32("v_minimum3_f32", Min3, P, "CDNA4 12.11 VOP3 680, RDNA4 16.12 VOP3"),
    ROW32("v_maximum3_f32", Max3, P, "CDNA4 12.11 VOP3 681, RDNA4 16.12 VOP3"),
    ROW32("v_minimummaximum_f32", MinMax, P, "RDNA4 16.12 VOP3"),
    ROW32("v_maximumminimum_f32", MaxMin, P, "RDNA4 16.12 VOP3"),
    ROW16("v_min_f16", Min, A, "CDNA4 12.7 VOP2 46, RDNA3 16.7 VOP2 58"),
    ROW16("v_max_f16", Max, A, "CDNA4 12.7 VOP2 45, RDNA3 16.7 VOP2 57"),
    ROW16("v_min_num_f16", Min, N, "RDNA4 16.7 VOP2 48"),
    ROW16("v_max_num_f16", Max, N, "RDNA4 16.7 VOP2 49"),
    ROW16("v_minimum_f16", Min, P, "RDNA4 16.12 VOP3"),
    ROW16("v_maximum_f16", Max, P, "RDNA4 16.12 VOP3"),
    ROW16_KEEPS("v_min3_f16", Min3, A, "CDNA4 12.11 VOP3 500"),
    ROW16_KEEPS("v_max3_f16", Max3, A, "CDNA4 12.11 VOP3 503"),
    ROW16_KEEPS("v_med3_f16", Median<Half>, A, "CDNA4 12.11 VOP3 506"),
    ROW16_KEEPS("v_minmax_f16", MinMax, A, "RDNA3 16.12 VOP3 609"),
    ROW16_KEEPS("v_maxmin_f16", MaxMin, A, "RDNA3 16.12 VOP3 608"),
    ROW16_KEEPS("v_min3_num_f16", Min3, N, "RDNA4 16.12 VOP3"),
    ROW16_KEEPS("v_max3_num_f16", Max3, N, "RDNA4 16.12 VOP3"),
    ROW16_KEEPS("v_med3_num_f16", Median<Half>, N, "RDNA4 16.12 VOP3"),
    ROW16_KEEPS("v_minmax_num_f16", MinMax, N, "RDNA4 16.12 VOP3"),
    ROW16_KEEPS("v_maxmin_num_f16", MaxMin, N, "RDNA4 16.12 VOP3"),
    ROW16_KEEPS("v_minimum3_f16", Min3, P, "RDNA4 16.12 VOP3"),
    ROW16_KEEPS("v_maximum3_f16", Max3, P, "RDNA4 16.12 VOP3"),
    ROW16_KEEPS("v_minimummaximum_f16", MinMax, P, "RDNA4 16.12 VOP3"),
    ROW16_KEEPS("v_maximumminimum_f16", MaxMin, P, "RDNA4 16.12 VOP3"),
    ROW64("v_min_f64", Min, A, "CDNA4 12.11 VOP3 642"),
    ROW64("v_max_f64", Max, A, "CDNA4 12.11 VOP3 643"),
    ROW64("v_min_num_f64", Min, N, "RDNA4 16.7 VOP2 13"),
    ROW64("v_max_num_f64", Max, N, "RDNA4 16.7 VOP2 14"),
    ROW64("v_minimum_f64", Min, P, "RDNA4 16.12 VOP3"),
    ROW64("v_maximum_f64", Max, P, "RDNA4 16.12 VOP3"),
};

}  // namespace

const Table kSelectTable{kEntries, sizeof kEntries / sizeof *kEntries};

}  // namespace emu
