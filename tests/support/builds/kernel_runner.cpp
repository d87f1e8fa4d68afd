// Calls one function of a kernel library on the content of a file: runner LIBRARY ENTRY IN OUT.
// IN has a number of places (uint64), the places, and an image. The image begins with the argument block; at each place in it
// stands a pointer as an offset into the image. OUT receives the image as the call leaves it. The status is the call's.
#ifdef _WIN32
#include <malloc.h>
#include <windows.h>
#else
#include <dlfcn.h>
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { USAGE = 98, NO_FUNCTION = 99, PAGE = 4096 };

#ifdef _WIN32
static void* open_library(const char* path) { return (void*)LoadLibraryA(path); }
static void* function(void* library, const char* name) { return (void*)GetProcAddress((HMODULE)library, name); }
static void explain() { fprintf(stderr, "LoadLibrary: %lu\n", GetLastError()); }
static char* pages(size_t bytes) { return (char*)_aligned_malloc(bytes, PAGE); }
#else
static void* open_library(const char* path) { return dlopen(path, RTLD_NOW); }
static void* function(void* library, const char* name) { return dlsym(library, name); }
static void explain() { fprintf(stderr, "%s\n", dlerror()); }
static char* pages(size_t bytes) {
  void* memory = nullptr;
  return posix_memalign(&memory, PAGE, bytes) ? nullptr : (char*)memory;
}
#endif

static char* content(const char* path, size_t* bytes) {
  FILE* f = fopen(path, "rb");
  if (!f) return nullptr;
  fseek(f, 0, SEEK_END);
  *bytes = (size_t)ftell(f);
  rewind(f);
  char* text = (char*)malloc(*bytes);
  const bool whole = fread(text, 1, *bytes, f) == *bytes;
  fclose(f);
  return whole ? text : nullptr;
}

int main(int argc, char** argv) {
  size_t bytes = 0;
  const char* file = argc == 5 ? content(argv[3], &bytes) : nullptr;
  if (!file) return USAGE;
  uint64_t count;
  memcpy(&count, file, sizeof count);
  const size_t head = (count + 1) * sizeof count, size = bytes - head;
  char* image = pages(size);
  if (!image) return USAGE;
  memcpy(image, file + head, size);
  for (uint64_t n = 1; n <= count; ++n) {
    uint64_t place, value;
    memcpy(&place, file + n * sizeof place, sizeof place);
    memcpy(&value, image + place, sizeof value);
    value += (uint64_t)(uintptr_t)image;
    memcpy(image + place, &value, sizeof value);
  }
  void* library = open_library(argv[1]);
  if (!library) explain();
  int (*entry)(void*) = library ? (int (*)(void*))function(library, argv[2]) : nullptr;
  void (*release)() = library ? (void (*)())function(library, "fmha_cpu_release") : nullptr;
  if (!entry) return NO_FUNCTION;
  const int status = entry(image);
  if (release) release();
  FILE* f = fopen(argv[4], "wb");
  if (!f || fwrite(image, 1, size, f) != size || fclose(f)) return USAGE;
  return status;
}
