// Reads one call per line (name=value), makes it with upstream's host code, and writes one JSON object per line.
//
// api.inc is upstream's flash_api.cpp from set_params_fprop up to the last function; dispatch.inc is run_mha_fwd_ of
// flash_fwd_launch_template.h, whose run_flash_fwd is replaced by a record (choice.h). instance.cpp adds upstream's own.
#include "host/torch.h"

#include "host/plain.h"
#include "flash.h"
#include "static_switch.h"
#include "tile_size.h"
#include "heuristics.h"
#include "host/choice.h"
#include "dispatch.inc"
#include "host/gradients.h"

template <typename T, typename Tpartial, int kBlockK>
void run_mha_fwd_combine_(Flash_fwd_params &p, cudaStream_t, bool dependent) {
    chosen += text_of(", \"combine\": [\"", type_name<T>(), "\", ", kBlockK, ", ", p.num_splits, ", ",
                      p.cu_seqlens_q || p.seqused_q, "]") +
              launch_combine(p, type_name<T>(), kBlockK, dependent);
}
void prepare_varlen_num_blocks(Flash_fwd_params &, cudaStream_t, bool, int, int, bool) {}
#include "api.inc"

#include <iostream>
namespace {
struct Call {
    std::map<std::string, std::string> words;
    explicit Call(const std::string &line) {
        std::istringstream parts(line);
        for (std::string word; parts >> word;) words[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
    }
    std::optional<at::Tensor> tensor(const std::string &name) const {
        static const std::map<std::string, at::ScalarType> types{{"fp16", at::ScalarType::Half}, {"bf16", at::ScalarType::BFloat16},
            {"fp8_e4m3", at::ScalarType::Float8_e4m3fn}, {"fp32", at::ScalarType::Float}, {"int32", at::ScalarType::Int}};
        if (!words.count(name)) return std::nullopt;
        std::istringstream parts(words.at(name));
        std::string type, address, sizes, strides;
        for (auto *part : {&type, &address, &sizes, &strides}) std::getline(parts, *part, ':');
        return at::Tensor{numbers(sizes), numbers(strides), types.at(type), std::stoull(address)};
    }
    static std::vector<int64_t> numbers(const std::string &text) {
        std::vector<int64_t> out;
        std::istringstream parts(text);
        for (std::string part; std::getline(parts, part, ',');) out.push_back(std::stoll(part));
        return out;
    }
    double real(const std::string &name, double otherwise) const { return words.count(name) ? std::stod(words.at(name)) : otherwise; }
    std::optional<int64_t> integer(const std::string &name) const {
        return words.count(name) ? std::optional<int64_t>(std::stoll(words.at(name))) : std::nullopt;
    }
};

void forward(const Call &c) {
    auto scale = c.words.count("softmax_scale") ? std::optional<double>(c.real("softmax_scale", 0)) : std::nullopt;
    mha_fwd(*c.tensor("q"), *c.tensor("k"), *c.tensor("v"), c.tensor("k_new"), c.tensor("v_new"), c.tensor("q_v"),
            c.tensor("out"), c.tensor("cu_seqlens_q"), c.tensor("cu_seqlens_k"), c.tensor("cu_seqlens_k_new"),
            c.tensor("seqused_q"), c.tensor("seqused_k"), c.integer("max_seqlen_q"), c.integer("max_seqlen_k"),
            c.tensor("page_table"), c.tensor("kv_batch_idx"), c.tensor("leftpad_k"), c.tensor("rotary_cos"),
            c.tensor("rotary_sin"), c.tensor("seqlens_rotary"), c.tensor("q_descale"), c.tensor("k_descale"),
            c.tensor("v_descale"), scale, c.real("is_causal", 0) != 0, c.integer("window_size_left").value_or(-1),
            c.integer("window_size_right").value_or(-1), c.integer("attention_chunk").value_or(0), c.real("softcap", 0),
            c.real("is_rotary_interleaved", 0) != 0, std::nullopt, c.integer("num_splits").value_or(0), std::nullopt, 0);
}

void backward(const Call &c) {
    mha_bwd(*c.tensor("dout"), *c.tensor("q"), *c.tensor("k"), *c.tensor("v"), *c.tensor("out"), *c.tensor("softmax_lse"),
            c.tensor("dq"), c.tensor("dk"), c.tensor("dv"), c.tensor("cu_seqlens_q"), c.tensor("cu_seqlens_k"), std::nullopt,
            std::nullopt, c.integer("max_seqlen_q"), c.integer("max_seqlen_k"), c.real("softmax_scale", 0),
            c.real("is_causal", 0) != 0, c.integer("window_size_left").value_or(-1),
            c.integer("window_size_right").value_or(-1), c.real("softcap", 0), c.real("deterministic", 0) != 0, 0);
    if (!chosen.empty()) chosen += allocations();
}

std::string quoted(std::string text) {
    for (auto &letter : text)
        if (letter == '"' || letter == '\\' || letter == '\n') letter = ' ';
    return '"' + text + '"';
}
}  // namespace

int main() {
    std::ios::sync_with_stdio(false);
    for (std::string line; std::getline(std::cin, line);) {
        const Call call(line);
        described.multiProcessorCount = call.integer("multiprocessors").value_or(132);
        chosen.clear();
        allocated.clear();
        std::string refused;
        try {
            call.words.count("dout") ? backward(call) : forward(call);
        } catch (const std::exception &fault) {
            refused = fault.what();
        }
        std::cout << "{\"refused\": " << quoted(refused) << (chosen.empty() ? "" : ", ") << chosen << "}\n";
    }
}
