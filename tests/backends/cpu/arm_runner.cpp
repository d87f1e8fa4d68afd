// Calls one function of a kernel library on the content of a file: runner LIBRARY ENTRY IN OUT.
// IN has a number of places (uint64), the places, and an image. The image begins with the argument block; at each place in it
// stands a pointer as an offset into the image. OUT receives the image as the call leaves it. The status is the call's.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { USAGE = 98, NO_FUNCTION = 99, PAGE = 4096 };

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
  void* memory = nullptr;
  if (posix_memalign(&memory, PAGE, size)) return USAGE;
  char* image = (char*)memory;
  memcpy(image, file + head, size);
  for (uint64_t n = 1; n <= count; ++n) {
    uint64_t place, value;
    memcpy(&place, file + n * sizeof place, sizeof place);
    memcpy(&value, image + place, sizeof value);
    value += (uint64_t)(uintptr_t)image;
    memcpy(image + place, &value, sizeof value);
  }
  void* library = dlopen(argv[1], RTLD_NOW);
  if (!library) fprintf(stderr, "%s\n", dlerror());
  int (*entry)(void*) = library ? (int (*)(void*))dlsym(library, argv[2]) : nullptr;
  void (*release)() = library ? (void (*)())dlsym(library, "fmha_cpu_release") : nullptr;
  if (!entry) return NO_FUNCTION;
  const int status = entry(image);
  if (release) release();
  FILE* f = fopen(argv[4], "wb");
  if (!f || fwrite(image, 1, size, f) != size || fclose(f)) return USAGE;
  return status;
}
