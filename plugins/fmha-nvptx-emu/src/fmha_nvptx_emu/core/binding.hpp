// How a statement becomes an instruction. A binder consumes the modifiers that it implements; one that is left over stops
// the load, so nothing is executed that is not understood.
#pragma once

#include <map>
#include <set>

#include "program.hpp"

namespace ptx {

// Rows of registers and constants while a kernel is decoded.
class Layout {
 public:
  explicit Layout(Kernel& kernel) : kernel_(kernel) {}
  Slot reg(const Register& r);
  Slot constant(uint64_t bits, bool wide);
  Slot address(const Variable& v, int64_t offset, bool wide);
  Slot special(const std::string& name, bool wide);
  void finish();  // places constants behind the registers

 private:
  struct Constant {
    uint64_t bits;
    const Variable* variable;
    bool wide;
    bool operator<(const Constant& o) const {
      if (bits != o.bits) return bits < o.bits;
      return variable != o.variable ? variable < o.variable : wide < o.wide;
    }
  };
  Slot keep(const Constant& constant);
  uint64_t value_of(const Constant& constant) const;  // once static shared memory has its size
  uint64_t place(const Variable& v);

  Kernel& kernel_;
  std::map<const Register*, Slot> registers_;
  std::map<Constant, uint32_t> constants_;  // -> row, counted from the first constant
  std::map<std::string, uint32_t> specials_;
  std::map<const Variable*, uint64_t> places_;
  uint32_t constant_rows_ = 0;
  std::set<const Variable*> dynamic_;
};
constexpr uint32_t kConstantRow = 1u << 30;  // marks rows counted from the first constant until they are placed

struct Binding {
  Kernel& kernel;
  Layout& layout;
  const Statement& s;
  Inst& out;
  std::vector<bool> used;
  std::vector<Slot> dests, sources;

  bool take(const char* modifier);             // whether it is there
  bool any(std::initializer_list<const char*> modifiers);  // takes all of them; whether one was there
  Type type();                                 // the next modifier that is a type; raises if there is none
  bool has_type() const;
  [[noreturn]] void refuse(const std::string& why) const;

  const Operand& operand(size_t k) const;
  void dest(const Operand& o, Type type);
  void dest(size_t k, Type type) { dest(operand(k), type); }
  void source(const Operand& o, Type type);
  void source(size_t k, Type type) { source(operand(k), type); }
  void address(size_t k);                      // one source: the base; the offset goes to imm
  void count(size_t least, size_t most) const; // of operands
  void three(Type type, unsigned sources);     // a destination and sources of one type
};

struct Opcode {
  const char* root;
  const char* section;  // of PTX ISA 9.1
  Class cls;
  Handler (*bind)(Binding&);
};
struct Table {
  const Opcode* rows;
  size_t count;
};

extern const Table kIntegerOpcodes, kBitOpcodes, kFloatOpcodes, kCompareOpcodes, kMoveOpcodes, kConvertOpcodes, kMemoryOpcodes,
    kAtomicOpcodes, kAsyncOpcodes, kMatrixOpcodes, kControlOpcodes, kMbarrierOpcodes, kWgmmaOpcodes, kStoreMatrixOpcodes, kClusterOpcodes,
    kTensorMemoryOpcodes, kLaunchControlOpcodes;
Handler bind_cluster_barrier(Binding& b);  // barrier.cluster
Handler bind_bulk(Binding& b, bool reduces);  // cp.async.bulk and cp.reduce.async.bulk, behind these modifiers
Handler bind_copies_arrive(Binding& b);  // cp.async.mbarrier
Handler bind_store_async(Binding& b);   // st.async, behind its first modifier
Handler bind_reduce_async(Binding& b);  // red.async
Handler bind_tensor_product(Binding& b);  // tcgen05.mma
Handler bind_tensor_fill(Binding& b);  // tcgen05.cp
Handler bind_tensor_shift(Binding& b);  // tcgen05.shift
Handler bind_tensor_move(Binding& b);  // tcgen05.ld and st, tcgen05.wait

const Opcode* opcode_named(const std::string& root);
std::vector<const Opcode*> all_opcodes();

}  // namespace ptx
