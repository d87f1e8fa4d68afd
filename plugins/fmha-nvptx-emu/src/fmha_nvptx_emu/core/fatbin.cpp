// Fatbins: containers with one kernel text or cubin for each architecture, as nvcc, clang and `fatbinary` write them.
//
// NVIDIA documents no format. The layout is that of containers of CUDA 13.0's `fatbinary`, which the tests write, and agrees
// with github.com/n-eiling/cuda-fatbin-decompression. Compressed texts need the system's libzstd or liblz4.
#include <dlfcn.h>

#include <cstring>

#include "driver.hpp"

namespace ptx {

namespace {

constexpr uint32_t kMagic = 0xBA55ED50, kWrapper = 0x466243B1;
constexpr uint64_t kLz4 = 0x2000, kZstd = 0x8000;
constexpr uint16_t kPtx = 1, kCubin = 2;
constexpr uint64_t kElfHead = 64;  // bytes of the header of an ELF file

struct Head {
  uint32_t magic;
  uint16_t version, bytes;
  uint64_t entries;  // bytes of all entries
};
struct Wrapper {
  uint32_t magic, version;
  const char* fatbin;
};
struct Entry64 {
  uint16_t kind, pad0;
  uint32_t bytes;       // of this header
  uint64_t payload;     // bytes, with padding
  uint32_t compressed;  // bytes; 0: it is not
  uint32_t pad1;
  uint16_t minor, major;
  uint32_t arch;        // 80 for sm_80
  uint64_t pad2, flags, pad3, unpacked;
};
static_assert(sizeof(Head) == 16 && sizeof(Entry64) == 64);

template <class F> F function_in(const char* library, const char* name) {
  void* held = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  void* found = held ? dlsym(held, name) : nullptr;
  if (!found) throw Unusable{std::string("a text is compressed, and ") + library + " is not installed"};
  return reinterpret_cast<F>(found);
}

std::string text_of(const Entry64& entry, const char* payload) {
  if (!entry.compressed) return {payload, strnlen(payload, entry.payload)};
  std::string out(entry.unpacked, '\0');
  bool whole = false;
  if (entry.flags & kZstd) {
    const auto unpack = function_in<size_t (*)(void*, size_t, const void*, size_t)>("libzstd.so.1", "ZSTD_decompress");
    whole = unpack(out.data(), out.size(), payload, entry.compressed) == out.size();
  } else if (entry.flags & kLz4) {
    const auto unpack = function_in<int (*)(const char*, char*, int, int)>("liblz4.so.1", "LZ4_decompress_safe");
    whole = unpack(payload, out.data(), int(entry.compressed), int(out.size())) == int(out.size());
  } else throw Unusable{"a text is compressed by neither zstd nor LZ4"};
  if (!whole) throw Unusable{"a compressed text is damaged"};
  out.resize(strnlen(out.data(), out.size()));
  return out;
}

std::string target_of(const std::string& text) {
  const size_t at = text.find(".target");
  const size_t first = at == std::string::npos ? at : text.find_first_not_of(" \t", at + 7);
  if (first == std::string::npos) throw Unusable{"a text has no .target"};
  return text.substr(first, text.find_first_of(" \t\r\n,;", first) - first);
}

}  // namespace

bool is_fatbin(const char* image) {
  uint32_t magic;
  std::memcpy(&magic, image, sizeof magic);
  return magic == kMagic || magic == kWrapper;
}

namespace {

// Calls each(entry, payload) for every text and cubin.
template <class Each> void entries_of(const char* image, const Each& each) {
  if (Wrapper outer; std::memcpy(&outer, image, sizeof outer), outer.magic == kWrapper) image = outer.fatbin;
  Head head;
  std::memcpy(&head, image, sizeof head);
  if (head.magic != kMagic || head.version != 1 || head.bytes < sizeof head) throw Unusable{"a fatbin of an unknown version"};
  const char *at = image + head.bytes, *end = at + head.entries;
  while (at + sizeof(Entry64) <= end) {
    Entry64 entry;
    std::memcpy(&entry, at, sizeof entry);
    const char* payload = at + entry.bytes;
    if (entry.bytes < sizeof entry || payload > end || entry.payload > uint64_t(end - payload) || entry.compressed > entry.payload)
      throw Unusable{"a damaged fatbin"};
    at = payload + entry.payload;
    each(entry, payload);
  }
}

}  // namespace

std::string ptx_in_fatbin(const char* image) {
  std::string best, others;
  uint32_t arch = 0;
  bool own = false;  // the best is for this device's features alone (sm_90a)
  entries_of(image, [&](const Entry64& entry, const char* payload) {
    others += (others.empty() ? "" : ", ") + std::string(entry.kind == kPtx ? "PTX" : "a cubin") + " for sm_" + std::to_string(entry.arch);
    if (entry.kind != kPtx) return;
    std::string text = text_of(entry, payload);
    const std::string target = target_of(text);
    const bool exact = !target.empty() && target.back() > '9';
    if (!runs(target) || (!best.empty() && (entry.arch < arch || (entry.arch == arch && own)))) return;
    best = std::move(text), arch = entry.arch, own = exact;
  });
  if (best.empty()) throw NoTextForDevice{{std::string("the fatbin has no PTX for ") + driver().device->name + ": it has " + (others.empty() ? "nothing" : others)}};
  return best;
}

std::map<std::string, int> registers_in_fatbin(const char* image) {
  std::map<std::string, int> out;
  entries_of(image, [&](const Entry64& entry, const char* payload) {
    LoadedModule cubin;
    if (entry.kind != kCubin || entry.compressed || entry.payload < kElfHead || read_cubin(payload, cubin)) return;
    for (const LoadedFunction& function : cubin.functions) out[function.name] = function.registers;
  });
  return out;
}

}  // namespace ptx
