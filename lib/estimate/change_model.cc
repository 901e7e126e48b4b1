#include "estimate/change_model.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "onnx_memopt/support/checked_math.h"

namespace onnx_memopt::estimate {
namespace {

constexpr int64_t kAdapterRank = 8;

bool IsProduct(const UnitFact& unit) {
  return unit.op == "MatMul" || unit.op == "Gemm";
}

void ShareBlocks(Model::View* view) {
  ModelFacts& facts = view->facts;
  for (size_t i = 1; i < view->blocks.blocks.size(); ++i) {
    const Checkpoint& block = view->blocks.blocks[i];
    for (ParameterFact& parameter : facts.parameters) {
      if (parameter.first_use < block.begin ||
          parameter.first_use >= block.end) {
        continue;
      }
      parameter.elements = 0;
      parameter.dims.clear();
    }
  }
}

void LowRank(ModelFacts* facts) {
  std::vector<bool> factor(facts->parameters.size());
  for (const UnitFact& unit : facts->units) {
    if (!IsProduct(unit)) continue;
    for (ParameterIndex p : unit.parameters) factor[p] = true;
  }
  for (size_t p = 0; p < factor.size(); ++p) {
    ParameterFact& parameter = facts->parameters[p];
    if (!factor[p] || parameter.dims.size() != 2) continue;
    const int64_t rows = parameter.dims[0];
    const int64_t columns = parameter.dims[1];
    const int64_t rank = std::min(rows, columns) / 4;
    if (rank == 0 || rank * (rows + columns) >= rows * columns) continue;
    parameter.dims = {rank, rows + columns};
    parameter.elements = rank * (rows + columns);
  }
}

void AddAdapters(Model::View* view) {
  ModelFacts& facts = view->facts;
  const size_t before = facts.parameters.size();
  view->frozen.assign(before, true);
  for (size_t u = 0; u < facts.units.size(); ++u) {
    UnitFact& unit = facts.units[u];
    if (!IsProduct(unit)) continue;
    const auto parameters = unit.parameters;
    for (ParameterIndex p : parameters) {
      const ParameterFact& weight = facts.parameters[p];
      if (weight.dims.size() != 2) continue;
      const int64_t size = weight.dims[0] + weight.dims[1];
      facts.parameters.push_back(
          {.name = weight.name + " (adapter)",
           .dims = {kAdapterRank, size},
           .elements = CheckedMul(kAdapterRank, size).value_or(weight.elements),
           .tensor_split = weight.tensor_split,
           .first_use = static_cast<UnitIndex>(u)});
      unit.parameters.push_back(
          static_cast<ParameterIndex>(facts.parameters.size()) - 1);
    }
  }
  view->frozen.resize(facts.parameters.size(), false);
}

// The activation with a gradient that is made before `at` and read from there
// on; -1: none.
BufferIndex CrossingAt(const ModelFacts& facts, UnitIndex at) {
  std::vector<bool> made(facts.buffers.size());
  for (UnitIndex u = 0; u < at; ++u) {
    for (BufferIndex b : facts.units[u].writes) made[b] = true;
  }
  for (size_t u = at; u < facts.units.size(); ++u) {
    for (BufferIndex b : facts.units[u].reads) {
      if (made[b] && facts.buffers[b].has_gradient &&
          facts.buffers[b].elements.per_sample > 0) {
        return b;
      }
    }
  }
  return -1;
}

void Replace(BufferIndex from, BufferIndex to, BufferList* list) {
  for (BufferIndex& b : *list) {
    if (b == from) b = to;
  }
}

// Leaves out the blocks with an odd number: what comes after one reads what it
// read.
void HalveBlocks(Model::View* view) {
  ModelFacts& facts = view->facts;
  std::vector<bool> removed(facts.units.size());
  for (size_t i = 1; i < view->blocks.blocks.size(); i += 2) {
    const Checkpoint& block = view->blocks.blocks[i];
    const BufferIndex input = CrossingAt(facts, block.begin);
    const BufferIndex output = CrossingAt(facts, block.end);
    if (input < 0 || output < 0 || input == output) continue;
    for (UnitIndex u = block.begin; u < block.end; ++u) removed[u] = true;
    for (size_t u = block.end; u < facts.units.size(); ++u) {
      Replace(output, input, &facts.units[u].reads);
      Replace(output, input, &facts.units[u].saves);
      Replace(output, input, &facts.units[u].gradients);
    }
  }
  std::vector<UnitFact> kept;
  std::vector<bool> used(facts.parameters.size());
  for (size_t u = 0; u < facts.units.size(); ++u) {
    if (removed[u]) continue;
    for (ParameterIndex p : facts.units[u].parameters) {
      if (!used[p])
        facts.parameters[p].first_use = static_cast<UnitIndex>(kept.size());
      used[p] = true;
    }
    kept.push_back(std::move(facts.units[u]));
  }
  facts.units = std::move(kept);
  for (size_t p = 0; p < used.size(); ++p) {
    if (used[p]) continue;
    facts.parameters[p].elements = 0;
    facts.parameters[p].dims.clear();
  }
  view->blocks = FindBlocks(facts);
}

}  // namespace

void ChangeModel(ModelChange change, Model::View* view) {
  const bool alike = view->blocks.repeated && !view->blocks.skips;
  switch (change) {
    case ModelChange::kNone:
      return;
    case ModelChange::kShareBlocks:
      if (alike) ShareBlocks(view);
      return;
    case ModelChange::kLowRank:
      LowRank(&view->facts);
      return;
    case ModelChange::kHalfBlocks:
      if (alike) HalveBlocks(view);
      return;
    case ModelChange::kAdapters:
      AddAdapters(view);
      return;
  }
}

}  // namespace onnx_memopt::estimate
