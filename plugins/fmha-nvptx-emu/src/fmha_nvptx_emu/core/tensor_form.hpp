// What the instruction descriptor of a tcgen05.mma says, and how its elements lie in memory. Source: PTX ISA 9.1, 9.7.16.4.2
// (descriptors), 9.7.16.2.1 (shapes), 9.7.16.10.4 (packing).
#pragma once

#include "lanes.hpp"
#include "tensor_sum.hpp"

namespace ptx {

enum class TensorKind : uint8_t { F16, TF32, F8F6F4, I8, MXF8F6F4, MXF4, MXF4NVF4 };

struct TensorForm {
  Element a, b;
  bool half, across_a, across_b;
  bool whole, saturates;  // sums of s32, which wrap around or keep to the range
  float sign_a, sign_b;
  unsigned m, n, k;
  bool packed;                   // two elements of 4 bits in a byte, without padding
  unsigned scales = 0;           // of a row of A; 0: the product has none
  unsigned first_a = 0, first_b = 0;  // the byte of a word where those of a row begin
  bool powers = false;           // scales are ue8m0, not ue4m3
};

[[noreturn]] void stop(const Inst& i, const Warp& w, const std::string& why);  // raises Fault with the instruction's line

// What the modifiers of an instruction say. `scales`: of a row; `stationary`: .ws
struct TensorMode {
  TensorKind kind;
  bool pair, stationary;
  unsigned scales;
};
// What is not implemented stops the launch by its name.
TensorForm form_of(const Inst& i, const Warp& w, const TensorMode& mode, uint32_t bits);

inline bool is_narrow(Element e) { return e == Element::E2M3 || e == Element::E3M2 || e == Element::E2M1; }

// Sixteen bytes of shared memory along k: how many elements they hold, and how many of the bytes belong to them.
inline unsigned elements_of_chunk(Element e, bool packed) { return packed ? 32 : 4 * elements_of(e); }
inline unsigned bytes_of_chunk(Element e, bool packed) { return packed ? 16 : e == Element::E2M1 ? 8 : is_narrow(e) ? 12 : 16; }
void read_chunk(Element e, bool packed, const uint8_t* chunk, float sign, float* out);  // all of them, times the sign

// The k elements of a row of A in tensor memory, where elements of 4 and 6 bits have a byte each.
void read_row(Element e, bool packed, const uint8_t* row, unsigned k, float sign, float* out);

}  // namespace ptx
