// Reads MessagePack as far as metadata needs it.
#include "metadata.hpp"

#include <cstring>
#include <functional>

namespace emu {

namespace {

constexpr int kDeepest = 16;

class Reader {
 public:
  explicit Reader(const std::vector<uint8_t>& data) : at_(data.data()), end_(at_ + data.size()) {}

  // Calls `entry(key)` for each pair of a map; it must consume the value.
  void map(const std::function<void(const std::string&)>& entry) {
    const uint8_t head = byte();
    uint64_t count;
    if ((head & 0xf0) == 0x80) count = head & 0xf;
    else if (head == 0xde) count = big(2);
    else if (head == 0xdf) count = big(4);
    else throw damaged("a map is missing");
    while (count--) entry(text());
  }

  void array(const std::function<void()>& element) {
    const uint8_t head = byte();
    uint64_t count;
    if ((head & 0xf0) == 0x90) count = head & 0xf;
    else if (head == 0xdc) count = big(2);
    else if (head == 0xdd) count = big(4);
    else throw damaged("a list is missing");
    while (count--) element();
  }

  std::string text() {
    const uint8_t head = byte();
    uint64_t bytes;
    if ((head & 0xe0) == 0xa0) bytes = head & 0x1f;
    else if (head >= 0xd9 && head <= 0xdb) bytes = big(1 << (head - 0xd9));
    else throw damaged("a string is missing");
    need(bytes);
    std::string out(reinterpret_cast<const char*>(at_), bytes);
    at_ += bytes;
    return out;
  }

  uint64_t number() {
    const uint8_t head = byte();
    if (head < 0x80) return head;
    if (head >= 0xcc && head <= 0xcf) return big(1 << (head - 0xcc));
    if (head >= 0xd0 && head <= 0xd3) return big(1 << (head - 0xd0));
    throw damaged("a number is missing");
  }

  bool truth() {
    const uint8_t head = byte();
    if (head == 0xc2 || head == 0xc3) return head == 0xc3;
    throw damaged("a truth value is missing");
  }

  void skip(int depth = 0) {
    if (depth > kDeepest) throw damaged("it is nested too deeply");
    need(1);
    const uint8_t head = *at_;
    if ((head & 0xf0) == 0x80 || head == 0xde || head == 0xdf) return map([&](const std::string&) { skip(depth + 1); });
    if ((head & 0xf0) == 0x90 || head == 0xdc || head == 0xdd) return array([&] { skip(depth + 1); });
    if ((head & 0xe0) == 0xa0 || (head >= 0xd9 && head <= 0xdb)) return void(text());
    if (head < 0x80 || (head >= 0xcc && head <= 0xd3)) return void(number());
    ++at_;
    if (head >= 0xe0 || head == 0xc0 || head == 0xc2 || head == 0xc3) return;
    if (head == 0xca || head == 0xcb) return void(big(head == 0xca ? 4 : 8));
    if (head >= 0xc4 && head <= 0xc6) {
      const uint64_t bytes = big(1 << (head - 0xc4));
      need(bytes);
      at_ += bytes;
      return;
    }
    throw damaged("an unknown type");
  }

 private:
  static LoadError damaged(const char* why) { return {std::string("the code object's metadata is damaged: ") + why}; }
  void need(uint64_t bytes) const {
    if (bytes > uint64_t(end_ - at_)) throw damaged("it ends too early");
  }
  uint8_t byte() {
    need(1);
    return *at_++;
  }
  uint64_t big(int bytes) {
    need(uint64_t(bytes));
    uint64_t out = 0;
    while (bytes--) out = out << 8 | *at_++;
    return out;
  }
  const uint8_t* at_;
  const uint8_t* end_;
};

Kernel::Argument read_argument(Reader& reader) {
  Kernel::Argument out{0, 0, {}};
  reader.map([&](const std::string& key) {
    if (key == ".offset") out.offset = uint32_t(reader.number());
    else if (key == ".size") out.size = uint32_t(reader.number());
    else if (key == ".value_kind") out.kind = reader.text();
    else reader.skip();
  });
  return out;
}

KernelMetadata read_kernel(Reader& reader) {
  KernelMetadata out;
  reader.map([&](const std::string& key) {
    if (key == ".name") out.name = reader.text();
    else if (key == ".symbol") out.symbol = reader.text();
    else if (key == ".group_segment_fixed_size") out.lds_bytes = uint32_t(reader.number());
    else if (key == ".private_segment_fixed_size") out.scratch_bytes = uint32_t(reader.number());
    else if (key == ".kernarg_segment_size") out.kernarg_bytes = uint32_t(reader.number());
    else if (key == ".wavefront_size") out.wavefront = uint32_t(reader.number());
    else if (key == ".max_flat_workgroup_size") out.most_workitems = uint32_t(reader.number());
    else if (key == ".vgpr_count") out.vgprs = uint32_t(reader.number());
    else if (key == ".agpr_count") out.agprs = uint32_t(reader.number());
    else if (key == ".uses_dynamic_stack") out.dynamic_stack = reader.truth();
    else if (key == ".args") reader.array([&] { out.arguments.push_back(read_argument(reader)); });
    else reader.skip();
  });
  return out;
}

}  // namespace

std::vector<KernelMetadata> read_metadata(const std::vector<uint8_t>& msgpack) {
  std::vector<KernelMetadata> out;
  if (msgpack.empty()) return out;
  Reader reader(msgpack);
  reader.map([&](const std::string& key) {
    if (key == "amdhsa.kernels") reader.array([&] { out.push_back(read_kernel(reader)); });
    else reader.skip();
  });
  return out;
}

}  // namespace emu
