#include "types.hpp"

namespace ptx {

namespace {
struct Row {
  const char* name;
  Type type;
  unsigned bits;
};
constexpr Row rows[] = {
    {"pred", Type::Pred, 0},      {"b8", Type::B8, 8},          {"u8", Type::U8, 8},           {"s8", Type::S8, 8},
    {"b16", Type::B16, 16},       {"u16", Type::U16, 16},       {"s16", Type::S16, 16},        {"f16", Type::F16, 16},
    {"bf16", Type::BF16, 16},     {"f16x2", Type::F16x2, 32},   {"bf16x2", Type::BF16x2, 32},  {"b32", Type::B32, 32},
    {"u32", Type::U32, 32},       {"s32", Type::S32, 32},       {"f32", Type::F32, 32},        {"tf32", Type::TF32, 32},
    {"b64", Type::B64, 64},       {"u64", Type::U64, 64},       {"s64", Type::S64, 64},        {"f64", Type::F64, 64},
    {"b128", Type::B128, 128},    {"e4m3", Type::E4M3, 8},      {"e5m2", Type::E5M2, 8},       {"e4m3x2", Type::E4M3x2, 16},
    {"e5m2x2", Type::E5M2x2, 16}, {"f32x2", Type::F32x2, 64},
};
}  // namespace

Type type_named(const std::string& name) {
  for (const Row& row : rows)
    if (name == row.name) return row.type;
  return Type::None;
}

unsigned bits_of(Type type) {
  for (const Row& row : rows)
    if (type == row.type) return row.bits;
  return 0;
}

}  // namespace ptx
