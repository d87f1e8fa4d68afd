// Reads one call per line (name=value, separated by spaces), makes it with upstream's host code, and writes one JSON
// object per line.
//
// A tensor is DTYPE:ADDRESS:SIZES:STRIDES (comma-separated, strides in elements); an absent name is an omitted tensor.
#include <cxxabi.h>

#include <iostream>
#include <map>
#include <memory>

#include "flash_api.cpp"
#include "fields.h"
#include "host/record.h"

namespace {
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

Tensors fwd(const Call &c) {
    auto q = c.tensor("q");
    auto out = c.maybe("out"), slopes = c.maybe("alibi_slopes");
    return flash::mha_fwd(q, c.tensor("k"), c.tensor("v"), out, slopes, c.real("p_dropout"), c.real("softmax_scale"),
                          c.flag("is_causal"), c.integer("window_size_left"), c.integer("window_size_right"),
                          c.real("softcap"), c.flag("return_softmax"), std::nullopt);
}

Tensors varlen_fwd(const Call &c) {
    auto q = c.tensor("q");
    auto out = c.maybe("out"), seqused = c.maybe("seqused_k"), table = c.maybe("block_table"),
         slopes = c.maybe("alibi_slopes");
    auto leftpad = c.maybe<const at::Tensor>("leftpad_k");
    return flash::mha_varlen_fwd(q, c.tensor("k"), c.tensor("v"), out, c.tensor("cu_seqlens_q"),
                                 c.tensor("cu_seqlens_k"), seqused, leftpad, table, slopes, c.integer("max_seqlen_q"),
                                 c.integer("max_seqlen_k"), c.real("p_dropout"), c.real("softmax_scale"),
                                 c.flag("zero_tensors"), c.flag("is_causal"), c.integer("window_size_left"),
                                 c.integer("window_size_right"), c.real("softcap"), c.flag("return_softmax"),
                                 std::nullopt);
}

Tensors fwd_kvcache(const Call &c) {
    auto q = c.tensor("q");
    auto k = c.maybe<const at::Tensor>("k"), v = c.maybe<const at::Tensor>("v"),
         lengths = c.maybe<const at::Tensor>("seqlens_k"), cos = c.maybe<const at::Tensor>("rotary_cos"),
         sin = c.maybe<const at::Tensor>("rotary_sin"), index = c.maybe<const at::Tensor>("cache_batch_idx"),
         leftpad = c.maybe<const at::Tensor>("leftpad_k");
    auto table = c.maybe("block_table"), slopes = c.maybe("alibi_slopes"), out = c.maybe("out");
    return flash::mha_fwd_kvcache(q, c.tensor("kcache"), c.tensor("vcache"), k, v, lengths, cos, sin, index, leftpad,
                                  table, slopes, out, c.real("softmax_scale"), c.flag("is_causal"),
                                  c.integer("window_size_left"), c.integer("window_size_right"), c.real("softcap"),
                                  c.flag("is_rotary_interleaved"), c.integer("num_splits"));
}

Tensors bwd(const Call &c) {
    auto dq = c.maybe("dq"), dk = c.maybe("dk"), dv = c.maybe("dv"), slopes = c.maybe("alibi_slopes"),
         rng = c.maybe("rng_state");
    return flash::mha_bwd(c.tensor("dout"), c.tensor("q"), c.tensor("k"), c.tensor("v"), c.tensor("out"),
                          c.tensor("softmax_lse"), dq, dk, dv, slopes, c.real("p_dropout"), c.real("softmax_scale"),
                          c.flag("is_causal"), c.integer("window_size_left"), c.integer("window_size_right"),
                          c.real("softcap"), c.flag("deterministic"), std::nullopt, rng);
}

Tensors varlen_bwd(const Call &c) {
    auto dq = c.maybe("dq"), dk = c.maybe("dk"), dv = c.maybe("dv"), slopes = c.maybe("alibi_slopes"),
         rng = c.maybe("rng_state");
    return flash::mha_varlen_bwd(c.tensor("dout"), c.tensor("q"), c.tensor("k"), c.tensor("v"), c.tensor("out"),
                                 c.tensor("softmax_lse"), dq, dk, dv, c.tensor("cu_seqlens_q"),
                                 c.tensor("cu_seqlens_k"), slopes, c.integer("max_seqlen_q"),
                                 c.integer("max_seqlen_k"), c.real("p_dropout"), c.real("softmax_scale"),
                                 c.flag("zero_tensors"), c.flag("is_causal"), c.integer("window_size_left"),
                                 c.integer("window_size_right"), c.real("softcap"), c.flag("deterministic"),
                                 std::nullopt, rng);
}

template <typename Items, typename Each>
std::string list(const Items &items, Each each) {
    std::string out;
    for (const auto &item : items) out += (out.empty() ? "" : ", ") + each(item);
    return "[" + out + "]";
}

std::string number(auto value) { return std::to_string(value); }

std::string hex(const std::vector<unsigned char> &bytes) {
    static const char digits[] = "0123456789abcdef";
    std::string out;
    for (auto byte : bytes) out += {digits[byte >> 4], digits[byte & 15]};
    return host::quoted(out);
}

std::string json(const host::Launch &l) {
    return host::text_of("{\"kernel\": ", host::quoted(l.kernel), ", \"grid\": ", list(l.grid, number<unsigned>),
                         ", \"block\": ", list(l.block, number<unsigned>), ", \"smem\": ", l.shared,
                         ", \"smem_allowed\": ", l.shared_allowed, ", \"splits\": ", l.splits,
                         ", \"params\": ", hex(l.params), "}");
}

std::string json(const at::Tensor &t) {
    return host::text_of("{\"address\": ", t.address, ", \"sizes\": ", list(t.lengths, number<int64_t>),
                         ", \"strides\": ", list(t.steps, number<int64_t>), "}");
}

template <typename Params>
std::string layout(const char *) {
    std::string out;
#define FIELD(NAME)                                                                                        \
    out += host::text_of(out.empty() ? "" : ", ", "[\"" #NAME "\", ", offsetof(Params, NAME), ", ", \
                         sizeof(Params::NAME), "]");
    FORWARD_FIELDS(FIELD)
    if constexpr (std::is_same_v<Params, flash::Flash_bwd_params>) {
        BACKWARD_FIELDS(FIELD)
    }
#undef FIELD
    return host::text_of("{\"bytes\": ", sizeof(Params), ", \"fields\": [", out, "]}");
}

std::string answer(const Call &c) {
    static const std::map<std::string, Tensors (*)(const Call &)> apis{
        {"mha_fwd", fwd}, {"mha_varlen_fwd", varlen_fwd}, {"mha_fwd_kvcache", fwd_kvcache}, {"mha_bwd", bwd},
        {"mha_varlen_bwd", varlen_bwd},
    };
    const auto what = c.text("call");
    if (what == "num_splits_heuristic")
        return number(flash::num_splits_heuristic(c.integer("blocks"), c.integer("multiprocessors"),
                                                  c.integer("key_blocks"), c.integer("most")));
    if (what == "demangle") {
        int status = 0;
        std::unique_ptr<char, void (*)(void *)> found(
            abi::__cxa_demangle(c.text("symbol").c_str(), nullptr, nullptr, &status), free);
        return host::quoted(status == 0 ? found.get() : "");
    }
    if (what == "layout")
        return host::text_of("{\"forward\": ", layout<flash::Flash_fwd_params>(""), ", \"backward\": ",
                             layout<flash::Flash_bwd_params>(""), "}");
    auto &record = host::record();
    record = {};
    record.device = {c.integer("major"), c.integer("minor"), c.integer("multiprocessors"),
                     c.integer("shared_per_multiprocessor"), c.integer("shared_per_block")};
    record.seed = std::stoull(c.text("seed"));
    record.offset = std::stoull(c.text("offset"));
    Tensors returned;
    std::string refused;
    try {
        returned = apis.at(what)(c);
    } catch (const std::runtime_error &fault) {
        refused = fault.what();
    }
    return host::text_of("{\"refused\": ", host::quoted(refused), ", \"launches\": ",
                         list(record.launches, [](const auto &l) { return json(l); }), ", \"allocations\": ",
                         list(record.allocations, [](const auto &text) { return text; }), ", \"events\": ",
                         list(record.events, host::quoted), ", \"returned\": ",
                         list(returned, [](const auto &t) { return json(t); }), "}");
}
}  // namespace

int main() {
    std::ios::sync_with_stdio(false);
    for (std::string line; std::getline(std::cin, line);) std::cout << answer(Call(line)) << '\n';
}
