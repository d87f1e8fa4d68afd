// One call per line (name=value, separated by spaces), and its effects as one JSON object per line.
//
// A tensor is DTYPE:ADDRESS:SIZES:STRIDES (comma-separated, strides in elements); an absent name is an omitted tensor.
#pragma once
#include <iostream>
#include <map>

#include "host/record.h"
#include "host/tensor.h"

namespace host {
struct Call {
    std::map<std::string, std::string> values;

    explicit Call(const std::string &line) {
        std::istringstream words(line);
        for (std::string word; words >> word;) {
            const auto mark = word.find('=');
            values[word.substr(0, mark)] = word.substr(mark + 1);
        }
    }

    std::string text(const std::string &name) const {
        const auto found = values.find(name);
        if (found == values.end()) throw std::invalid_argument("the call lacks " + name);
        return found->second;
    }
    int integer(const std::string &name) const { return std::stoi(text(name)); }
    bool flag(const std::string &name) const { return integer(name) != 0; }
    float real(const std::string &name) const { return std::stof(text(name)); }

    template <typename T = at::Tensor>
    std::optional<T> maybe(const std::string &name) const {
        if (!values.contains(name)) return std::nullopt;
        return tensor(name);
    }
    at::Tensor tensor(const std::string &name) const {
        static const std::map<std::string, at::ScalarType> types{
            {"fp16", at::ScalarType::Half},  {"bf16", at::ScalarType::BFloat16}, {"fp32", at::ScalarType::Float},
            {"int32", at::ScalarType::Int}, {"int64", at::ScalarType::Long},
        };
        std::istringstream parts(text(name));
        std::string type, address, sizes, strides;
        std::getline(parts, type, ':');
        std::getline(parts, address, ':');
        std::getline(parts, sizes, ':');
        std::getline(parts, strides, ':');
        return {numbers(sizes), numbers(strides), types.at(type), std::stoull(address)};
    }
    static std::vector<int64_t> numbers(const std::string &text) {
        std::vector<int64_t> out;
        std::istringstream parts(text);
        for (std::string part; std::getline(parts, part, ',');) out.push_back(std::stoll(part));
        return out;
    }
};

using Tensors = std::vector<at::Tensor>;

template <typename Items, typename Each>
std::string list(const Items &items, Each each) {
    std::string out;
    for (const auto &item : items) out += (out.empty() ? "" : ", ") + each(item);
    return "[" + out + "]";
}

std::string number(auto value) { return std::to_string(value); }

inline std::string hex(const std::vector<unsigned char> &bytes) {
    static const char digits[] = "0123456789abcdef";
    std::string out;
    for (auto byte : bytes) out += {digits[byte >> 4], digits[byte & 15]};
    return host::quoted(out);
}

inline std::string json(const Launch &l) {
    return text_of("{\"kernel\": ", host::quoted(l.kernel), ", \"grid\": ", list(l.grid, number<unsigned>),
                   ", \"block\": ", list(l.block, number<unsigned>), ", \"smem\": ", l.shared,
                   ", \"smem_allowed\": ", l.shared_allowed, ", \"splits\": ", l.splits,
                   ", \"params\": ", hex(l.params), "}");
}

inline std::string json(const at::Tensor &t) {
    return text_of("{\"address\": ", t.address, ", \"sizes\": ", list(t.lengths, number<int64_t>),
                   ", \"strides\": ", list(t.steps, number<int64_t>), "}");
}

// What one call did: the refusal of a failed check, launches, allocations, events, returned tensors.
template <typename Api>
std::string effects(const Call &call, Api api) {
    auto &found = record();
    found = {};
    found.device = {call.integer("major"), call.integer("minor"), call.integer("multiprocessors"),
                    call.integer("shared_per_multiprocessor"), call.integer("shared_per_block")};
    found.seed = std::stoull(call.text("seed"));
    found.offset = std::stoull(call.text("offset"));
    Tensors returned;
    std::string refused;
    try {
        returned = api(call);
    } catch (const std::runtime_error &fault) {
        refused = fault.what();
    }
    return text_of("{\"refused\": ", host::quoted(refused), ", \"launches\": ",
                   list(found.launches, [](const auto &l) { return json(l); }), ", \"allocations\": ",
                   list(found.allocations, [](const auto &text) { return text; }), ", \"events\": ",
                   list(found.events, quoted), ", \"returned\": ",
                   list(returned, [](const auto &t) { return json(t); }), "}");
}
}  // namespace host
