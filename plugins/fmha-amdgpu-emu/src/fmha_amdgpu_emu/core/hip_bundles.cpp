// Offload bundles: the layouts of clang's documentation, "Clang Offload Bundler".
#include "hip_bundles.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern char** environ;

namespace fmha::hip {
namespace {

constexpr char kPlain[] = "__CLANG_OFFLOAD_BUNDLE__";
constexpr char kPacked[] = "CCOB";
constexpr char kElf[] = "\177ELF";
constexpr size_t kPlainBytes = 24, kMagicBytes = 4;

template <class T> T read(const char* from) {
  T out;
  std::memcpy(&out, from, sizeof out);
  return out;
}

// Bytes of an ELF file that says where its last part ends (ELF-64: e_shoff, e_shentsize, e_shnum; sections lie before).
size_t elf_bytes(const char* elf) {
  const auto sections = read<uint64_t>(elf + 40), programs = read<uint64_t>(elf + 32);
  const auto entry = read<uint16_t>(elf + 58), count = read<uint16_t>(elf + 60);
  const auto segment = read<uint16_t>(elf + 54), segments = read<uint16_t>(elf + 56);
  size_t end = sections + size_t(entry) * count;
  for (size_t k = 0; k < segments; ++k) {
    const char* at = elf + programs + k * segment;
    const size_t last = read<uint64_t>(at + 8) + read<uint64_t>(at + 32);
    end = last > end ? last : end;
  }
  for (size_t k = 0; sections && k < count; ++k) {
    const char* at = elf + sections + k * entry;
    if (read<uint32_t>(at + 4) == 8) continue;  // SHT_NOBITS
    const size_t last = read<uint64_t>(at + 24) + read<uint64_t>(at + 32);
    end = last > end ? last : end;
  }
  return end;
}

// gfx942:xnack- of hipv4-amdgcn-amd-amdhsa--gfx942:xnack-: what follows the four parts of the triple.
std::string target_in(const std::string& entry) {
  size_t at = 0;
  for (int part = 0; part < 5; ++part) {
    at = entry.find('-', at);
    if (at == std::string::npos) return entry;
    ++at;
  }
  return entry.substr(at);
}

Chosen from_plain(const char* data, size_t bytes, const std::string& target) {
  Chosen out;
  std::string others;
  const char* at = data + kPlainBytes + 8;
  const auto count = read<uint64_t>(data + kPlainBytes);
  auto inside = [&](const char* start, uint64_t size) {
    return !bytes || (start <= data + bytes && size <= uint64_t(data + bytes - start));
  };
  size_t best = 0;
  for (uint64_t k = 0; k < count; ++k) {
    if (!inside(at, 24)) return out.why = "an offload bundle is cut short", out;
    const auto offset = read<uint64_t>(at), size = read<uint64_t>(at + 8), length = read<uint64_t>(at + 16);
    if (!inside(at + 24, length) || !inside(data + offset, size)) return out.why = "an offload bundle is cut short", out;
    const std::string entry(at + 24, length);
    at += 24 + length;
    if (entry.compare(0, 4, "host") == 0 || !size) continue;
    const std::string here = target_in(entry);
    others += (others.empty() ? "" : ", ") + here;
    if (fits(here, target) && here.size() > best)  // the most particular one, as it names more features
      best = here.size(), out.data = data + offset, out.bytes = size;
  }
  if (!out.data) {
    out.none_fits = true;
    out.why = "no code object for " + target + (others.empty() ? "" : ", only for " + others);
  }
  return out;
}

// Run a program; true when it ended well. Nothing of its output is kept.
bool run_program(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  std::vector<char*> env;  // what is preloaded into the caller is not for tools
  for (char** it = environ; *it; ++it)
    if (std::strncmp(*it, "LD_PRELOAD=", 11) != 0) env.push_back(*it);
  env.push_back(nullptr);
  pid_t child = 0;
  int status = 0;
  if (posix_spawnp(&child, argv[0], nullptr, nullptr, argv.data(), env.data()) != 0) return false;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return false;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool read_whole(const std::string& path, std::vector<char>& out) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (!file) return false;
  char part[1 << 16];
  for (size_t got; (got = std::fread(part, 1, sizeof part, file)) > 0;) out.insert(out.end(), part, part + got);
  std::fclose(file);
  return true;
}

// Bytes of a packed bundle: version 2 has 32 bits for them, version 3 has 64, version 1 does not say.
size_t packed_bytes(const char* data) {
  const auto version = read<uint16_t>(data + 4);
  return version == 2 ? read<uint32_t>(data + 8) : version == 3 ? read<uint64_t>(data + 8) : 0;
}

std::vector<std::string> bundlers() {
  if (const char* named = std::getenv("FMHA_EMU_BUNDLER")) return {named};
  return {"clang-offload-bundler", "clang-offload-bundler-22", "/opt/rocm/llvm/bin/clang-offload-bundler"};
}

Chosen from_packed(const char* data, size_t bytes, const std::string& target) {
  Chosen out;
  const size_t size = packed_bytes(data) ? packed_bytes(data) : bytes;
  if (!size) return out.why = "a packed offload bundle does not say its size", out;
  char folder[] = "/tmp/fmha-bundle-XXXXXX";
  if (!mkdtemp(folder)) return out.why = "no folder to unpack an offload bundle in", out;
  const std::string packed = std::string(folder) + "/packed", code = std::string(folder) + "/code";
  bool started = false, found = false;
  if (std::FILE* file = std::fopen(packed.c_str(), "wb")) {
    started = std::fwrite(data, 1, size, file) == size;
    started = !std::fclose(file) && started;
  }
  // The names of entries are not known beforehand: from the most particular target to the bare processor.
  std::vector<std::string> targets{target};
  for (std::string name = target; name.find(':') != std::string::npos;) targets.push_back(name = name.substr(0, name.rfind(':')));
  if (target.find(":xnack-") != std::string::npos && target.find(":sramecc+") != std::string::npos)
    targets.push_back(target.substr(0, target.find(':')) + ":xnack-");
  for (const std::string& program : bundlers()) {
    for (const std::string& name : targets) {
      std::remove(code.c_str());
      found = started && run_program({program, "--unbundle", "--type=o", "--input=" + packed, "--output=" + code,
                                      "--targets=hipv4-amdgcn-amd-amdhsa--" + name}) &&
              read_whole(code, out.owned) && out.owned.size() > 64;
      if (found) break;
      out.owned.clear();
    }
    if (found) break;
  }
  std::remove(packed.c_str()), std::remove(code.c_str()), rmdir(folder);
  if (found) out.data = out.owned.data(), out.bytes = out.owned.size();
  else out.why = "a packed offload bundle: clang-offload-bundler is absent, or unpacks nothing for " + target;
  return out;
}

}  // namespace

bool fits(const std::string& code, const std::string& device) {
  if (code.substr(0, code.find(':')) != device.substr(0, device.find(':'))) return false;
  for (size_t at = code.find(':'); at != std::string::npos; at = code.find(':', at + 1)) {
    const size_t end = code.find(':', at + 1);
    const std::string flag = code.substr(at, end == std::string::npos ? end : end - at);  // ":xnack-"
    const size_t there = device.find(flag);
    if (there == std::string::npos) return false;
  }
  return true;
}

Chosen choose_code(const void* image, size_t bytes, const std::string& target) {
  const char* data = static_cast<const char*>(image);
  Chosen out;
  if (bytes && bytes < 64) return out.why = "too short for code", out;
  if (std::memcmp(data, kElf, kMagicBytes) == 0) {
    out.data = data, out.bytes = bytes ? bytes : elf_bytes(data);
    return out;
  }
  if (std::memcmp(data, kPlain, kPlainBytes) == 0) return from_plain(data, bytes, target);
  if (std::memcmp(data, kPacked, kMagicBytes) == 0) return from_packed(data, bytes, target);
  out.why = "neither a code object nor an offload bundle";
  return out;
}

}  // namespace fmha::hip
