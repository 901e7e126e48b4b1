// The module of the exporter that each node is of: "layer1.0.conv2".
//
// PyTorch's exporter writes it into the node's metadata
// (pkg.torch.onnx.name_scopes); the one before it, and others, name nodes by it
// ("/layer1/layer1.0/conv2/Conv").
//
//   std::vector<std::string> modules = ModuleNames(*model, graph);
//   modules[Index(node)];  // empty: none is named
#ifndef ONNX_MEMOPT_LIB_DRIVER_MODULE_NAMES_H_
#define ONNX_MEMOPT_LIB_DRIVER_MODULE_NAMES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "onnx_memopt/io/loaded_model.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt {

// By node, for those of the model's main graph.
std::vector<std::string> ModuleNames(const io::LoadedModel& model,
                                     const ir::Graph& graph);

// Of "['', 'layer1', 'layer1.0', 'conv2d_1']", whose last entry is the op:
// "layer1.0".
std::string ModuleOfScopes(absl::string_view scopes);
// Of "/layer1/layer1.0/Conv": "layer1.0"; of "/h.0/attn/Add": "h.0.attn".
std::string ModuleOfNodeName(absl::string_view name);

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_LIB_DRIVER_MODULE_NAMES_H_
