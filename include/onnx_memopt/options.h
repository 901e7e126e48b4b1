// What to do with a model.
//
//   Options options{.dims = {{"batch", {8}}}, .output = "small.onnx"};
#ifndef ONNX_MEMOPT_OPTIONS_H_
#define ONNX_MEMOPT_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace onnx_memopt {

// Where weights outside the model file go when the model is written.
enum class ExternalDataMode {
  // Refer to the data where it is if the output is in the same folder, else
  // copy it next to the output. Beyond 2 GiB, move weights out of the file.
  kAuto,
  kReference,  // always refer to it
  kCopy,       // always copy it, to OUTPUT.data
  kAll,        // also move large weights out of the model file, to OUTPUT.data
};

struct Options {
  // Sizes of named dimensions, for the report and to plan for: the rewritten
  // model takes any. More than one size for a name is a sweep: the
  // report has every combination, and its main part is about the one with the
  // largest peak.
  std::map<std::string, std::vector<int64_t>> dims;
  // Shapes of inputs, in place of those that the model states. They are for the
  // report and the plan, and are not written to the model. The empty name means
  // the only input of a model that has one.
  std::map<std::string, std::vector<int64_t>> input_shapes;

  // Run the passes. Otherwise the model is only analysed.
  bool rewrite = true;
  // A pipeline; empty: the default one.
  std::string passes;

  // By how much the modelled time of a run may grow: 0.1 is 10 %. If it is not
  // given: 0.1, or with a budget as much as that takes.
  std::optional<double> max_slowdown;
  // The fastest model is wanted whose predicted steady peak in ONNX Runtime,
  // with default session options, is no higher.
  std::optional<int64_t> budget_bytes;

  // Also report what training the model would keep for the backward pass.
  bool training = false;

  // Where to write the rewritten model; "-": stdout; empty: nowhere.
  std::string output;
  ExternalDataMode external_data = ExternalDataMode::kAuto;
  // Write what the analyses say of each node into its metadata_props.
  bool annotate = false;
  // Folder of external data, where it is not the model's.
  std::string external_dir;

  // Told what is being done, for example "reorder"; may be empty.
  std::function<void(const std::string& phase)> progress;
};

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_OPTIONS_H_
