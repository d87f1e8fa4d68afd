// An NVRTC that compiles nothing and follows commands in the text:
//   "cubin PATH"  gives the bytes of a file        "fail MESSAGE"  refuses the text with this message
//   "hang"        never returns                    "crash"         ends the process
//   "grow BYTES"  touches that much memory first   "ptx PATH"      gives the text of a file, a short one otherwise
//   (nothing)     gives the file default.cubin next to the library; no cubin for -arch=compute_...
// Its arguments are appended to the file calls.txt next to the library.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

namespace {
struct Program {
  std::string text, name, log, cubin, ptx;
};

std::string beside(const char* file) {
  Dl_info info;
  dladdr(reinterpret_cast<void*>(&beside), &info);
  std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/') + 1) + file;
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream out;
  out << file.rdbuf();
  return out.str();
}

std::string word_after(const std::string& text, const char* word) {
  size_t at = text.find(word);
  if (at == std::string::npos) return "";
  at += std::strlen(word);
  return text.substr(at, text.find('\n', at) - at);
}
}  // namespace

extern "C" {
const char* nvrtcGetErrorString(int status) { return status == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_OTHER"; }

int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return 0;
}

int nvrtcGetNumSupportedArchs(int* count) {
  *count = 3;
  return 0;
}

int nvrtcGetSupportedArchs(int* archs) {
  archs[0] = 90;
  archs[1] = 80;
  archs[2] = 100;
  return 0;
}

int nvrtcCreateProgram(Program** program, const char* text, const char* name, int, const char**, const char**) {
  *program = new Program{text, name, "", "", ""};
  return 0;
}

int nvrtcCompileProgram(Program* program, int count, const char** options) {
  std::ofstream calls(beside("calls.txt"), std::ios::app);
  calls << program->name;
  for (int i = 0; i < count; ++i) calls << ' ' << options[i];
  calls << '\n' << std::flush;
  const std::string& text = program->text;
  if (text.find("hang\n") != std::string::npos) {
    for (;;) sleep(60);
  }
  if (text.find("crash\n") != std::string::npos) std::abort();
  const std::string grow = word_after(text, "grow ");
  if (!grow.empty()) {
    const size_t bytes = std::stoull(grow);
    char* memory = static_cast<char*>(std::malloc(bytes));
    std::memset(memory, 1, bytes);
    program->log = "touched " + std::to_string(static_cast<int>(memory[bytes / 2]));
  }
  const std::string fail = word_after(text, "fail ");
  if (!fail.empty()) {
    program->log = "a first line\nfmha.cu(7): error: " + fail + "\n  more of it\n";
    return 6;
  }
  const std::string ptx = word_after(text, "ptx ");
  program->ptx = ptx.empty() ? ".version 9.0\n.target sm_90\n.address_size 64\n" : contents(ptx);
  for (int i = 0; i < count; ++i) {
    if (std::strncmp(options[i], "-arch=compute_", 14) == 0) return 0;
  }
  const std::string path = word_after(text, "cubin ");
  program->cubin = contents(path.empty() ? beside("default.cubin") : path);
  return 0;
}

int nvrtcGetPTXSize(Program* program, size_t* size) {
  *size = program->ptx.size() + 1;
  return 0;
}

int nvrtcGetPTX(Program* program, char* ptx) {
  std::memcpy(ptx, program->ptx.c_str(), program->ptx.size() + 1);
  return 0;
}

int nvrtcGetProgramLogSize(Program* program, size_t* size) {
  *size = program->log.size() + 1;
  return 0;
}

int nvrtcGetProgramLog(Program* program, char* log) {
  std::memcpy(log, program->log.c_str(), program->log.size() + 1);
  return 0;
}

int nvrtcGetCUBINSize(Program* program, size_t* size) {
  *size = program->cubin.size();
  return 0;
}

int nvrtcGetCUBIN(Program* program, char* cubin) {
  std::memcpy(cubin, program->cubin.data(), program->cubin.size());
  return 0;
}

int nvrtcDestroyProgram(Program** program) {
  delete *program;
  *program = nullptr;
  return 0;
}
}
