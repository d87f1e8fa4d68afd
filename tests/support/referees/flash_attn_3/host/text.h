#pragma once
#include <sstream>
#include <string>

template <typename... Parts>
std::string text_of(const Parts &...parts) {
    std::ostringstream out;
    (out << ... << parts);
    return out.str();
}
