#include <string>

#include "operands.hpp"

namespace emu {

namespace {

// Words that are modifiers on their own.
struct Flag {
  std::string_view name;
  bool Mods::*set;
};

constexpr Flag kFlags[] = {
    {"clamp", &Mods::clamp}, {"offen", &Mods::offen}, {"idxen", &Mods::idxen}, {"addr64", &Mods::addr64},
    {"lds", &Mods::lds},     {"gds", &Mods::gds},     {"sc0", &Mods::sc0},     {"sc1", &Mods::sc1},
    {"nt", &Mods::nt},       {"glc", &Mods::glc},     {"slc", &Mods::slc},     {"dlc", &Mods::dlc},
    {"tfe", &Mods::tfe},     {"scc", &Mods::sc1},
};

bool is_flag(std::string_view text, Mods& mods) {
  for (const Flag& flag : kFlags)
    if (text == flag.name) return mods.*flag.set = true;
  return false;
}

// "[1,0,1]": bit k is the k-th entry.
bool bits_of(std::string_view value, uint8_t& bits) {
  if (value.size() < 2 || value.front() != '[' || value.back() != ']') return false;
  bits = 0;
  int k = 0;
  for (const char c : value.substr(1, value.size() - 2)) {
    if (c == '0' || c == '1') bits = uint8_t(bits | (c - '0') << k++);
    else if (c != ',' && c != ' ') return false;
  }
  return k > 0;
}

// "[1,0,3,2]": `width` bits an entry.
bool fields_of(std::string_view value, int width, uint32_t& packed) {
  if (value.size() < 2 || value.front() != '[' || value.back() != ']') return false;
  packed = 0;
  int k = 0;
  for (const char c : value.substr(1, value.size() - 2)) {
    if (c >= '0' && c <= '7') packed |= uint32_t(c - '0') << width * k++;
    else if (c != ',' && c != ' ') return false;
  }
  return true;
}

bool is_dpp(std::string_view name, std::string_view value, Mods& mods) {
  struct Control {
    std::string_view name;
    Dpp dpp;
    int implied;  // the only value, or -1
  };
  static constexpr Control kControls[] = {
      {"row_shl", Dpp::RowShl, -1},       {"row_shr", Dpp::RowShr, -1},
      {"row_ror", Dpp::RowRor, -1},       {"wave_shl", Dpp::WaveShl, -1},
      {"wave_rol", Dpp::WaveRol, -1},     {"wave_shr", Dpp::WaveShr, -1},
      {"wave_ror", Dpp::WaveRor, -1},     {"row_mirror", Dpp::RowMirror, 0},
      {"row_half_mirror", Dpp::RowHalfMirror, 0}, {"row_share", Dpp::RowShare, -1},
      {"row_xmask", Dpp::RowXmask, -1},   {"row_newbcast", Dpp::RowNewbcast, -1},
  };
  if (name == "quad_perm") {
    mods.dpp = Dpp::QuadPerm;
    return fields_of(value, 2, mods.dpp_arg);
  }
  if (name == "dpp8") {
    mods.dpp = Dpp::Dpp8;
    return fields_of(value, 3, mods.dpp_arg);
  }
  int64_t number = 0;
  if (name == "row_bcast" && parse_integer(value, number)) {
    mods.dpp = number == 15 ? Dpp::RowBcast15 : Dpp::RowBcast31;
    mods.dpp_arg = uint32_t(number);
    return number == 15 || number == 31;
  }
  for (const Control& control : kControls)
    if (name == control.name) {
      mods.dpp = control.dpp;
      if (control.implied < 0 && !parse_integer(value, number)) return false;
      mods.dpp_arg = uint32_t(number);
      return true;
    }
  return false;
}

bool selection(std::string_view value, Sel& sel) {
  static constexpr std::string_view kNames[] = {"BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD"};
  for (size_t k = 0; k < std::size(kNames); ++k)
    if (value == kNames[k]) {
      sel = Sel(k);
      return true;
    }
  return false;
}

bool is_sdwa(std::string_view name, std::string_view value, Mods& mods) {
  if (name == "dst_unused") {
    mods.sdwa = true;
    mods.dst_unused = value == "UNUSED_SEXT" ? Unused::Sext : value == "UNUSED_PRESERVE" ? Unused::Preserve : Unused::Pad;
    return true;
  }
  Sel* const sel = name == "dst_sel"    ? &mods.dst_sel
                   : name == "src0_sel" ? &mods.src0_sel
                   : name == "src1_sel" ? &mods.src1_sel
                                        : nullptr;
  if (!sel || !selection(value, *sel)) return false;
  return mods.sdwa = true;
}

// LLVM, AMDGPU modifier syntax, "matrix_a_fmt": the formats have the same numbers in cbsz and blgp.
bool matrix_format(std::string_view value, uint8_t& format) {
  static constexpr std::string_view kNames[] = {"MATRIX_FMT_FP8", "MATRIX_FMT_BF8", "MATRIX_FMT_FP6", "MATRIX_FMT_BF6",
                                                "MATRIX_FMT_FP4"};
  for (size_t k = 0; k < std::size(kNames); ++k)
    if (value == kNames[k]) {
      format = uint8_t(k);
      return true;
    }
  return false;
}

// Patterns of ds_swizzle_b32 (LLVM, AMDGPU modifier syntax, "swizzle pattern"; ISA documents, DS_SWIZZLE_B32).
bool swizzle(std::string_view inside, int32_t& offset) {
  const size_t comma = inside.find(',');
  if (comma == std::string_view::npos) return false;
  const std::string_view mode = inside.substr(0, comma);
  std::string_view rest = inside.substr(comma + 1);
  int32_t numbers[4] = {};
  int count = 0;
  if (mode == "BITMASK_PERM") {
    if (rest.size() != 7 || rest.front() != '"') return false;
    int32_t and_mask = 0, or_mask = 0, xor_mask = 0;
    for (const char c : rest.substr(1, 5)) {  // most significant bit first
      and_mask = and_mask << 1 | (c == 'p' || c == 'i');
      or_mask = or_mask << 1 | (c == '1');
      xor_mask = xor_mask << 1 | (c == 'i');
    }
    offset = xor_mask << 10 | or_mask << 5 | and_mask;
    return true;
  }
  while (!rest.empty() && count < 4) {
    const size_t end = std::min(rest.find(','), rest.size());
    int64_t number = 0;
    if (!parse_integer(rest.substr(0, end), number)) return false;
    numbers[count++] = int32_t(number);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (mode == "QUAD_PERM" && count == 4) {
    offset = 0x8000 | numbers[0] | numbers[1] << 2 | numbers[2] << 4 | numbers[3] << 6;
    return true;
  }
  if (mode == "BROADCAST" && count == 2) return offset = numbers[1] << 5 | (32 - numbers[0]), true;
  if (mode == "SWAP" && count == 1) return offset = numbers[0] << 10 | 0x1f, true;
  if (mode == "REVERSE" && count == 1) return offset = (numbers[0] - 1) << 10 | 0x1f, true;
  if (mode == "FFT" && count == 1) return offset = 0xe000 | numbers[0], true;
  if (mode == "ROTATE" && count == 2) return offset = 0xc000 | numbers[0] << 10 | numbers[1] << 5, true;
  return false;
}

// Modifiers `name:number`.
bool is_numbered(std::string_view name, std::string_view value, Mods& mods) {
  int64_t number = 0;
  if (!parse_integer(value, number)) return false;
  if (name == "offset") mods.offset = int32_t(number);
  else if (name == "offset0") mods.offset0 = uint8_t(number);
  else if (name == "offset1") mods.offset1 = uint8_t(number);
  else if (name == "row_mask") mods.row_mask = uint8_t(number);
  else if (name == "bank_mask") mods.bank_mask = uint8_t(number);
  else if (name == "bound_ctrl") mods.bound_ctrl = true;  // printed only where it is set, as 0 or 1
  else if (name == "fi") mods.fi = number != 0;
  else if (name == "mul") mods.omod = number == 2 ? 1 : 2;
  else if (name == "div") mods.omod = 3;
  else if (name == "cbsz") mods.cbsz = uint8_t(number);
  else if (name == "abid") mods.abid = uint8_t(number);
  else if (name == "blgp") mods.blgp = uint8_t(number);
  else if (name == "bitop3") mods.bitop3 = uint8_t(number);
  else if (name == "byte_sel") mods.byte_sel = uint32_t(number);
  else if (name == "index_key") mods.index_key = uint8_t(number), mods.index_key_set = true;
  else if (name == "wait_vdst" || name == "wait_exp" || name == "wait_va_vdst" || name == "wait_vm_vsrc") return true;
  else return false;
  return true;
}

}  // namespace

bool parse_modifier(std::string_view text, Mods& mods) {
  if (is_flag(text, mods)) return true;
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const std::string_view value = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  if (is_dpp(name, value, mods)) return true;
  if (value.empty()) return text == "nv" || text == "matrix_a_reuse" || text == "matrix_b_reuse";
  if (is_numbered(name, value, mods) || is_sdwa(name, value, mods)) return true;
  if (name == "op_sel") return mods.has_op_sel = bits_of(value, mods.op_sel);
  if (name == "op_sel_hi") return mods.has_op_sel_hi = bits_of(value, mods.op_sel_hi);
  if (name == "neg_lo") return bits_of(value, mods.neg_lo);
  if (name == "neg_hi") return bits_of(value, mods.neg_hi);
  if (name == "neg") return bits_of(value, mods.blgp);  // f64 matrix products: blgp negates A, B, C
  if (name == "matrix_a_fmt") return matrix_format(value, mods.matrix_a_fmt);
  if (name == "matrix_b_fmt") return matrix_format(value, mods.matrix_b_fmt);
  if (name == "scope") return true;  // caches are not modelled
  if (name == "th") {
    mods.th_return |= value.find("ATOMIC_RETURN") != std::string_view::npos;
    return true;
  }
  if (name == "offset" && value.substr(0, 8) == "swizzle(" && value.back() == ')')
    return swizzle(value.substr(8, value.size() - 9), mods.offset);
  return false;
}

}  // namespace emu
