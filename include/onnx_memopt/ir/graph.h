// The IR: one model as nodes, values and blocks with dense ids.
//
// A Block is an ONNX graph: the main graph (kMainBlock), a subgraph attribute
// of If, Loop or Scan, or the body of a model-local function at one call.
// Blocks own an ordered list of nodes; that order is the schedule. A node in a
// nested block may use values of the blocks around it (a capture).
//
//   main block
//   +-----------------------------+
//   | n0 = Conv(x, w)             |   Node.blocks of an If: {then, else};
//   | n1 = If(c)                  |   of a Loop or Scan: {body};
//   |       then: +-------------+ |   of a call: {body}.
//   |             | n2 = Relu() | |
//   |             +-------------+ |
//   +-----------------------------+
//
// A call's body is instantiated per call, so its values have types of their
// own. It has no params: its nodes use the caller's values directly, and define
// the call's results.
//
// Contract: every value has one definition; operands are defined before their
// use in the schedule; ids are never reused. ir::Verify checks it.
//
//   for (NodeId n : graph.block(kMainBlock).nodes)
//     for (ValueId v : graph.node(n).operands)
//       if (v != kNoValue) Use(graph.value(v));
#ifndef ONNX_MEMOPT_IR_GRAPH_H_
#define ONNX_MEMOPT_IR_GRAPH_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "onnx_memopt/ir/attribute.h"
#include "onnx_memopt/ir/contents.h"
#include "onnx_memopt/ir/ids.h"
#include "onnx_memopt/ir/op_info.h"
#include "onnx_memopt/ir/type.h"
#include "onnx_memopt/ir/weight.h"

namespace onnx_memopt::ir {

enum class ValueKind : uint8_t {
  kInput,        // of the main graph; owned by the caller of the runtime
  kInitializer,  // a weight; also an input where the caller may override it
  kResult,       // of a node
  kBlockParam,   // of a subgraph: Loop's and Scan's body inputs
};

struct Value {
  std::string name;
  Type type;
  ValueKind kind = ValueKind::kResult;
  // Also listed as a graph input: the caller may pass another tensor.
  bool overridable = false;
  // The model names it outside its nodes too (quantization_annotation,
  // training_info): it keeps its name and stays.
  bool pinned = false;
  // The file says which shape it has, for a runtime whose inference does not.
  bool shape_is_stated = false;
  BlockId block = kNoBlock;  // where it is defined
  // The graph of the source model that defines it; kNoBlock: a pass made it.
  BlockId source_block = kNoBlock;
  NodeId producer = kNoNode;    // of a kResult; for a call's result, the call
  WeightId weight = kNoWeight;  // of a kInitializer, and of Constant's result
  // Elements known before the run (shape arithmetic); null: not known.
  std::shared_ptr<const Contents> contents;
};

struct Node {
  std::string name;  // may be empty
  std::string op_type;
  std::string domain;  // "" is ai.onnx
  int opset = 0;       // version of `domain` that the model imports
  BlockId block = kNoBlock;
  llvm::SmallVector<ValueId, 4> operands;  // kNoValue: left out
  llvm::SmallVector<ValueId, 2> results;   // kNoValue: left out
  std::vector<Attribute> attributes;
  llvm::SmallVector<BlockId, 1> blocks;
  bool is_call = false;          // of a model-local function
  const OpInfo* info = nullptr;  // never null: unknown ops have a row too
  // Where it is in the source model: a graph or function body, and the position
  // in its node list. kNoBlock and kNoIndex for a node that a pass made. A pass
  // may move a node from its graph into a new block inside that graph.
  BlockId source_block = kNoBlock;
  uint32_t source_index = kNoIndex;

  // The node is written as it is now, and not as it was read.
  void ForgetSource() {
    source_block = kNoBlock;
    source_index = kNoIndex;
  }
};

enum class BlockKind : uint8_t { kMain, kSubgraph, kCallBody };

struct Block {
  BlockKind kind = BlockKind::kMain;
  bool from_source = false;           // false: a pass made it
  NodeId owner = kNoNode;             // the node it belongs to
  std::string attribute_name;         // kSubgraph: "then_branch", "body", ...
  std::string name;                   // of the GraphProto or the function
  std::vector<ValueId> params;        // inputs that are not initializers
  std::vector<ValueId> initializers;  // in file order, overridable ones too
  std::vector<NodeId> nodes;          // the schedule
  std::vector<ValueId> results;       // outputs; kNoValue in none
};

class Graph {
 public:
  Graph() = default;
  Graph(Graph&&) noexcept = default;
  Graph& operator=(Graph&&) noexcept = default;
  // A copy with the same ids, to try a change on. Bytes are shared.
  Graph Clone() const { return *this; }

  size_t num_nodes() const { return nodes_.size(); }
  size_t num_values() const { return values_.size(); }
  size_t num_blocks() const { return blocks_.size(); }
  size_t num_weights() const { return weights_.size(); }

  const Node& node(NodeId id) const { return nodes_[Index(id)]; }
  const Value& value(ValueId id) const { return values_[Index(id)]; }
  const Block& block(BlockId id) const { return blocks_[Index(id)]; }
  const Weight& weight(WeightId id) const { return weights_[Index(id)]; }
  Node& mutable_node(NodeId id) { return nodes_[Index(id)]; }
  Value& mutable_value(ValueId id) { return values_[Index(id)]; }
  Block& mutable_block(BlockId id) { return blocks_[Index(id)]; }

  // Building. References to nodes, values, blocks and weights stay good while
  // others are added.
  //
  // A new node is not in its block's schedule until it is put there.
  BlockId AddBlock(Block block);
  NodeId AddNode(Node node);
  ValueId AddValue(Value value);
  WeightId AddWeight(Weight weight);
  // Keeps the bytes of a weight that a pass makes as long as the graph.
  absl::string_view OwnBytes(std::string bytes);

  // True if the node was erased, or lies in a block of an erased node.
  bool erased(NodeId id) const { return erased_[Index(id)]; }
  // Takes the nodes for which `dead` holds, and all nodes in their blocks, out
  // of the schedule of `block`.
  void EraseNodes(BlockId block, absl::Span<const NodeId> dead);
  // Every use of a key as operand or block result becomes a use of its value.
  // One pass over the graph, however many there are.
  void ReplaceUses(const llvm::DenseMap<ValueId, ValueId>& replacements);

  // A name for messages and reports: the node's own, else its first result's
  // with the op type, else "OP#id".
  std::string DisplayName(NodeId id) const;
  // The block that holds this value's or node's enclosing node, and so on up:
  // true if `inner` is `outer` or nested in it.
  bool IsInside(BlockId inner, BlockId outer) const;

  // Owner of the bytes that weights refer to (the mapped file, the arena of the
  // parsed model). Keeps them alive as long as the graph.
  std::shared_ptr<const void> payload_owner;
  // Gives back memory that reading these bytes has made resident; they come
  // from the file again when they are next read. Empty where there is no file.
  std::function<void()> drop_resident;
  // What the reader noticed and repaired, for the report: "nodes of the graph
  // were not sorted", "value_info of "t" says ..., inferred ...".
  std::vector<std::string> warnings;
  // Named dimensions of the inputs that are not bound, in order of appearance.
  std::vector<std::string> symbols;
  // What numbers are given for: a size for each of them; 1 where there is none.
  Bindings assumed;
  // Types and known elements hold for sizes and input shapes that were given
  // when the model was read, and not for all that the model takes: a pass must
  // not write what follows from them.
  bool sizes_are_bound = false;

 private:
  Graph(const Graph&) = default;

  // Deques, so that a reference to one stays good while others are added.
  std::deque<Node> nodes_;
  std::deque<Value> values_;
  std::deque<Block> blocks_;
  std::deque<Weight> weights_;
  std::vector<bool> erased_;
  std::shared_ptr<std::deque<std::string>> owned_bytes_;
};

// The attribute's value, or the default where the node has none of that type.
int64_t IntAttribute(const Node& node, absl::string_view name,
                     int64_t default_value);
float FloatAttribute(const Node& node, absl::string_view name,
                     float default_value);
std::string StringAttribute(const Node& node, absl::string_view name,
                            absl::string_view default_value);
// nullptr where the node has none of that type.
const std::vector<int64_t>* IntsAttribute(const Node& node,
                                          absl::string_view name);
const std::vector<float>* FloatsAttribute(const Node& node,
                                          absl::string_view name);

// A deterministic topological order of `nodes`, stable: a list that is sorted
// already comes back as it is. Dependencies are operands and what nested blocks
// capture. The error names a node and a tensor of a cycle.
absl::StatusOr<std::vector<NodeId>> TopologicalOrder(
    const Graph& graph, absl::Span<const NodeId> nodes);

// The blocks of a node and those in them, at any depth, each before what is in
// it.
std::vector<BlockId> BlocksWithin(const Graph& graph, NodeId node);
// The main graph and its subgraphs at any depth, each before what is in it, but
// not the bodies of calls.
std::vector<BlockId> BlocksOutsideCalls(const Graph& graph);

// Appends the values of outer blocks that `node` reads: its operands, and what
// its blocks use but do not define. No duplicates.
void CollectUses(const Graph& graph, NodeId node, std::vector<ValueId>* uses);

// Gives named dimensions their sizes, for good: types and known elements become
// numbers, and the names leave Graph::symbols. A model that is to work for any
// size must not be written from such a graph; sizes that passes plan for are in
// Graph::assumed.
void Bind(const Bindings& sizes, Graph* graph);

// Checks the contract above; the message names the node and the tensor.
absl::Status Verify(const Graph& graph);

// The graph as text, one node a line, nested blocks indented:
//   %y = Relu(%x) : float[1, 8]
std::string ToString(const Graph& graph);

}  // namespace onnx_memopt::ir

#endif  // ONNX_MEMOPT_IR_GRAPH_H_
