#include "tables.hpp"

#include <string_view>
#include <unordered_map>

namespace emu {

namespace {

using Index = std::unordered_map<std::string_view, const Entry*>;

Index make_index() {
  Index index;
  for (const Table* table :
       {&kScalarTable, &kScalarExecTable, &kControlTable, &kVectorIntTable, &kVectorInt64Table,
        &kVectorInt16Table, &kVectorBytesTable, &kVectorMoveTable, &kVectorLanesTable, &kCompareTable, &kFloatTable,
        &kFloat16Table, &kFloat64Table, &kSelectTable, &kDivisionTable, &kSaluFloatTable, &kDotTable,
        &kNarrowTable, &kScaledConvertTable, &kPackedTable, &kConvertTable, &kTranscendentalTable,
        &kMfmaTable, &kMfmaExactTable, &kMfmaScaledTable, &kSparseTable, &kWmmaTable, &kScalarMemoryTable,
        &kGlobalTable, &kScratchTable, &kBufferTable, &kAtomicTable, &kLdsTable, &kLdsAtomicTable,
        &kLdsSpecialTable})
    for (size_t k = 0; k < table->count; ++k) index.emplace(table->entries[k].name, &table->entries[k]);
  return index;
}

// Suffixes that the disassembler appends to a name for its encoding; "v_add_f32_e64_dpp" has two.
constexpr std::string_view kSuffixes[] = {"_e32", "_e64", "_dpp", "_dpp8", "_sdwa", "_e64_dpp"};

}  // namespace

const Entry* find_entry(const char* name) {
  static const Index index = make_index();
  std::string_view rest = name;
  for (;;) {
    if (const auto found = index.find(rest); found != index.end()) return found->second;
    bool cut = false;
    for (const std::string_view suffix : kSuffixes)
      if (rest.size() > suffix.size() && rest.substr(rest.size() - suffix.size()) == suffix) {
        rest.remove_suffix(suffix.size());
        cut = true;
        break;
      }
    if (!cut) return nullptr;
  }
}

}  // namespace emu
