// Types of PTX values. Source: PTX ISA 9.1, 5.2 (fundamental types), 5.2.3 to 5.2.5 (alternate and packed formats).
#pragma once

#include <cstdint>
#include <string>

namespace ptx {

enum class Type : uint8_t {
  None, Pred, B8, U8, S8, B16, U16, S16, F16, BF16, F16x2, BF16x2, F32x2, B32, U32, S32, F32, TF32, B64, U64, S64, F64, B128,
  E4M3, E5M2, E4M3x2, E5M2x2
};

Type type_named(const std::string& name);  // "f32" -> F32; None if there is no such type
unsigned bits_of(Type type);               // 0 for None and Pred

inline bool is_signed(Type t) { return t == Type::S8 || t == Type::S16 || t == Type::S32 || t == Type::S64; }
inline bool is_float(Type t) {
  return t == Type::F16 || t == Type::BF16 || t == Type::F16x2 || t == Type::BF16x2 || t == Type::F32x2 || t == Type::F32 || t == Type::F64 ||
         t == Type::TF32;
}

// The text is not valid PTX, or cannot be executed. The driver adds the line and its text.
struct Unusable {
  std::string why;
  unsigned line = 0;
};

}  // namespace ptx
