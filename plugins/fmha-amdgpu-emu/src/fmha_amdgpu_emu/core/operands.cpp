#include "operands.hpp"

#include <bit>
#include <charconv>
#include <cstdlib>
#include <string>

namespace emu {

namespace {

struct Named {
  std::string_view name;
  Kind kind;
  uint16_t reg;    // of Sgpr; of Aperture: which
  uint8_t count;
};

// LLVM, AMDGPU operand syntax: "vcc", "exec", "m0", "flat_scratch", "xnack_mask", "src_*", "null", "off". SGPRs 102 to
// 105 are flat_scratch and xnack_mask on gfx9.
constexpr Named kNamed[] = {
    {"vcc", Kind::Sgpr, kVcc, 2},
    {"vcc_lo", Kind::Sgpr, kVcc, 1},
    {"vcc_hi", Kind::Sgpr, kVcc + 1, 1},
    {"exec", Kind::Sgpr, kExec, 2},
    {"exec_lo", Kind::Sgpr, kExec, 1},
    {"exec_hi", Kind::Sgpr, kExec + 1, 1},
    {"m0", Kind::Sgpr, kM0, 1},
    {"flat_scratch", Kind::Sgpr, 102, 2},
    {"flat_scratch_lo", Kind::Sgpr, 102, 1},
    {"flat_scratch_hi", Kind::Sgpr, 103, 1},
    {"xnack_mask", Kind::Sgpr, 104, 2},
    {"xnack_mask_lo", Kind::Sgpr, 104, 1},
    {"xnack_mask_hi", Kind::Sgpr, 105, 1},
    {"null", Kind::Null, 0, 1},
    {"off", Kind::Off, 0, 1},
    {"scc", Kind::Scc, 0, 1},
    {"src_scc", Kind::Scc, 0, 1},
    {"vccz", Kind::Vccz, 0, 1},
    {"src_vccz", Kind::Vccz, 0, 1},
    {"execz", Kind::Execz, 0, 1},
    {"src_execz", Kind::Execz, 0, 1},
    {"src_shared_base", Kind::Aperture, SharedBase, 2},
    {"src_shared_limit", Kind::Aperture, SharedLimit, 2},
    {"src_private_base", Kind::Aperture, PrivateBase, 2},
    {"src_private_limit", Kind::Aperture, PrivateLimit, 2},
    {"shared_base", Kind::Aperture, SharedBase, 2},
    {"shared_limit", Kind::Aperture, SharedLimit, 2},
    {"private_base", Kind::Aperture, PrivateBase, 2},
    {"private_limit", Kind::Aperture, PrivateLimit, 2},
};

bool small_number(std::string_view text, int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// "7", "[4:7]", "[4]", "7.l", "7.h" behind the register file's letter.
bool register_numbers(std::string_view text, int& first, int& count, uint8_t& half) {
  half = 0;
  count = 1;
  if (text.size() > 2 && text[text.size() - 2] == '.') {
    half = text.back() == 'l' ? 1 : text.back() == 'h' ? 2 : 0;
    if (!half) return false;
    text.remove_suffix(2);
  }
  if (text.empty()) return false;
  if (text.front() != '[') return small_number(text, first);
  if (text.back() != ']') return false;
  text = text.substr(1, text.size() - 2);
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return small_number(text, first);
  int last = 0;
  if (!small_number(text.substr(0, colon), first) || !small_number(text.substr(colon + 1), last)) return false;
  count = last - first + 1;
  return count >= 1;
}

bool parse_register(std::string_view text, Operand& op) {
  struct File {
    std::string_view letters;
    Kind kind;
    int base, size;
  };
  static constexpr File kFiles[] = {{"ttmp", Kind::Sgpr, kTtmp, 16},
                                    {"v", Kind::Vgpr, 0, kAgpr0},
                                    {"a", Kind::Vgpr, kAgpr0, kVgprs - kAgpr0},
                                    {"s", Kind::Sgpr, 0, kVcc}};
  for (const File& file : kFiles) {
    if (text.substr(0, file.letters.size()) != file.letters) continue;
    int first = 0, count = 1;
    uint8_t half = 0;
    if (!register_numbers(text.substr(file.letters.size()), first, count, half)) continue;
    if (first < 0 || first + count > file.size) return false;
    op.kind = file.kind;
    op.reg = uint16_t(file.base + first);
    op.count = uint8_t(count);
    op.half = half;
    return true;
  }
  return false;
}

bool parse_number(std::string_view text, Operand& op) {
  int64_t whole = 0;
  if (parse_integer(text, whole)) {
    const size_t digits = text.front() == '-' ? 1 : 0;
    op.kind = Kind::Constant;
    op.literal = text.size() > digits + 1 && text[digits] == '0' && (text[digits + 1] | 0x20) == 'x';
    op.value = uint64_t(whole);
    return true;
  }
  double real = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), real);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  op.kind = Kind::Constant;
  op.real = true;
  op.value = std::bit_cast<uint64_t>(real);
  return true;
}

// What stands inside `name(...)`; nothing where the operand has another form.
bool wrapped(std::string_view text, std::string_view name, std::string_view& inside) {
  if (text.size() < name.size() + 2 || text.substr(0, name.size()) != name || text[name.size()] != '(') return false;
  if (text.back() != ')') return false;
  inside = text.substr(name.size() + 1, text.size() - name.size() - 2);
  return true;
}

}  // namespace

bool parse_integer(std::string_view text, int64_t& value) {
  bool negative = false;
  if (!text.empty() && text.front() == '-') negative = true, text.remove_prefix(1);
  int base = 10;
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) base = 16, text.remove_prefix(2);
  uint64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size, base);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return false;
  value = negative ? -int64_t(size) : int64_t(size);
  return true;
}

Operand parse_operand(std::string_view text) {
  Operand op;
  if (parse_number(text, op)) return op;
  for (std::string_view inside; !text.empty();) {
    if (text.front() == '-') op.neg = !op.neg, text.remove_prefix(1);
    else if (wrapped(text, "neg", inside)) op.neg = !op.neg, text = inside;
    else if (text.size() > 2 && text.front() == '|' && text.back() == '|') op.abs = true, text = text.substr(1, text.size() - 2);
    else if (wrapped(text, "abs", inside)) op.abs = true, text = inside;
    else if (wrapped(text, "sext", inside)) op.sext = true, text = inside;
    else if (wrapped(text, "lit", inside) || wrapped(text, "lit64", inside)) text = inside, op.literal = true;
    else break;
  }
  for (const Named& named : kNamed)
    if (text == named.name) {
      op.kind = named.kind;
      op.reg = named.kind == Kind::Sgpr ? named.reg : uint16_t(0);
      op.value = named.kind == Kind::Aperture ? named.reg : 0;
      op.count = named.count;
      return op;
    }
  const bool literal = op.literal;
  if (parse_register(text, op)) return op;
  if (parse_number(text, op)) {
    if (literal && !op.real) op.literal = true;
    return op;
  }
  op = Operand();
  op.kind = Kind::Text;
  return op;
}

}  // namespace emu
