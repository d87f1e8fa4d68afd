// The effects of a call to upstream's host code, kept until they are queried.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace host {
struct Device {
    int major, minor, multiprocessors, shared_per_multiprocessor, shared_per_block;
};

struct Launch {
    std::string kernel;  // upstream's template-id, demangled
    unsigned grid[3], block[3];
    uint64_t shared;
    int64_t shared_allowed;  // from cudaFuncSetAttribute, -1 if it was not called
    std::vector<unsigned char> params;
    int splits;  // the second argument of the conversion of dQ, -1 elsewhere
};

struct Record {
    Device device{};
    uint64_t seed = 0, offset = 0;
    std::vector<Launch> launches;
    std::vector<std::string> allocations, events;  // JSON objects; strings
};

Record &record();
std::string quoted(const std::string &text);
// The demangled name of an exported function.
std::string name_of(const void *function);
// The shared memory that a kernel was permitted since the last launch, -1 for none.
int64_t take_allowed(const void *kernel);
}  // namespace host
