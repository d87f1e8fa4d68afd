// Characters of a PTX text. Source: PTX ISA 9.1, 4.1 to 4.5.
#pragma once

#include <string>

#include "types.hpp"

namespace ptx {

struct Number {
  bool real = false, single = false;
  uint64_t bits = 0;  // two's complement, or the bits of the float or double
};

class Lexer {
 public:
  explicit Lexer(const std::string& text) : at_(text.data()), end_(text.data() + text.size()) {}

  void skip();  // spaces and comments
  bool done() { return skip(), at_ == end_; }
  char peek() { return skip(), at_ == end_ ? '\0' : *at_; }
  bool take(char c);             // consumes the character if it comes next
  void expect(char c);
  bool take_word(const char* word);  // a whole word or directive
  std::string word();            // identifier or .directive; empty if none comes next
  std::string opcode();          // "ld.global.L2::128B.b32"
  std::string name();            // identifier; raises if none comes next
  Number number();               // also negative and ~, and sums of integers
  uint64_t integer() { return number().bits; }
  bool at_number();
  void rest_of_line();
  void rest_of_line_until(char c);  // up to the character, or the end of the line
  uint64_t integer_part();        // of 9.0
  void skip_braces();            // a { ... } that is not read
  const char* here() { return skip(), at_; }
  const char* position() const { return at_; }
  unsigned line() const { return line_; }
  [[noreturn]] void fail(const std::string& why) const { throw Unusable{why, line_}; }

 private:
  Number simple_number();

  const char *at_, *end_;
  unsigned line_ = 1;
};

}  // namespace ptx
