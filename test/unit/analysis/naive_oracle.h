// Liveness and the memory profile by the words of analysis/liveness.h and
// analysis/memory_profile.h, and nothing else: every question about a value is
// answered by looking at every step, so that there is little to get wrong.
// O(values x steps). Only sizes come from the library.
#ifndef ONNX_MEMOPT_TEST_UNIT_ANALYSIS_NAIVE_ORACLE_H_
#define ONNX_MEMOPT_TEST_UNIT_ANALYSIS_NAIVE_ORACLE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "onnx_memopt/analysis/liveness.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::analysis::testing {

struct NaiveStorage {
  StorageKind kind = StorageKind::kActivation;
  ir::BlockId block = ir::kNoBlock;
  std::optional<int64_t> size_bytes;
  std::vector<ir::ValueId> values;
};

class NaiveOracle {
 public:
  template <typename Sizes>
  NaiveOracle(const ir::Graph& graph, const Sizes& sizes) : graph_(graph) {
    for (size_t i = 0; i < graph.num_values(); ++i) {
      bytes_.push_back(sizes.bytes(ir::ValueId(static_cast<uint32_t>(i))));
    }
    Walk(ir::kMainBlock);
  }

  struct Range {
    int begin = 0;
    int end = 0;
  };
  // By value; only values of the model as it is.
  std::map<ir::ValueId, Range> ranges;
  std::map<ir::ValueId, size_t> storage_of;
  std::vector<NaiveStorage> storages;
  // By block: live bytes of each step, and the peak.
  std::map<ir::BlockId, std::vector<int64_t>> live_bytes;
  std::map<ir::BlockId, int64_t> peaks;
  bool complete = true;

 private:
  // All values that a node reads, at any depth. Those that are defined inside
  // it are in the set too, which does no harm: nobody outside asks for them.
  std::set<ir::ValueId> Reads(ir::NodeId id) const {
    const ir::Node& node = graph_.node(id);
    std::set<ir::ValueId> reads(node.operands.begin(), node.operands.end());
    for (ir::BlockId block : node.blocks) {
      const auto& results = graph_.block(block).results;
      reads.insert(results.begin(), results.end());
      for (ir::NodeId nested : graph_.block(block).nodes) {
        reads.merge(Reads(nested));
      }
    }
    return reads;
  }

  void AppendSteps(ir::BlockId block, std::vector<ir::NodeId>* steps) const {
    for (ir::NodeId id : graph_.block(block).nodes) {
      const ir::Node& node = graph_.node(id);
      if (node.is_call) {
        AppendSteps(node.blocks[0], steps);
      } else {
        steps->push_back(id);
      }
    }
  }

  size_t NewStorage(ir::ValueId value, ir::BlockId block, StorageKind kind) {
    storages.push_back({kind, block, bytes_[ir::Index(value)], {value}});
    storage_of[value] = storages.size() - 1;
    if (kind == StorageKind::kActivation && !bytes_[ir::Index(value)]) {
      complete = false;
    }
    return storages.size() - 1;
  }

  struct Times {
    ir::BlockId block;
    std::vector<ir::NodeId> steps;
    std::vector<std::set<ir::ValueId>> reads;  // by step
    std::set<ir::ValueId> outputs;
  };

  static bool ReadAfter(const Times& t, ir::ValueId value, size_t step) {
    if (t.outputs.contains(value)) return true;
    for (size_t s = step + 1; s < t.steps.size(); ++s) {
      if (t.reads[s].contains(value)) return true;
    }
    return false;
  }

  static int EndOf(const Times& t, ir::ValueId value, int begin) {
    const auto count = static_cast<int>(t.steps.size());
    if (t.outputs.contains(value)) return std::max(count, begin + 1);
    int end = begin + 1;
    for (int s = 0; s < count; ++s) {
      if (t.reads[static_cast<size_t>(s)].contains(value)) {
        end = std::max(end, s + 1);
      }
    }
    return end;
  }

  void Walk(ir::BlockId block) {
    const ir::Block& b = graph_.block(block);
    Times t{.block = block};
    AppendSteps(block, &t.steps);
    for (ir::NodeId step : t.steps) t.reads.push_back(Reads(step));
    t.outputs.insert(b.results.begin(), b.results.end());
    const auto count = static_cast<int>(t.steps.size());
    for (ir::ValueId param : b.params) {
      const bool is_main = block == ir::kMainBlock;
      NewStorage(param, block,
                 is_main ? StorageKind::kInput : StorageKind::kActivation);
      const bool is_read =
          t.outputs.contains(param) ||
          std::any_of(t.reads.begin(), t.reads.end(),
                      [&](const auto& reads) { return reads.contains(param); });
      ranges[param] = {0, is_main   ? count
                          : is_read ? EndOf(t, param, 0)
                                    : std::max(count, 1)};
    }
    for (ir::ValueId weight : b.initializers) {
      NewStorage(weight, block, StorageKind::kWeight);
      ranges[weight] = {0, count};
    }
    for (size_t s = 0; s < t.steps.size(); ++s) PlaceResults(t, s);
    // Nested graphs see what is outside them, so they come after.
    for (ir::NodeId step : t.steps) {
      for (ir::BlockId nested : graph_.node(step).blocks) Walk(nested);
    }
    Profile(t);
  }

  void PlaceResults(const Times& t, size_t s) {
    const ir::Node& node = graph_.node(t.steps[s]);
    for (size_t r = 0; r < node.results.size(); ++r) {
      const ir::ValueId result = node.results[r];
      if (result == ir::kNoValue) continue;
      ranges[result] = {static_cast<int>(s),
                        EndOf(t, result, static_cast<int>(s))};
      const std::optional<ir::ValueId> viewed =
          r == 0 ? Viewed(node) : std::nullopt;
      if (viewed) {
        storage_of[result] = storage_of.at(*viewed);
        storages[storage_of[result]].values.push_back(result);
      } else if (node.op_type == "Constant" && node.domain.empty()) {
        NewStorage(result, t.block, StorageKind::kWeight);
        ranges[result] = {0, static_cast<int>(t.steps.size())};
      } else if (const auto storage =
                     r == 0 ? Overwritten(t, node, s) : std::nullopt) {
        storage_of[result] = *storage;
        storages[*storage].values.push_back(result);
      } else {
        NewStorage(result, t.block, StorageKind::kActivation);
      }
    }
  }

  static std::optional<ir::ValueId> Viewed(const ir::Node& node) {
    const int operand = node.info->view_of;
    if (operand < 0 || static_cast<size_t>(operand) >= node.operands.size()) {
      return std::nullopt;
    }
    const ir::ValueId value = node.operands[static_cast<size_t>(operand)];
    if (value == ir::kNoValue) return std::nullopt;
    return value;
  }

  std::optional<size_t> Overwritten(const Times& t, const ir::Node& node,
                                    size_t s) const {
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const ir::ValueId operand = node.operands[i];
      if (i >= 32 || (node.info->in_place >> i & 1) == 0) continue;
      if (operand == ir::kNoValue) continue;
      const size_t id = storage_of.at(operand);
      const NaiveStorage& storage = storages[id];
      bool ok = storage.kind == StorageKind::kActivation &&
                storage.block == t.block && storage.size_bytes.has_value() &&
                storage.size_bytes == bytes_[ir::Index(node.results[0])];
      for (ir::ValueId value : storage.values) {
        ok = ok && !ReadAfter(t, value, s);
        // Written over while it is read under another name.
        ok = ok && (value == operand ||
                    std::find(node.operands.begin(), node.operands.end(),
                              value) == node.operands.end());
      }
      if (ok) return id;
    }
    return std::nullopt;
  }

  // A storage lives where one of its values does.
  int64_t LiveAt(const Times& t, int step) const {
    int64_t total = 0;
    for (const NaiveStorage& storage : storages) {
      if (storage.block != t.block ||
          storage.kind != StorageKind::kActivation) {
        continue;
      }
      bool live = false;
      for (ir::ValueId value : storage.values) {
        // A view in a nested graph is a read at the node that holds it.
        if (!IsOf(t, value)) continue;
        const Range& range = ranges.at(value);
        live = live || (range.begin <= step && step < range.end);
      }
      if (live) total += storage.size_bytes.value_or(0);
    }
    return total;
  }

  bool IsOf(const Times& t, ir::ValueId value) const {
    const auto& params = graph_.block(t.block).params;
    if (std::find(params.begin(), params.end(), value) != params.end()) {
      return true;
    }
    return std::any_of(t.steps.begin(), t.steps.end(), [&](ir::NodeId step) {
      const auto& results = graph_.node(step).results;
      return std::find(results.begin(), results.end(), value) != results.end();
    });
  }

  // What subgraphs add at a node: the largest peak, less the results that are
  // those of the subgraph: all of an If's, what a Loop or Scan carries.
  int64_t Nested(const ir::Node& node) const {
    int64_t nested = 0;
    for (ir::BlockId block : node.blocks) {
      nested = std::max(nested, peaks.at(block));
    }
    size_t own = 0;
    if (node.op_type == "If") own = node.results.size();
    if (node.op_type == "Loop") own = node.operands.size() - 2;
    if (node.op_type == "Scan") {
      own = node.operands.size() -
            static_cast<size_t>(ir::IntAttribute(node, "num_scan_inputs", 0));
    }
    for (size_t r = 0; r < own; ++r) {
      if (node.results[r] == ir::kNoValue) continue;
      nested -= bytes_[ir::Index(node.results[r])].value_or(0);
    }
    return std::max<int64_t>(nested, 0);
  }

  void Profile(const Times& t) {
    std::vector<int64_t>& live = live_bytes[t.block];
    int64_t& peak = peaks[t.block];
    for (size_t s = 0; s < t.steps.size(); ++s) {
      live.push_back(LiveAt(t, static_cast<int>(s)) +
                     Nested(graph_.node(t.steps[s])));
      peak = std::max(peak, live.back());
    }
    // A graph without nodes still holds what it is given.
    if (t.steps.empty()) peak = LiveAt(t, 0);
  }

  const ir::Graph& graph_;
  std::vector<std::optional<int64_t>> bytes_;
};

}  // namespace onnx_memopt::analysis::testing

#endif  // ONNX_MEMOPT_TEST_UNIT_ANALYSIS_NAIVE_ORACLE_H_
