#include "grad/wrapped_modules.h"

#include <cstddef>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace onnx_memopt::grad {
namespace {

// Of what a module saves, so much has to be made again.
constexpr double kMostly = 0.75;

size_t At(int32_t index) { return static_cast<size_t>(index); }

struct ModuleFacts {
  int64_t saved_bytes = 0;
  int64_t again_bytes = 0;
  size_t again_nodes = 0;
  size_t values = 0;  // that are saved
  size_t first = 0;   // unit
};

}  // namespace

std::vector<WrappedModule> ModulesToWrap(
    const StepUnits& units, absl::Span<const int32_t> runs,
    const std::vector<std::string>& modules) {
  std::vector<int> times(units.size());
  for (int32_t unit : runs) ++times[At(unit)];
  std::vector<bool> saved(units.size());
  for (const StepUnit& unit : units.units()) {
    if (unit.is_forward) continue;
    for (int32_t input : unit.inputs) saved[At(input)] = true;
  }
  std::map<std::string, ModuleFacts> facts;  // parents before children
  for (size_t u = 0; u < units.size(); ++u) {
    const StepUnit& unit = units.units()[u];
    const size_t node = ir::Index(unit.nodes.back());
    if (!unit.is_forward || node >= modules.size()) continue;
    const std::string& module = modules[node];
    // The module and all those around it.
    for (size_t end = module.empty() ? std::string::npos : 0;
         end != std::string::npos;) {
      end = module.find('.', end + 1);
      ModuleFacts& f =
          facts.try_emplace(module.substr(0, end), ModuleFacts{.first = u})
              .first->second;
      if (times[u] > 1) f.again_nodes += unit.nodes.size();
      if (!saved[u]) continue;
      ++f.values;
      f.saved_bytes += unit.bytes;
      if (times[u] > 1) f.again_bytes += unit.bytes;
    }
  }
  std::map<size_t, WrappedModule> wrapped;  // by place in the forward pass
  std::vector<std::string> taken;
  for (const auto& [module, f] : facts) {
    // A single value is what the module hands on, which stays all the same.
    if (f.values < 2 || static_cast<double>(f.again_bytes) <
                            kMostly * static_cast<double>(f.saved_bytes)) {
      continue;
    }
    bool inside = false;
    for (const std::string& other : taken) {
      inside = inside || absl::StartsWith(module, absl::StrCat(other, "."));
    }
    if (inside) continue;
    taken.push_back(module);
    wrapped[f.first] = {
        .module = module, .bytes = f.again_bytes, .nodes = f.again_nodes};
  }
  std::vector<WrappedModule> result;
  result.reserve(wrapped.size());
  for (auto& [place, module] : wrapped) result.push_back(std::move(module));
  return result;
}

}  // namespace onnx_memopt::grad
