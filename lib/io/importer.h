// What the reader knows of each node beside the IR: its proto, and the call
// that its attributes may refer to. Shared by import.cc and type_inference.cc.
#ifndef ONNX_MEMOPT_LIB_IO_IMPORTER_H_
#define ONNX_MEMOPT_LIB_IO_IMPORTER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "onnx/onnx_pb.h"
#include "onnx_memopt/io/import.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::io {

// A call of a model-local function, while its body is read: what the body's
// attribute references stand for.
struct CallFrame {
  const onnx::FunctionProto* function = nullptr;
  const CallFrame* caller = nullptr;
  absl::flat_hash_map<std::string, const onnx::AttributeProto*> attributes;
};

struct NodeSource {
  const onnx::NodeProto* proto = nullptr;  // null: the reader made the node
  const CallFrame* frame = nullptr;        // null outside functions
};

struct ImportState {
  ir::Graph graph;
  std::vector<NodeSource> node_sources;                 // by NodeId
  std::vector<const onnx::TypeProto*> stated_types;     // by ValueId
  std::vector<const onnx::TensorProto*> weight_protos;  // by WeightId; or null
  std::vector<std::unique_ptr<CallFrame>> frames;

  // Makes room for what the main graph defines: there the most is.
  void Reserve(const onnx::GraphProto& main);
  // Says at most a few times the same kind of thing.
  void Warn(std::string message);
  size_t warnings_left_out = 0;
};

// The attribute that `attribute` stands for: itself, or what a reference in a
// function body refers to. Null if the call leaves that one out.
const onnx::AttributeProto* ResolveAttribute(
    const onnx::AttributeProto& attribute, const CallFrame* frame);

// Types and contents of every value, in schedule order. `options` binds names.
absl::Status InferTypes(const ImportOptions& options, ImportState* state);

}  // namespace onnx_memopt::io

#endif  // ONNX_MEMOPT_LIB_IO_IMPORTER_H_
