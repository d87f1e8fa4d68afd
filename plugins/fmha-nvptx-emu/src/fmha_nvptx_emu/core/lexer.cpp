#include "lexer.hpp"

#include <cctype>
#include <cstdlib>
#include <cstring>

namespace ptx {

namespace {
bool begins(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%'; }
bool continues(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$'; }
}  // namespace

void Lexer::skip() {
  while (at_ != end_) {
    const char c = *at_;
    if (c == '\n') ++line_, ++at_;
    else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\0') ++at_;
    else if (c == '/' && at_ + 1 != end_ && at_[1] == '/') {
      while (at_ != end_ && *at_ != '\n') ++at_;
    } else if (c == '/' && at_ + 1 != end_ && at_[1] == '*') {
      at_ += 2;
      while (at_ + 1 < end_ && !(at_[0] == '*' && at_[1] == '/')) line_ += *at_ == '\n', ++at_;
      at_ = at_ + 2 < end_ ? at_ + 2 : end_;
    } else break;
  }
}

bool Lexer::take(char c) {
  if (peek() != c || at_ == end_) return false;
  ++at_;
  return true;
}

void Lexer::expect(char c) {
  if (!take(c)) fail(std::string("expected '") + c + "' before '" + std::string(at_, at_ == end_ ? at_ : at_ + 1) + "'");
}

bool Lexer::take_word(const char* word) {
  skip();
  const size_t n = std::strlen(word);
  if (size_t(end_ - at_) < n || std::memcmp(at_, word, n)) return false;
  if (at_ + n != end_ && continues(at_[n])) return false;
  at_ += n;
  return true;
}

std::string Lexer::word() {
  skip();
  const char* start = at_;
  if (at_ != end_ && (begins(*at_) || *at_ == '.')) {
    ++at_;
    while (at_ != end_ && continues(*at_)) ++at_;
  }
  return std::string(start, at_);
}

std::string Lexer::name() {
  skip();
  if (at_ == end_ || !begins(*at_)) fail("expected a name");
  return word();
}

std::string Lexer::opcode() {
  std::string out = name();
  while (at_ != end_ && (continues(*at_) || *at_ == '.' || (*at_ == ':' && at_ + 1 != end_ && (at_[1] == ':' || at_[-1] == ':'))))
    out += *at_++;
  return out;
}

bool Lexer::at_number() {
  const char c = peek();
  return std::isdigit(static_cast<unsigned char>(c)) || c == '-' || c == '~' || c == '+';
}

Number Lexer::simple_number() {
  skip();
  if (take('-')) {
    Number n = simple_number();
    if (n.real) n.bits ^= n.single ? uint64_t(1) << 31 : uint64_t(1) << 63;
    else n.bits = -n.bits;
    return n;
  }
  if (take('+')) return simple_number();
  if (take('~')) {
    Number n = simple_number();
    n.bits = ~n.bits;
    return n;
  }
  if (at_ == end_ || !std::isdigit(static_cast<unsigned char>(*at_))) fail("expected a number");
  Number out;
  const char* stop = at_ + 1;
  while (stop != end_ && (std::isalnum(static_cast<unsigned char>(*stop)) || *stop == '.' ||
                          ((*stop == '-' || *stop == '+') && (stop[-1] == 'e' || stop[-1] == 'E') && at_[1] != 'x')))
    ++stop;
  const std::string text(at_, stop);
  at_ = stop;
  const char kind = text.size() > 1 && text[0] == '0' ? char(std::tolower(text[1])) : ' ';
  char* rest = nullptr;
  if (kind == 'f' || kind == 'd') {
    out.real = true, out.single = kind == 'f';
    out.bits = std::strtoull(text.c_str() + 2, &rest, 16);
  } else if (kind == 'b') {
    out.bits = std::strtoull(text.c_str() + 2, &rest, 2);
  } else if (text.find('.') != std::string::npos || (kind != 'x' && text.find_first_of("eE") != std::string::npos)) {
    const double value = std::strtod(text.c_str(), &rest);
    out.real = true;
    std::memcpy(&out.bits, &value, 8);
  } else {
    out.bits = std::strtoull(text.c_str(), &rest, 0);
  }
  if (rest && (*rest == 'U' || *rest == 'u')) ++rest;
  if (rest && *rest) fail("no number: " + text);
  return out;
}

Number Lexer::number() {
  Number out = simple_number();
  while (!out.real && (peek() == '+' || peek() == '-')) {
    const bool minus = *at_++ == '-';
    const Number next = simple_number();
    out.bits += minus ? -next.bits : next.bits;
  }
  return out;
}

void Lexer::rest_of_line() {
  while (at_ != end_ && *at_ != '\n') ++at_;
}

void Lexer::rest_of_line_until(char c) {
  while (at_ != end_ && *at_ != '\n' && *at_ != c) ++at_;
  if (at_ != end_ && *at_ == '\n') ++line_, ++at_;
}

uint64_t Lexer::integer_part() {
  skip();
  char* rest = nullptr;
  return std::strtoull(at_, &rest, 10);
}

void Lexer::skip_braces() {
  expect('{');
  for (unsigned depth = 1; depth;) {
    const char c = peek();
    if (at_ == end_) fail("a '{' is never closed");
    depth += (c == '{') - (c == '}');
    if (c == '"') {
      for (++at_; at_ != end_ && *at_ != '"'; ++at_) at_ += *at_ == '\\';
      if (at_ == end_) fail("a string is never closed");
    }
    ++at_;
  }
}

}  // namespace ptx
