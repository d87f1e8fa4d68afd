// Decoded instructions as JSON, for people and tests.
#include <cstdio>
#include <map>

#include "arch_traits.hpp"
#include "capi.hpp"
#include "json.hpp"
#include "listing.hpp"

namespace emu {

namespace {

const char* const kKinds[] = {"none", "vgpr", "sgpr", "constant", "null", "scc", "vccz", "execz", "aperture", "off", "text"};

std::string hex(uint64_t value) {
  char out[24];
  std::snprintf(out, sizeof out, "\"0x%llx\"", static_cast<unsigned long long>(value));
  return out;
}

template <class Set> std::string numbers(const Set& set) {
  std::string out = "[";
  for (size_t k = 0; k < set.size(); ++k)
    if (set[k]) out += (out.size() > 1 ? "," : "") + std::to_string(k);
  return out + ']';
}

// Lists the members that differ from their defaults.
class Members {
 public:
  template <class T> void add(const char* name, T value, T usual) {
    if (value == usual) return;
    if (text_.size() > 1) text_ += ',';
    text_ += json_string(name) + ':' + std::to_string(static_cast<long long>(value));
  }
  std::string text() const { return text_ + '}'; }

 private:
  std::string text_ = "{";
};

std::string operand(const Operand& op) {
  std::string out = "{\"kind\":" + json_string(kKinds[int(op.kind)]);
  if (op.kind == Kind::Vgpr || op.kind == Kind::Sgpr) out += ",\"reg\":" + std::to_string(op.reg) + ",\"count\":" + std::to_string(op.count);
  if (op.kind == Kind::Constant || op.kind == Kind::Aperture) out += ",\"value\":" + hex(op.value);
  if (op.literal) out += ",\"literal\":true";
  if (op.neg) out += ",\"neg\":true";
  if (op.abs) out += ",\"abs\":true";
  if (op.sext) out += ",\"sext\":true";
  if (op.half) out += ",\"half\":" + std::to_string(op.half);
  return out + '}';
}

std::string modifiers(const Mods& m) {
  const Mods usual;
  Members out;
#define MEMBER(name) out.add(#name, int64_t(m.name), int64_t(usual.name))
  MEMBER(clamp), MEMBER(omod), MEMBER(op_sel), MEMBER(op_sel_hi), MEMBER(neg_lo), MEMBER(neg_hi), MEMBER(dpp_arg);
  MEMBER(dpp), MEMBER(row_mask), MEMBER(bank_mask), MEMBER(bound_ctrl), MEMBER(fi), MEMBER(sdwa), MEMBER(dst_sel);
  MEMBER(src0_sel), MEMBER(src1_sel), MEMBER(dst_unused), MEMBER(offset), MEMBER(offset0), MEMBER(offset1);
  MEMBER(offen), MEMBER(idxen), MEMBER(addr64), MEMBER(lds), MEMBER(gds), MEMBER(sc0), MEMBER(sc1), MEMBER(nt);
  MEMBER(glc), MEMBER(slc), MEMBER(dlc), MEMBER(tfe), MEMBER(th_return), MEMBER(cbsz), MEMBER(abid), MEMBER(blgp);
  MEMBER(matrix_a_fmt), MEMBER(matrix_b_fmt), MEMBER(bitop3), MEMBER(byte_sel), MEMBER(index_key);
#undef MEMBER
  return out.text();
}

std::string described(const Inst& i) {
  std::string out = "{\"address\":" + std::to_string(i.address) + ",\"size\":" + std::to_string(i.size) +
                    ",\"mnemonic\":" + json_string(i.mnemonic) + ",\"text\":" + json_string(i.text) +
                    ",\"entry\":" + (i.entry ? json_string(i.entry->name) : "null") + ",\"operands\":[";
  for (int k = 0; k < i.ops; ++k) out += (k ? "," : "") + operand(i.op[k]);
  out += "],\"words\":[";
  for (size_t k = 0; k < i.words.size(); ++k) out += (k ? "," : "") + json_string(i.words[k]);
  out += "],\"modifiers\":" + modifiers(i.mod) + ",\"dsts\":" + std::to_string(i.dsts) +
         ",\"plain\":" + (i.plain ? "true" : "false") + ",\"v_reads\":" + numbers(i.v_reads) +
         ",\"v_writes\":" + numbers(i.v_writes) + ",\"s_reads\":" + numbers(i.s_reads) +
         ",\"s_writes\":" + numbers(i.s_writes) + ",\"problem\":" + json_string(i.problem);
  if (i.target) out += ",\"target\":" + std::to_string(i.target->address);
  if (i.second) out += ",\"second\":" + described(*i.second);
  return out + '}';
}

size_t put(const std::string& text, char* out, size_t room) {
  if (text.size() < room) std::memcpy(out, text.c_str(), text.size() + 1);
  return text.size() + 1;
}

}  // namespace

}  // namespace emu

size_t emu_describe(const char* arch, const char* text, char* out, size_t room) {
  using namespace emu;
  const ArchTraits* which = arch_named(arch);
  if (!which) return put("[]", out, room);
  const auto listing = read_listing(text, *which);
  std::string all = "[";
  for (const Inst& inst : listing->code) all += (all.size() > 1 ? ",\n" : "") + described(inst);
  return put(all + ']', out, room);
}

size_t emu_unexecutable(const char* arch, const char* text, char* out, size_t room) {
  using namespace emu;
  const ArchTraits* which = arch_named(arch);
  if (!which) return put("{}", out, room);
  const auto listing = read_listing(text, *which);
  std::map<std::string, int> problems;
  for (const Inst& inst : listing->code)
    if (!inst.problem.empty()) ++problems[inst.mnemonic + (": " + inst.problem)];
  std::string all = "{\"instructions\":" + std::to_string(listing->code.size()) + ",\"problems\":{";
  bool first = true;
  for (const auto& [problem, count] : problems) {
    all += (first ? "" : ",") + json_string(problem) + ':' + std::to_string(count);
    first = false;
  }
  return put(all + "}}", out, room);
}
