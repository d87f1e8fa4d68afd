// Runs llvm-objdump as a child process and keeps its output.
#include "disassembly.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "launch.hpp"
#include "sha256.hpp"

extern char** environ;

namespace emu {

namespace {

constexpr const char* kNames[] = {"llvm-objdump-22", "llvm-objdump"};
constexpr const char* kMark = "file format elf64-amdgpu";

bool runnable(const std::string& path) { return access(path.c_str(), X_OK) == 0; }

std::string find_objdump() {
  if (const char* named = std::getenv("FMHA_EMU_OBJDUMP"); named && *named) {
    if (runnable(named)) return named;
    throw LoadError{std::string("the disassembler ") + named + " (FMHA_EMU_OBJDUMP) cannot be run"};
  }
  const char* path = std::getenv("PATH");
  for (const char* name : kNames) {
    std::istringstream folders(path ? path : "");
    for (std::string folder; std::getline(folders, folder, ':');)
      if (const std::string candidate = folder + "/" + name; runnable(candidate)) return candidate;
  }
  throw LoadError{"no llvm-objdump: install LLVM, or name it in FMHA_EMU_OBJDUMP"};
}

// Another disassembler may spell instructions differently. So the name of a kept text covers the program's path, size
// and time.
std::string mark_of(const std::string& objdump) {
  struct stat info {};
  stat(objdump.c_str(), &info);
  const std::string words = objdump + " " + std::to_string(info.st_size) + " " + std::to_string(info.st_mtime);
  return sha256(reinterpret_cast<const uint8_t*>(words.data()), words.size()).substr(0, 12);
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return in ? out.str() : std::string();
}

bool is_amdgpu(const std::string& text) { return text.substr(0, 4096).find(kMark) != std::string::npos; }

// A complete text ends with this line.
std::string last_line(const std::string& digest) { return "end of " + digest + "\n"; }

// The child must not run emulated: a preloaded runtime and its report belong to this process.
std::vector<char*> child_environment() {
  std::vector<char*> out;
  for (char** one = environ; *one; ++one)
    if (std::strncmp(*one, "LD_PRELOAD=", 11) != 0 && std::strncmp(*one, "FMHA_EMU_", 9) != 0) out.push_back(*one);
  out.push_back(nullptr);
  return out;
}

void run_objdump(const std::string& objdump, const std::string& features, const std::string& input, const std::string& output,
                 const std::string& errors) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&files, 2, errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const std::string attributes = "--mattr=" + features;
  const char* arguments[] = {objdump.c_str(), "-d", input.c_str(), features.empty() ? nullptr : attributes.c_str(), nullptr};
  std::vector<char*> environment = child_environment();
  pid_t child = 0;
  const int failed = posix_spawn(&child, objdump.c_str(), &files, nullptr, const_cast<char**>(arguments), environment.data());
  posix_spawn_file_actions_destroy(&files);
  if (failed) throw LoadError{"the disassembler " + objdump + " cannot be started: " + std::strerror(failed)};
  int status = 0;
  pid_t ended;
  do ended = waitpid(child, &status, 0);
  while (ended < 0 && errno == EINTR);
  if (ended == child && status != 0) throw LoadError{"the disassembler failed: " + read_file(errors).substr(0, 400)};
}

struct TemporaryFolder {
  std::string path;
  TemporaryFolder() {
    const char* root = std::getenv("TMPDIR");
    path = std::string(root && *root ? root : "/tmp") + "/fmha-emu-XXXXXX";
    if (!mkdtemp(path.data())) throw LoadError{"no temporary folder for the disassembler: " + std::string(std::strerror(errno))};
  }
  ~TemporaryFolder() {
    for (const char* name : {"/code.co", "/text", "/errors"}) unlink((path + name).c_str());
    rmdir(path.c_str());
  }
};

void make_folders(const std::string& path) {
  for (size_t at = 1; at != std::string::npos;) {
    at = path.find('/', at + 1);
    mkdir(path.substr(0, at).c_str(), 0700);
  }
}

// Writes a file beside the final one and renames it, so that no reader sees half of it. In a folder that cannot be
// written, nothing is kept.
void keep(const std::string& folder, const std::string& name, const std::string& text) {
  make_folders(folder);
  const std::string part = folder + "/" + name + "." + std::to_string(getpid()) + ".part";
  std::ofstream out(part, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out || std::rename(part.c_str(), (folder + "/" + name).c_str()) != 0) unlink(part.c_str());
}

}  // namespace

std::string disassemble(const uint8_t* elf, size_t bytes, const std::string& digest, const std::string& features) {
  const std::string objdump = find_objdump();
  const char* cache = std::getenv("FMHA_EMU_CACHE");
  const std::string folder = cache ? cache : "";
  const std::string name = digest + "-" + mark_of(objdump) + features + ".lst";
  if (!folder.empty()) {
    std::string kept = read_file(folder + "/" + name);
    if (kept.ends_with(last_line(digest))) return kept.erase(kept.size() - last_line(digest).size());
  }
  const TemporaryFolder temporary;
  const std::string input = temporary.path + "/code.co";
  {
    std::ofstream out(input, std::ios::binary);
    out.write(reinterpret_cast<const char*>(elf), std::streamsize(bytes));
    if (!out.flush()) throw LoadError{"the code object cannot be written for the disassembler"};
  }
  run_objdump(objdump, features, input, temporary.path + "/text", temporary.path + "/errors");
  std::string text = read_file(temporary.path + "/text");
  if (!is_amdgpu(text)) throw LoadError{"the disassembler " + objdump + " printed no AMDGPU code"};
  if (!folder.empty()) keep(folder, name, text + last_line(digest));
  return text;
}

}  // namespace emu
