#include "program.hpp"

#include <cstring>

#include "binding.hpp"
#include "contract.hpp"
#include "inline.hpp"
#include "memory.hpp"

namespace ptx {

namespace {

void decode(Kernel& kernel, const Function& f) {
  kernel.name = f.name, kernel.function = &f;
  kernel.parameter_bytes = uint32_t(f.parameter_bytes);
  Layout layout(kernel);
  kernel.code.resize(f.statements.size() + 1);
  for (size_t k = 0; k < f.statements.size(); ++k) {
    const Statement& s = f.statements[k];
    Inst& out = kernel.code[k];
    out.at = &s;
    Binding b{kernel, layout, s, out, std::vector<bool>(s.mods.size()), {}, {}};
    const auto failed = [&](const std::string& why) {
      return Unusable{"line " + std::to_string(s.line) + ": " + std::string(s.text) + " in " + f.name + ": " + why, s.line};
    };
    try {
      const Opcode* row = opcode_named(s.root);
      if (!row) b.refuse(s.root + " is not implemented");
      out.cls = row->cls;
      out.run = row->bind(b);
      if (!out.run) b.refuse(s.opcode + " is not implemented for its type");
      for (size_t m = 0; m < s.mods.size(); ++m)
        if (!b.used[m]) b.refuse("." + s.mods[m] + " of " + s.root + " is not implemented");
      if (s.guard) out.guarded = true, out.negated = s.negated, out.guard = layout.reg(*s.guard);
    } catch (const Unusable& fault) {
      throw failed(fault.why);
    }
    out.dests = uint8_t(b.dests.size()), out.sources = uint8_t(b.sources.size());
    for (const std::vector<Slot>* some : {&b.dests, &b.sources}) kernel.slots.insert(kernel.slots.end(), some->begin(), some->end());
  }
  static const Statement leave{0, "ret;", nullptr, false, "ret", "ret", {}, {}};
  Inst& last = kernel.code.back();
  last.at = &leave;
  Binding b{kernel, layout, leave, last, {}, {}, {}};
  last.cls = Class::Branch;
  last.run = opcode_named("ret")->bind(b);
  const Slot* slots = kernel.slots.data();
  for (Inst& i : kernel.code) i.slots = slots, slots += i.dests + i.sources;
  find_certain(kernel);
  share_rows(kernel);
  find_runs(kernel);
  layout.finish();
}

void give_addresses(Program& p) {
  for (Variable& v : p.module->variables) {
    if (v.space == Space::Shared) continue;
    std::vector<uint8_t>& room = p.storage.emplace_back(v.bytes + v.align + 16, 0);
    const uint64_t start = (reinterpret_cast<uint64_t>(room.data()) + v.align - 1) / v.align * v.align;
    v.address = start;
    std::memcpy(reinterpret_cast<void*>(start), v.values.data(), v.values.size());
    memory().allocated(start, v.bytes, "the variable " + v.name, v.space == Space::Global);
  }
  for (Variable& v : p.module->variables)
    for (const Variable::Pointer& to : v.pointers) {
      const auto found = p.module->names.find(to.to);
      if (found == p.module->names.end()) throw Unusable{"the values of " + v.name + " name " + to.to + ", which is not a variable"};
      const uint64_t value = found->second->address + to.offset;
      std::memcpy(reinterpret_cast<void*>(v.address + to.at), &value, to.bytes);
    }
}

}  // namespace

Program::~Program() {
  if (!module) return;
  for (const Variable& v : module->variables)
    if (v.address && v.space != Space::Shared) memory().freed(v.address);
}

std::unique_ptr<Program> load(std::string text, bool hardware) {
  auto out = std::make_unique<Program>();
  try {
    out->module = parse(std::move(text));
  } catch (const Unusable& fault) {
    throw Unusable{fault.line ? "line " + std::to_string(fault.line) + ": " + fault.why : fault.why, fault.line};
  }
  give_addresses(*out);
  inline_calls(*out->module);
  if (hardware) contract(*out->module);
  for (const Function& f : out->module->functions)
    if (f.entry) decode(out->kernels.emplace_back(), f);
  return out;
}

}  // namespace ptx
