// The parser's parts: declarations of variables, and bodies of functions.
#pragma once

#include <memory>
#include <vector>

#include "lexer.hpp"
#include "syntax.hpp"

namespace ptx {

// One `{ ... }`. Names are looked up from the innermost scope outwards. Source: PTX ISA 9.1, 4.4 and 5.4.
struct Scope {
  std::map<std::string, const Register*> registers;
  std::map<std::string, const Variable*> variables;
  std::map<std::string, int64_t> labels;
  struct Use {  // a label that is not yet known
    size_t statement, operand;
    unsigned line;
  };
  std::vector<Use> uses;
  std::map<std::string, std::vector<std::string>> targets;  // of .branchtargets
};

// The variables of one declaration, after its space: `.align 4 .b8 a[4] = {1, 2, 3, 4}, b[2];`
std::vector<Variable> declared(Lexer& in, Space space);
// `.param` in the parentheses of an entry.
Variable parameter(Lexer& in);

class Body {
 public:
  Body(Lexer& in, const Module& module, Function& function) : in_(in), module_(module), function_(function) {}
  void parse();  // from the opening brace to the closing one

 private:
  void block();
  void statement();
  void declare_registers();
  void directive(const std::string& word);
  Operand operand();
  Operand address();
  Operand named(const std::string& name);
  Operand list(char closing);
  void close_scope();

  Lexer& in_;
  const Module& module_;
  Function& function_;
  std::vector<Scope> scopes_;
};

}  // namespace ptx
