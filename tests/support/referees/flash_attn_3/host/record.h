// What a launch passes: its shape, every field of the block by name, and the descriptors that were made for it.
//
// fields.inc has FIELD(path) for each field of the block but the descriptors.
#pragma once
#include <string>
#include <vector>

#include "host/text.h"

inline std::vector<std::string> maps;
inline std::string launched;
inline std::vector<std::string> launches;

inline std::string hex_of(const void *at, size_t size) {
    static const char digits[] = "0123456789abcdef";
    std::string out;
    for (size_t k = 0; k < size; ++k) {
        const auto byte = static_cast<const unsigned char *>(at)[k];
        out += {digits[byte >> 4], digits[byte & 15]};
    }
    return out;
}

inline std::string extent(dim3 d) { return text_of("[", d.x, ", ", d.y, ", ", d.z, "]"); }

template <typename Params>
void note_launch(dim3 grid, dim3 block, dim3 cluster, size_t shared, const Params &params,
                 bool dependent = false) {
    const auto *base = reinterpret_cast<const char *>(&params);
    std::string fields, made;
#define FIELD(path)                                                                                                  \
    fields += text_of(fields.empty() ? "" : ", ", "\"" #path "\": [",                                                \
                      reinterpret_cast<const char *>(&params.path) - base, ", ", sizeof(params.path), ", \"",         \
                      hex_of(&params.path, sizeof(params.path)), "\"]");
#include "fields.inc"
#undef FIELD
    for (const auto &map : maps) made += (made.empty() ? "" : ", ") + map;
    launched = text_of(", \"grid\": ", extent(grid), ", \"block\": ", extent(block), ", \"cluster_dims\": ", extent(cluster),
                       ", \"shared\": ", shared, ", \"dependent\": ", dependent, ", \"bytes\": ", sizeof(Params), ", \"fields\": {", fields,
                       "}, \"maps\": [", made, "]");
    maps.clear();
    launches.push_back(launched);
}
