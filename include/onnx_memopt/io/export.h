// From the IR back to a model: a copy of the source with only what changed
// changed.
//
//   ASSIGN_OR_RETURN(onnx::ModelProto out, Export(*model, graph));
//
// Node lists follow the schedule; nodes and initializers that a pass moved into
// a new subgraph go there as they are in the source, what it made is added;
// nodes, initializers and value_info of what
// was removed are left out; operands that changed are renamed; all else
// (functions, metadata, opsets, unknown fields, training_info) is as in the
// source. Bodies of model-local functions are written back as they were.
//
// A value of the source to which a pass gave another type has no source_block:
// its value_info, or its entry among inputs and outputs, says the new element
// type; an initializer is written anew.
#ifndef ONNX_MEMOPT_IO_EXPORT_H_
#define ONNX_MEMOPT_IO_EXPORT_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx/onnx_pb.h"
#include "onnx_memopt/io/loaded_model.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/ir/weight.h"

namespace onnx_memopt::io {

// By NodeId: entries for the node's metadata_props, by key. Nodes beyond the
// end have none, as have those inside functions, which are written as they
// were.
using NodeMetadata =
    std::vector<std::vector<std::pair<std::string, std::string>>>;

struct ExportOptions {
  NodeMetadata metadata;
  // Inputs get the types that they have in the graph: for a graph whose
  // Graph::sizes_are_bound, and that is good for these alone.
  bool bind_inputs = false;
  // Weights that a pass made and that need not be in the skeleton are put here,
  // for SaveOptions::made; their bytes are views that live as long as the
  // graph. Null: the skeleton has their bytes.
  std::vector<ir::Weight>* made = nullptr;
};

// The skeleton of the result: payloads that Load left in the file stay there,
// until Save puts them back.
absl::StatusOr<onnx::ModelProto> Export(const LoadedModel& source,
                                        const ir::Graph& graph,
                                        const ExportOptions& options = {});

}  // namespace onnx_memopt::io

#endif  // ONNX_MEMOPT_IO_EXPORT_H_
