#include "listing.hpp"

#include <charconv>
#include <mutex>
#include <unordered_set>

#include "bind.hpp"
#include "operands.hpp"

namespace emu {

namespace {

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

bool parse_hex(std::string_view text, uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

// The next word at or behind `at`. It ends at a space or comma outside brackets, parentheses and quotes. A comma that
// ends the word is skipped.
std::string_view next_word(std::string_view text, size_t& at) {
  while (at < text.size() && (text[at] == ' ' || text[at] == '\t' || text[at] == ',')) ++at;
  const size_t start = at;
  int depth = 0;
  bool quoted = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '[' || c == '(') ++depth;
    if (c == ']' || c == ')') --depth;
    if (depth == 0 && (c == ' ' || c == ',' || c == '\t')) break;
  }
  return text.substr(start, at - start);
}

// Behind `//`: "000000002800: 8601FF01 0000FFFF <name+0x12>".
bool parse_comment(std::string_view comment, Inst& inst, Line& line) {
  const size_t colon = comment.find(':');
  if (colon == std::string_view::npos || !parse_hex(trimmed(comment.substr(0, colon)), inst.address)) return false;
  size_t at = colon + 1;
  for (uint64_t value; parse_hex(next_word(comment, at), value);) line.code.push_back(uint32_t(value));
  inst.size = uint32_t(4 * line.code.size());
  return true;
}

void add_word(std::string_view word, Inst& inst) {
  if (word == "|" || word == "&") return;  // between the parts of s_delay_alu and s_waitcnt
  if (parse_modifier(word, inst.mod)) return;
  inst.words.emplace_back(word);
  if (inst.ops == kOperands) inst.problem = "it has more operands than the emulator keeps";
  else inst.op[inst.ops++] = parse_operand(word);
}

void parse_code(std::string_view text, Inst& inst, std::string& mnemonic) {
  size_t at = 0;
  mnemonic = next_word(text, at);
  inst.mnemonic = interned(mnemonic);
  for (std::string_view word; !(word = next_word(text, at)).empty();) add_word(word, inst);
  for (int k = 0; k < inst.ops; ++k)
    if (inst.op[k].kind == Kind::Text && inst.words[k].find(':') != std::string::npos)
      inst.problem = "the modifier \"" + inst.words[k] + "\" is not known to the emulator";
}

// "0000000000002800 <name>:"
bool parse_label(std::string_view text, Label& label) {
  const size_t open = text.find(" <");
  if (open == std::string_view::npos || text.size() < 2 || text.substr(text.size() - 2) != ">:") return false;
  if (!parse_hex(text.substr(0, open), label.address)) return false;
  label.name = text.substr(open + 2, text.size() - open - 4);
  return true;
}

// Relative branches (ISA documents, SOPP and SOPK: SIMM16 counts dwords from the next instruction). The target comes
// from the code itself, because the text may name a label.
bool is_relative_branch(std::string_view mnemonic) {
  return mnemonic == "s_branch" || mnemonic.substr(0, 9) == "s_cbranch" || mnemonic == "s_call_b64" ||
         mnemonic.substr(0, 17) == "s_subvector_loop_";
}

struct Branch {
  size_t index;
  uint64_t target;
};

void connect(Listing& listing, const std::vector<Branch>& branches) {
  listing.at.reserve(listing.code.size());
  for (const Inst& inst : listing.code) listing.at.emplace(inst.address, &inst);
  for (size_t k = 0; k + 1 < listing.code.size(); ++k) {
    Inst& inst = listing.code[k];
    const Inst& next = listing.code[k + 1];
    if (inst.address + inst.size == next.address) inst.next = &next;
  }
  for (const Branch& branch : branches) {
    const auto found = listing.at.find(branch.target);
    if (found != listing.at.end()) listing.code[branch.index].target = found->second;
    else listing.code[branch.index].problem = "it branches to an address that holds no instruction";
  }
}

}  // namespace

const char* interned(const std::string& text) {
  static std::mutex mutex;
  static std::unordered_set<std::string> known;
  const std::lock_guard lock(mutex);
  return known.insert(text).first->c_str();
}

bool parse_line(std::string_view text, Inst& inst, Line& line, std::string* second) {
  const size_t comment = text.rfind("//");
  if (comment == std::string_view::npos || !parse_comment(text.substr(comment + 2), inst, line)) return false;
  std::string_view code = trimmed(text.substr(0, comment));
  if (code.empty() || line.code.empty()) return false;
  inst.text = code;
  if (const size_t pair = code.find(" :: "); pair != std::string_view::npos) {
    *second = code.substr(pair + 4);
    code = code.substr(0, pair);
  }
  parse_code(code, inst, line.mnemonic);
  return true;
}

std::unique_ptr<Listing> read_listing(std::string_view text, const ArchTraits& arch) {
  auto listing = std::make_unique<Listing>();
  std::vector<Branch> branches;
  listing->code.reserve(text.size() / 70);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view row = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (Label label; parse_label(row, label)) {
      listing->labels.push_back(std::move(label));
      continue;
    }
    Inst inst;
    Line line;
    std::string second;
    if (row.empty() || !parse_line(row, inst, line, &second)) continue;
    bind(inst, line.mnemonic, arch);
    if (!second.empty()) {
      auto y = std::make_unique<Inst>();
      std::string mnemonic;
      parse_code(second, *y, mnemonic);
      y->text = second;
      y->address = inst.address;
      y->size = inst.size;
      bind(*y, mnemonic, arch);
      bind_dual(inst, *y);
      listing->seconds.push_back(std::move(y));
    }
    if (is_relative_branch(line.mnemonic))
      branches.push_back({listing->code.size(), inst.address + 4 + 4 * int64_t(int16_t(line.code[0] & 0xffff))});
    listing->code.push_back(std::move(inst));
  }
  connect(*listing, branches);
  return listing;
}

}  // namespace emu
