// Variable declarations. Source: PTX ISA 9.1, 5.4; of a kernel's pointers (.ptr), 5.1.6.3.
#include <cstring>

#include "parse.hpp"

namespace ptx {

namespace {

void put(Variable& v, uint64_t at, uint64_t value, unsigned bytes) {
  if (v.values.size() < at + bytes) v.values.resize(at + bytes);
  std::memcpy(v.values.data() + at, &value, bytes);
}

void value(Lexer& in, Variable& v, Type type, uint64_t& at) {
  const unsigned bytes = bits_of(type) / 8;
  if (in.at_number()) {
    Number n = in.number();
    if (n.real && type == Type::F32 && !n.single) {
      double wide;
      std::memcpy(&wide, &n.bits, 8);
      const float narrow = float(wide);
      n.bits = 0;
      std::memcpy(&n.bits, &narrow, 4);
    }
    put(v, at, n.bits, bytes);
  } else {
    std::string name = in.name();
    if (name == "generic" && in.take('(')) {
      name = in.name();
      in.expect(')');
    }
    uint64_t offset = 0;
    if (in.peek() == '+' || in.peek() == '-') offset = in.integer();
    put(v, at, 0, bytes);
    v.pointers.push_back({at, offset, name, bytes});
  }
  at += bytes;
}

void values(Lexer& in, Variable& v, Type type, uint64_t& at) {
  if (!in.take('{')) return value(in, v, type, at);
  while (!in.take('}')) {
    values(in, v, type, at);
    in.take(',');
  }
}

}  // namespace

namespace {
std::vector<Variable> some(Lexer& in, Space space, bool several) {
  Variable form;
  form.space = space;
  Type type = Type::None;
  unsigned vector = 1;
  uint64_t align = 0;
  bool pointer = false;  // behind .ptr, .align is that of the memory pointed to
  while (in.peek() == '.') {
    const std::string word = in.word();
    if (word == ".align") {
      const uint64_t given = in.integer();
      if (!pointer) align = given;
    } else if (word == ".v2" || word == ".v4") vector = unsigned(word[2] - '0');
    else if (word == ".ptr") pointer = true;
    else if (word == ".global" || word == ".const" || word == ".shared" || word == ".local") continue;
    else if (word == ".attribute") {
      while (!in.take(')')) in.take('(') || in.take('.') || in.take(',') || (in.at_number() ? in.integer(), true : in.name().size());
    } else if ((type = type_named(word.substr(1))) == Type::None) in.fail(word + " is not a type of variables");
  }
  std::vector<Variable> out;
  do {
    Variable v = form;
    v.name = in.name();
    const uint64_t element = bits_of(type) / 8 * vector;
    uint64_t count = 1;
    while (in.take('[')) {
      if (in.take(']')) { count = 0; continue; }
      count *= in.integer();
      in.expect(']');
    }
    v.align = align ? align : element ? element : 1;
    if (in.take('=')) {
      uint64_t at = 0;
      values(in, v, type, at);
      if (count == 0) count = (at + element - 1) / (element ? element : 1);
    }
    v.bytes = element * count;
    if (v.values.size() > v.bytes) in.fail("more values than " + v.name + " has elements");
    v.dynamic = space == Space::Shared && count == 0;
    out.push_back(std::move(v));
  } while (several && in.take(','));
  return out;
}
}  // namespace

std::vector<Variable> declared(Lexer& in, Space space) { return some(in, space, true); }

Variable parameter(Lexer& in) {
  if (!in.take_word(".param")) in.fail("expected .param");
  return some(in, Space::Param, false).front();
}

}  // namespace ptx
