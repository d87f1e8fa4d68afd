// Bodies of functions: declarations, labels, and statements with resolved names.
#include <cctype>
#include <cstring>

#include "parse.hpp"

namespace ptx {

namespace {
const char* const specials[] = {
    "%tid.x", "%tid.y", "%tid.z", "%ntid.x", "%ntid.y", "%ntid.z", "%ctaid.x", "%ctaid.y", "%ctaid.z", "%nctaid.x",
    "%nctaid.y", "%nctaid.z", "%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid", "%lanemask_eq", "%lanemask_le",
    "%lanemask_lt", "%lanemask_ge", "%lanemask_gt", "%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo",
    "%globaltimer_hi", "%clusterid.x", "%clusterid.y", "%clusterid.z", "%nclusterid.x", "%nclusterid.y", "%nclusterid.z",
    "%cluster_ctaid.x", "%cluster_ctaid.y", "%cluster_ctaid.z", "%cluster_nctaid.x", "%cluster_nctaid.y", "%cluster_nctaid.z",
    "%cluster_ctarank", "%cluster_nctarank", "%dynamic_smem_size", "%total_smem_size"};

bool special(const std::string& name) {
  for (const char* one : specials)
    if (name == one) return true;
  return false;
}
}  // namespace

void Body::parse() {
  in_.expect('{');
  block();
  in_.expect('}');
}

void Body::block() {
  scopes_.emplace_back();
  while (in_.peek() != '}') {
    if (in_.done()) in_.fail("the body of " + function_.name + " is never closed");
    if (in_.take('{')) {
      block();
      in_.expect('}');
    } else statement();
  }
  close_scope();
}

// Labels that this scope declares are resolved; other uses wait for the scope outside.
void Body::close_scope() {
  Scope scope = std::move(scopes_.back());
  scopes_.pop_back();
  for (const auto& [name, labels] : scope.targets) {
    std::vector<int64_t> out;
    for (const std::string& label : labels) {
      const auto found = scope.labels.find(label);
      if (found == scope.labels.end()) in_.fail("no label " + label + " for " + name);
      out.push_back(found->second);
    }
    function_.targets[name] = out;
  }
  for (const Scope::Use& use : scope.uses) {
    Operand& it = function_.statements[use.statement].operands[use.operand];
    const auto found = scope.labels.find(it.name);
    if (found != scope.labels.end()) it.value = found->second;
    else if (!scopes_.empty()) scopes_.back().uses.push_back(use);
    else throw Unusable{"no label or name " + it.name, use.line};
  }
}

void Body::statement() {
  if (in_.peek() == '.') return directive(in_.word());
  Statement out;
  const char* start = in_.here();
  out.line = in_.line();
  if (in_.take('@')) {
    out.negated = in_.take('!');
    const Operand guard = named(in_.name());
    if (guard.kind != Operand::Reg || guard.reg->type != Type::Pred) in_.fail("a guard is a predicate");
    out.guard = guard.reg;
  }
  out.opcode = in_.opcode();
  if (!out.guard && in_.take(':')) {
    if (in_.peek() != '.') {
      scopes_.back().labels[out.opcode] = int64_t(function_.statements.size());
      return;
    }
    const std::string kind = in_.word();
    if (kind == ".branchtargets") {
      do scopes_.back().targets[out.opcode].push_back(in_.name());
      while (in_.take(','));
      in_.expect(';');
    } else if (kind == ".callprototype" || kind == ".calltargets") {
      while (!in_.take(';')) in_.take('(') || in_.take(')') || in_.take(',') || in_.take('[') || in_.take(']') ||
                             (in_.at_number() ? in_.integer(), true : in_.word().size() || (in_.fail("a prototype"), true));
    } else {
      scopes_.back().labels[out.opcode] = int64_t(function_.statements.size());
      directive(kind);
    }
    return;
  }
  size_t from = 0;
  for (size_t dot; (dot = out.opcode.find('.', from)) != std::string::npos; from = dot + 1)
    from == 0 ? void(out.root = out.opcode.substr(0, dot)) : out.mods.push_back(out.opcode.substr(from, dot - from));
  if (from == 0) out.root = out.opcode;
  else out.mods.push_back(out.opcode.substr(from));
  if (in_.peek() != ';') {
    do out.operands.push_back(operand());
    while (in_.take(','));
  }
  in_.expect(';');
  out.text = std::string_view(start, size_t(in_.position() - start));
  const bool names = out.root == "call" || out.root == "brx";
  for (size_t k = 0; k < out.operands.size(); ++k) {
    if (out.operands[k].kind != Operand::Label) continue;
    if (names) out.operands[k].kind = Operand::Name;
    else scopes_.back().uses.push_back({function_.statements.size(), k, out.line});
  }
  function_.statements.push_back(std::move(out));
}

void Body::directive(const std::string& word) {
  if (word == ".reg") return declare_registers();
  if (word == ".loc" || word == ".file") return in_.rest_of_line();
  if (word == ".pragma") {
    while (in_.peek() != ';') in_.rest_of_line_until(';');
    return in_.expect(';');
  }
  const Space space = word == ".shared" ? Space::Shared : word == ".local" ? Space::Local : Space::Param;
  if (space == Space::Param && word != ".param") in_.fail(word + " is not known in the body of a function");
  for (Variable& v : declared(in_, space)) {
    if (space == Space::Param) v.space = Space::Local;  // what a call gives and returns: each lane has its own
    function_.variables.push_back(std::move(v));
    scopes_.back().variables[function_.variables.back().name] = &function_.variables.back();
  }
  in_.expect(';');
}

void Body::declare_registers() {
  if (in_.peek() != '.') in_.fail("expected a type");
  const Type type = type_named(in_.word().substr(1));
  if (type == Type::None) in_.fail("no type of registers");
  do {
    const std::string name = in_.name();
    uint64_t count = 0;
    const bool several = in_.take('<');
    if (several) {
      count = in_.integer();
      in_.expect('>');
    }
    for (uint64_t k = 0; k < (several ? count : 1); ++k) {
      function_.registers.push_back({several ? name + std::to_string(k) : name, type});
      scopes_.back().registers[function_.registers.back().name] = &function_.registers.back();
    }
  } while (in_.take(','));
  in_.expect(';');
}

Operand Body::list(char closing) {
  Operand out;
  out.kind = Operand::Vector;
  while (!in_.take(closing)) {
    out.parts.push_back(operand());
    in_.take(',');
  }
  return out;
}

Operand Body::operand() {
  if (in_.take('{')) return list('}');
  if (in_.take('(')) return list(')');
  if (in_.take('[')) return address();
  Operand out;
  if (in_.take('!')) {
    out = named(in_.name());
    out.negated = true;
    return out;
  }
  if (in_.at_number()) {
    const Number n = in_.number();
    out.kind = n.real ? Operand::Float : Operand::Integer;
    out.value = int64_t(n.bits), out.bits = n.bits, out.single = n.single;
    return out;
  }
  std::string name = in_.name();
  if (name == "_") {
    if (!in_.take('|')) return out;
    Operand pair;
    pair.kind = Operand::Vector;
    pair.parts = {out, operand()};
    return pair;
  }
  if (in_.peek() == '.' && name[0] == '%') name += in_.word();
  out = named(name);
  if (in_.take('|')) {
    Operand pair;
    pair.kind = Operand::Vector;
    pair.parts = {out, operand()};
    return pair;
  }
  if (out.kind == Operand::Symbol && (in_.peek() == '+' || in_.peek() == '-')) out.value = int64_t(in_.integer());
  return out;
}

Operand Body::address() {
  Operand out;
  if (in_.at_number()) out.value = int64_t(in_.integer());
  else {
    const Operand base = named(in_.name());
    if (base.kind != Operand::Reg && base.kind != Operand::Symbol) in_.fail("no register or variable " + base.name);
    out.reg = base.reg, out.variable = base.variable;
    if (in_.at_number()) out.value = int64_t(in_.integer());
  }
  while (in_.take(',')) out.parts.push_back(operand());
  in_.expect(']');
  out.kind = Operand::Address;
  return out;
}

Operand Body::named(const std::string& name) {
  Operand out;
  out.name = name;
  for (size_t k = scopes_.size(); k-- > 0;) {
    const auto reg = scopes_[k].registers.find(name);
    if (reg != scopes_[k].registers.end()) return out.kind = Operand::Reg, out.reg = reg->second, out;
    const auto variable = scopes_[k].variables.find(name);
    if (variable != scopes_[k].variables.end()) return out.kind = Operand::Symbol, out.variable = variable->second, out;
  }
  for (const Variable& p : function_.parameters)
    if (p.name == name) return out.kind = Operand::Symbol, out.variable = &p, out;
  const auto global = module_.names.find(name);
  if (global != module_.names.end()) return out.kind = Operand::Symbol, out.variable = global->second, out;
  if (special(name)) return out.kind = Operand::Special, out;
  if (name == "WARP_SZ") return out.kind = Operand::Integer, out.value = 32, out.bits = 32, out;
  if (name[0] == '%') in_.fail("no register " + name);
  return out.kind = Operand::Label, out;
}

}  // namespace ptx
