#include "contract.hpp"

#include <set>

namespace ptx {

namespace {

// Of f32, without a rounding, a saturation or a guard.
bool is_free(const Statement& s) {
  return !s.guard && s.operands.size() == 3 && (s.mods == std::vector<std::string>{"f32"} || s.mods == std::vector<std::string>{"ftz", "f32"});
}

template <class F> void each_register(const Operand& o, F f) {
  if (o.reg) f(o.reg);
  for (const Operand& part : o.parts) each_register(part, f);
}

// The statements that something jumps to, and those behind a jump.
std::set<size_t> beginnings(const Function& f) {
  std::set<size_t> out;
  for (const auto& [name, list] : f.targets)
    for (const int64_t at : list) out.insert(size_t(at));
  for (size_t k = 0; k < f.statements.size(); ++k)
    for (const Operand& o : f.statements[k].operands)
      if (o.kind == Operand::Label) out.insert(size_t(o.value)), out.insert(k + 1);
  return out;
}

// How often each register is named, by what writes it too: a product has two names if nothing else reads it.
std::map<const Register*, unsigned> names_in(const Function& f) {
  std::map<const Register*, unsigned> out;
  for (const Statement& s : f.statements) {
    if (s.guard) ++out[s.guard];
    for (const Operand& o : s.operands) each_register(o, [&](const Register* r) { ++out[r]; });
  }
  return out;
}

bool reads(const Statement& product, const Register* r) { return product.operands[1].reg == r || product.operands[2].reg == r; }

void join(Statement& sum, const Statement& product, size_t place) {
  const Operand addend = sum.operands[3 - place];
  const bool minus = sum.root == "sub";
  sum.root = "fma";
  sum.operands = {sum.operands[0], product.operands[1], product.operands[2], addend};
  sum.mods.insert(sum.mods.begin(), "rn");
  if (minus) sum.mods.push_back(place == 1 ? kMinusAddend : kMinusProduct);
}

void contract(Function& f) {
  const auto names = names_in(f);
  const auto starts = beginnings(f);
  std::map<const Register*, size_t> products;  // of this straight line, whose factors still hold what was multiplied
  for (size_t k = 0; k < f.statements.size(); ++k) {
    if (starts.count(k)) products.clear();
    Statement& s = f.statements[k];
    const bool sum = (s.root == "add" || s.root == "sub") && is_free(s);
    for (const size_t place : {size_t(1), size_t(2)}) {
      if (!sum || s.root == "fma" || s.operands[place].kind != Operand::Reg) continue;
      const auto found = products.find(s.operands[place].reg);
      if (found == products.end() || names.at(found->first) != 2 || f.statements[found->second].mods != s.mods) continue;
      join(s, f.statements[found->second], place);
    }
    if (s.operands.empty()) continue;
    each_register(s.operands[0], [&](const Register* r) {  // what a statement writes stands first
      products.erase(r);
      for (auto p = products.begin(); p != products.end();) p = reads(f.statements[p->second], r) ? products.erase(p) : std::next(p);
    });
    if (s.root == "mul" && is_free(s) && !reads(s, s.operands[0].reg)) products[s.operands[0].reg] = k;
  }
}

}  // namespace

void contract(Module& module) {
  for (Function& f : module.functions)
    if (f.entry) contract(f);
}

}  // namespace ptx
