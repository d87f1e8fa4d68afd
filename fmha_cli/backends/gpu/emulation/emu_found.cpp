#include "emu_found.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace emulation {

namespace {

std::string pair(const char* name, uint64_t value) { return std::string("\"") + name + "\":" + std::to_string(value); }

}  // namespace

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\', out += c;
    else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", unsigned(c));
      out += escape;
    } else out += c;
  }
  return out += '"';
}

std::string finding_json(const char* kind, const FoundOf<int>& found) {
  return "{\"kind\":" + json_string(kind) + ",\"kernel\":" + json_string(found.kernel) +
         ",\"instruction\":" + json_string(found.instruction) + ",\"text\":" + json_string(found.text) +
         ",\"address\":" + std::to_string(found.address) + ",\"wave\":" + std::to_string(found.wave) +
         ",\"lane\":" + std::to_string(found.lane) + ",\"group\":[" + std::to_string(found.group[0]) + ',' +
         std::to_string(found.group[1]) + ',' + std::to_string(found.group[2]) +
         "],\"count\":" + std::to_string(found.count) + '}';
}

std::string executed_json(const Executed& e) {
  std::string classes;
  for (const auto& [name, count] : e.classes)
    if (count) classes += (classes.empty() ? "" : ",") + pair(name, count);
  const std::string parts[] = {
      "\"kernel\":" + json_string(e.kernel), pair("launches", e.launches), pair("instructions", e.instructions),
      "\"classes\":{" + classes + "}", pair("matrix_flops", e.matrix_flops),
      pair("global_read_bytes", e.global_read), pair("global_written_bytes", e.global_written),
      pair("scratch_read_bytes", e.scratch_read), pair("scratch_written_bytes", e.scratch_written),
      pair("scalar_read_bytes", e.scalar_read), pair("lds_read_bytes", e.lds_read),
      pair("lds_written_bytes", e.lds_written), pair("lds_accesses", e.lds_accesses),
      pair("lds_conflict_cycles", e.lds_conflict_cycles), pair("buffer_out_of_range", e.buffer_out_of_range),
      pair("barriers", e.barriers),
      "\"global_sectors\":" + (e.global_sectors ? std::to_string(*e.global_sectors) : std::string("null"))};
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "{" : ",") + part;
  return out + "}";
}

std::string observed_json(const std::vector<std::string>& executed, const std::string& fault, const std::string& findings) {
  std::string list;
  for (const std::string& one : executed) list += (list.empty() ? "" : ",") + one;
  return "{\"executed\":[" + list + "],\"fault\":" + (fault.empty() ? "null" : json_string(fault)) + ",\"findings\":" + findings + "}";
}

void report_line(const std::string& json) {
  const char* path = std::getenv("FMHA_EMU_REPORT");
  if (!path || !*path) return;
  const int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  const std::string line = json + "\n";
  // A single write, so that lines of several processes do not mix.
  const bool whole = file >= 0 && write(file, line.data(), line.size()) == ssize_t(line.size());
  if (file >= 0) close(file);
  if (!whole) std::fprintf(stderr, "fmha-emu: the report %s cannot be written\n", path);
}

}  // namespace emulation
