// Modules: directives, variables, and functions. Source: PTX ISA 9.1, 4.2 and 11.
#include "parse.hpp"

#include <cstdlib>

namespace ptx {

namespace {

void add(Module& module, std::vector<Variable> variables, bool external) {
  for (Variable& v : variables) {
    if (module.names.count(v.name)) continue;
    if (external && v.space != Space::Shared) throw Unusable{"the variable " + v.name + " is defined nowhere"};
    module.variables.push_back(std::move(v));
    module.names[module.variables.back().name] = &module.variables.back();
  }
}

// Parameters are aligned in the constant bank, where they begin behind the driver's own values; their offsets count from
// there. Source: EIATTR_PARAM_CBANK in cubins of CUDA 13.0.
uint64_t parameter_base(const std::string& target) {
  const int arch = target.rfind("sm_", 0) == 0 ? std::atoi(target.c_str() + 3) : 0;
  return arch >= 100 ? 0x380 : arch >= 90 ? 0x210 : 0x160;
}

void place_parameters(Function& f, uint64_t base) {
  for (Variable& p : f.parameters) {
    p.address = (base + f.parameter_bytes + p.align - 1) / p.align * p.align - base;
    f.parameter_bytes = p.address + p.bytes;
  }
}

void bounds(Lexer& in, uint32_t (&out)[3]) {
  for (unsigned k = 0; k < 3; ++k) out[k] = 1;
  for (unsigned k = 0; k < 3; ++k) {
    out[k] = uint32_t(in.integer());
    if (!in.take(',')) return;
  }
}

void function(Lexer& in, Module& module, bool entry) {
  Function f;
  f.entry = entry;
  if (!entry && in.take('(')) {  // what it returns counts as its first parameter
    if (in.peek() == '.' && in.take_word(".reg")) in.fail("a function that returns a .reg");
    f.parameters.push_back(parameter(in));
    in.expect(')');
  }
  f.name = in.name();
  if (in.take('(')) {
    while (!in.take(')')) {
      if (in.peek() == '.' && in.take_word(".reg")) in.fail("a function with .reg parameters");
      f.parameters.push_back(parameter(in));
      in.take(',');
    }
  }
  place_parameters(f, parameter_base(module.target));
  while (in.peek() == '.') {
    const std::string word = in.word();
    uint32_t three[3];
    if (word == ".reqntid") bounds(in, f.required);
    else if (word == ".maxntid") bounds(in, three), f.max_threads = three[0] * three[1] * three[2];
    else if (word == ".maxnreg") f.max_registers = uint32_t(in.integer());
    else if (word == ".minnctapersm" || word == ".maxnctapersm" || word == ".maxclusterrank") in.integer();
    else if (word == ".reqnctapercluster") bounds(in, f.cluster);
    else if (word == ".noreturn" || word == ".explicitcluster") continue;
    else if (word == ".pragma") {
      in.rest_of_line_until(';');
      in.expect(';');
    } else throw Unusable{"the directive " + word + " of " + f.name + " is not implemented", in.line()};
  }
  if (in.take(';')) return;  // a prototype
  module.functions.push_back(std::move(f));
  if (entry) return Body(in, module, module.functions.back()).parse();
  for (Variable& p : module.functions.back().parameters) p.space = Space::Local;
  const Lexer before = in;
  try {
    Body(in, module, module.functions.back()).parse();
  } catch (const Unusable&) {  // it may never be called; a call of it stops the kernel
    module.functions.pop_back();
    in = before;
    in.skip_braces();
  }
}

}  // namespace

std::unique_ptr<Module> parse(std::string text) {
  auto module = std::make_unique<Module>();
  module->text = std::move(text);
  Lexer in(module->text);
  bool external = false;
  while (!in.done()) {
    if (in.take(';')) continue;
    const std::string word = in.word();
    if (word == ".version") module->version = std::to_string(in.integer_part()), in.rest_of_line();
    else if (word == ".target") module->target = in.name(), in.rest_of_line();
    else if (word == ".address_size") {
      if (in.integer() != 64) in.fail("addresses have 64 bits");
    } else if (word == ".file" || word == ".loc") in.rest_of_line();
    else if (word == ".pragma" || word == ".alias") in.rest_of_line_until(';');
    else if (word == ".section") in.word(), in.skip_braces();
    else if (word == ".extern") external = true;
    else if (word == ".visible" || word == ".weak" || word == ".common") continue;
    else if (word == ".entry" || word == ".func") function(in, *module, word == ".entry"), external = false;
    else if (word == ".global" || word == ".const" || word == ".shared") {
      const Space space = word == ".global" ? Space::Global : word == ".const" ? Space::Const : Space::Shared;
      add(*module, declared(in, space), external);
      in.expect(';');
      external = false;
    } else in.fail(word.empty() ? "expected a directive" : word + " is not known outside of functions");
  }
  if (module->version.empty()) throw Unusable{"no .version: not a PTX text", 1};
  return module;
}

}  // namespace ptx
