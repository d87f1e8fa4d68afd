// Calls by copies of the called body: each has registers and local variables of its own, and the caller's .param variables
// in place of its parameters. So lanes that call different functions, or return early, are parts of a warp like all others.
// Source: PTX ISA 9.1, 7.1 and 9.7.12.5.
#include "inline.hpp"

namespace ptx {

namespace {

struct Frame {
  bool outermost;
  std::map<const Register*, const Register*> registers;
  std::map<const Variable*, const Variable*> variables;
};

class Inliner {
 public:
  Inliner(Module& module, Function& kernel) : module_(module), kernel_(kernel) {}
  void run() {
    bool calls = false;
    for (const Statement& s : kernel_.statements) calls |= s.root == "call";
    if (!calls) return;
    Frame frame{true, {}, {}};
    body(kernel_, frame, 0);
    kernel_.statements = std::move(out_);
  }

 private:
  struct Use {
    size_t statement, operand;
  };

  void body(const Function& from, Frame& frame, unsigned depth);
  bool call(const Statement& s, Frame& frame, unsigned depth);
  const Function* called(const Statement& s, std::vector<const Variable*>& given) const;
  void moved(Operand& o, Frame& frame);
  const Register* moved(const Register* r, Frame& frame);
  Statement jump(const Statement& at, int64_t to) const;

  Module& module_;
  Function& kernel_;
  std::vector<Statement> out_;
  std::map<const Variable*, const Variable*> shared_;  // of a function: one for all of its calls
  unsigned copies_ = 0;
};

const Register* Inliner::moved(const Register* r, Frame& frame) {
  if (!r || frame.outermost) return r;
  const Register*& to = frame.registers[r];
  if (!to) kernel_.registers.push_back(*r), to = &kernel_.registers.back();
  return to;
}

void Inliner::moved(Operand& o, Frame& frame) {
  o.reg = moved(o.reg, frame);
  const auto found = frame.variables.find(o.variable);
  if (found != frame.variables.end()) o.variable = found->second;
  for (Operand& part : o.parts) moved(part, frame);
}

Statement Inliner::jump(const Statement& at, int64_t to) const {
  Statement out = at;
  out.opcode = out.root = "bra";
  out.mods.clear();
  Operand label;
  label.kind = Operand::Label, label.value = to;
  out.operands = {label};
  return out;
}

void Inliner::body(const Function& from, Frame& frame, unsigned depth) {
  if (!frame.outermost)
    for (const Variable& v : from.variables) {
      const Variable*& to = v.space == Space::Shared ? shared_[&v] : frame.variables[&v];
      if (!to) kernel_.variables.push_back(v), to = &kernel_.variables.back();
      frame.variables[&v] = to;
    }
  const std::string copy = "#" + std::to_string(copies_++);
  std::vector<int64_t> places;
  std::vector<Use> labels;
  std::vector<size_t> returns;
  for (const Statement& old : from.statements) {
    places.push_back(int64_t(out_.size()));
    Statement s = old;
    s.guard = moved(s.guard, frame);
    for (Operand& o : s.operands) moved(o, frame);
    if (s.root == "call" && call(s, frame, depth)) continue;
    if (s.root == "ret" && !frame.outermost) {
      returns.push_back(out_.size());
      out_.push_back(jump(s, 0));
      continue;
    }
    for (size_t k = 0; k < s.operands.size(); ++k)
      if (s.operands[k].kind == Operand::Label) labels.push_back({out_.size(), k});
    if (s.root == "brx" && s.operands.size() == 2) s.operands[1].name += copy;
    out_.push_back(std::move(s));
  }
  places.push_back(int64_t(out_.size()));
  for (const Use& use : labels) {
    Operand& o = out_[use.statement].operands[use.operand];
    o.value = places[size_t(o.value)];
  }
  for (const size_t k : returns) out_[k].operands[0].value = places.back();
  const auto targets = from.targets;
  for (const auto& [name, list] : targets) {
    std::vector<int64_t>& to = kernel_.targets[name + copy];
    to.clear();
    for (const int64_t at : list) to.push_back(places[size_t(at)]);
  }
}

// The function, and what stands for its parameters, the returned value first. Null: the call cannot be replaced.
const Function* Inliner::called(const Statement& s, std::vector<const Variable*>& given) const {
  const Function* found = nullptr;
  for (const Operand& o : s.operands) {
    if (o.kind == Operand::Name && !found) {
      for (const Function& f : module_.functions)
        if (!f.entry && f.name == o.name) found = &f;
      if (!found) return nullptr;
    } else if (o.kind == Operand::Vector) {
      for (const Operand& part : o.parts) {
        if (part.kind != Operand::Symbol) return nullptr;
        given.push_back(part.variable);
      }
    } else return nullptr;
  }
  if (!found || given.size() != found->parameters.size()) return nullptr;
  for (size_t k = 0; k < given.size(); ++k)
    if (given[k]->space != Space::Local || given[k]->bytes < found->parameters[k].bytes) return nullptr;
  return found;
}

bool Inliner::call(const Statement& s, Frame&, unsigned depth) {
  std::vector<const Variable*> given;
  const Function* f = called(s, given);
  if (!f || depth >= kDeepestCall || out_.size() > kMostInlined) return false;
  Frame frame{false, {}, {}};
  for (size_t k = 0; k < given.size(); ++k) frame.variables[&f->parameters[k]] = given[k];
  const size_t skip = out_.size();
  if (s.guard) {  // the other lanes go on behind the call
    out_.push_back(jump(s, 0));
    out_.back().negated = !s.negated;
  }
  body(*f, frame, depth + 1);
  if (s.guard) out_[skip].operands[0].value = int64_t(out_.size());
  return true;
}

}  // namespace

void inline_calls(Module& module) {
  for (Function& f : module.functions)
    if (f.entry) Inliner(module, f).run();
}

}  // namespace ptx
