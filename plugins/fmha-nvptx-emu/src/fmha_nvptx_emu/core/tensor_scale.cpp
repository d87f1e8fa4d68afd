#include "tensor_scale.hpp"

#include <algorithm>

namespace ptx {

namespace {

constexpr unsigned kLanes = TensorMemory::kLanes;

uint32_t lane_of(uint32_t address) { return address >> 16 & 0x3fff; }
uint32_t column_of(uint32_t address) { return address & 0xffff; }
unsigned words_of(unsigned rows) { return (rows + 31) / 32; }

double value_of(const TensorForm& f, uint8_t bits) {
  if (f.powers) return bits == 0xff ? double(float_of(kNan)) : std::ldexp(1.0, int(bits) - 127);
  return element_of<Element::E4M3>(bits & 0x7f, 0);
}
Scaled parts_of(const TensorForm& f, uint8_t bits) {  // significand in units of 2^-10
  if (f.powers) return {1 << 10, int32_t(bits) - 127};
  return scaled(float(value_of(f, bits)), least_exponent(Element::E4M3), 13);
}
bool is_nan(const TensorForm& f, uint8_t bits) { return f.powers ? bits == 0xff : (bits & 0x7f) == 0x7f; }

// `sum` + `product`, an exact number of few bits, rounded once: to odd in binary64, then to binary32.
inline float added(float sum, double product) {
  const double s = sum, t = product + s, of_s = t - product, left = (product - (t - of_s)) + (s - of_s);
  uint64_t bits;
  std::memcpy(&bits, &t, 8);
  const bool finite = (bits >> 52 & 0x7ff) != 0x7ff, odd = left != 0 && !(bits & 1) && finite;
  if (odd) bits += (left > 0) == (t > 0) ? 1 : -1;
  double out;
  std::memcpy(&out, &bits, 8);
  return float(out);
}

// One sum of elements of a byte: every product has both scales.
float sum_of_bytes(const Scaled* a, const Scaled* b, unsigned k, int scale, float c) {
  const Scaled start = scaled(c, -126, 0);
  int top = start.exponent;
  for (unsigned at = 0; at < k; ++at) top = std::max(top, a[at].exponent + b[at].exponent + scale);
  int64_t total = shifted(start.significand, 25 - 23 + start.exponent - top);
  for (unsigned at = 0; at < k; ++at)
    total += shifted(int64_t(a[at].significand) * b[at].significand, 25 - 20 + a[at].exponent + b[at].exponent + scale - top);
  return truncated(total, top, 25, 23);
}
// One sum of elements of 4 bits, of which sixteen make one exact term.
float sum_of_nibbles(const TensorForm& f, const float* a, const float* b, const uint8_t* sa, const uint8_t* sb, float c) {
  constexpr unsigned kTerms = 4, kOfTerm = 16;
  const Scaled start = scaled(c, -126, 0);
  int top = start.exponent, exponents[kTerms];
  int64_t terms[kTerms];
  for (unsigned t = 0; t < kTerms; ++t) {
    float exact = 0;
    for (unsigned at = kOfTerm * t; at < kOfTerm * (t + 1); ++at) exact += a[at] * b[at];
    const unsigned of = t * f.scales / kTerms;
    const Scaled left = parts_of(f, sa[of]), right = parts_of(f, sb[of]);
    terms[t] = int64_t(exact * 4) * left.significand * right.significand, exponents[t] = left.exponent + right.exponent;
    top = std::max(top, exponents[t]);
  }
  int64_t total = shifted(start.significand, 35 - 23 + start.exponent - top);
  for (unsigned t = 0; t < kTerms; ++t) total += shifted(terms[t], 35 - 22 + exponents[t] - top);
  return truncated(total, top, 35, 23);
}

}  // namespace

bool check_scales(Warp& w, const Inst& i, TensorMemory& memory, const TensorForm& f, const ScalePlaces& at, TensorMemory::By by) {
  const unsigned columns = at.halves ? f.n / 2 : f.n, rows = at.halves ? 64 : kLanes;
  const auto whole = [&](const char* whose, uint32_t address, unsigned first, unsigned count, bool halves) {
    if (lane_of(address)) stop(i, w, std::string("the scales of ") + whose + " begin at lane " + std::to_string(lane_of(address)) + " of tensor memory");
    const unsigned words = words_of(count), column = column_of(address);
    if (!memory.inside(w, i, 0, column, words)) return false;
    if (!w.block->checks) return true;
    const uint32_t mask = (f.scales == 4 ? ~0u : (1u << 8 * f.scales) - 1) << 8 * first;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      memory.read(w, i, lane, column, words, by);
      const unsigned like = halves ? lane / 64 * 64 + lane % 32 : lane % 32;
      for (unsigned word = 0; word < words && 32 * word + lane % 32 < count; ++word)
        if ((memory.row(lane)[column + word] ^ memory.row(like)[column + word]) & mask) {
          w.block->launch->report->add(Finding::TensorMemoryMisuse, w, i, -1, [&] {
            return std::string("the scales of ") + whose + " in column " + std::to_string(column + word) + " of tensor memory differ between lanes " +
                   std::to_string(like) + " and " + std::to_string(lane) + ", and each quarter needs a copy of all";
          });
          return true;
        }
    }
    return true;
  };
  return whole("A", at.a, f.first_a, rows, false) && whole("B", at.b, f.first_b, columns, at.halves);
}

void read_scales(TensorMemory& memory, const TensorForm& f, const ScalePlaces& at, unsigned lane, unsigned row, unsigned columns, Scales& out) {
  const auto take = [&](unsigned from, unsigned column, unsigned first, uint8_t* to, bool& missing) {
    const uint32_t word = memory.row(from)[column];
    for (unsigned k = 0; k < f.scales; ++k) to[k] = uint8_t(word >> 8 * (first + k));
    missing = !memory.defined(from, column);
  };
  for (unsigned r = 0; r < 16; ++r) take(lane + r, column_of(at.a) + (row + r) / 32, f.first_a, out.a[r], out.missing_a[r]);
  for (unsigned c = 0; c < columns; ++c) take(lane / 32 * 32 + c % 32, column_of(at.b) + c / 32, f.first_b, out.b[c], out.missing_b[c]);
}

void add_scaled(const TensorForm& f, const Scales& s, const float (*a)[64], const unsigned* rows, const float (*b)[256], unsigned n0, unsigned columns,
                float (*sums)[256], bool hardware) {
  const unsigned block = f.k / f.scales;
  if (!hardware) {
    static thread_local double right[64][256];
    for (unsigned k = 0; k < f.k; ++k)
      for (unsigned c = 0; c < columns; ++c) right[k][c] = double(b[k][n0 + c]) * value_of(f, s.b[c][k / block]);
    for (unsigned r = 0; r < 16; ++r)
      for (unsigned k = 0; k < f.k; ++k) {
        const double left = double(a[rows[r]][k]) * value_of(f, s.a[r][k / block]);
        for (unsigned c = 0; c < columns; ++c) sums[r][c] = added(sums[r][c], left * right[k][c]);
      }
    return;
  }
  for (unsigned c = 0; c < columns; ++c) {
    float column[64];
    Scaled of_b[64];
    for (unsigned k = 0; k < f.k; ++k) column[k] = b[k][n0 + c], of_b[k] = scaled(column[k], least_exponent(f.b), 13);
    for (unsigned r = 0; r < 16; ++r) {
      const float* left = a[rows[r]];
      double plain = sums[r][c];
      for (unsigned k = 0; k < f.k; ++k) plain += double(left[k]) * column[k] * value_of(f, s.a[r][k / block]) * value_of(f, s.b[c][k / block]);
      if (!std::isfinite(plain)) {
        sums[r][c] = plain != plain ? float_of(kNan) : float(plain);
        continue;
      }
      if (f.packed) {
        sums[r][c] = sum_of_nibbles(f, left, column, s.a[r], s.b[c], sums[r][c]);
        continue;
      }
      Scaled of_a[64];
      for (unsigned k = 0; k < f.k; ++k) of_a[k] = scaled(left[k], least_exponent(f.a), 13);
      sums[r][c] = sum_of_bytes(of_a, of_b, f.k, int(s.a[r][0]) + int(s.b[c][0]) - 254, sums[r][c]);
    }
  }
}

}  // namespace ptx
