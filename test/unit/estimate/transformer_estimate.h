// A generated transformer, ready to be estimated.
#ifndef ONNX_MEMOPT_TEST_UNIT_ESTIMATE_TRANSFORMER_ESTIMATE_H_
#define ONNX_MEMOPT_TEST_UNIT_ESTIMATE_TRANSFORMER_ESTIMATE_H_

#include <memory>
#include <utility>

#include "gtest/gtest.h"
#include "onnx_memopt/estimate/configuration.h"
#include "onnx_memopt/io/import.h"
#include "onnx_memopt/io/loaded_model.h"
#include "onnx_memopt/ir/graph.h"
#include "support/transformer_model.h"

namespace onnx_memopt::testing {

class TransformerEstimate {
 public:
  explicit TransformerEstimate(const TransformerSizes& sizes) {
    auto loaded = io::FromProto(MakeTransformer(sizes), "");
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    auto graph = io::Import(*loaded, {});
    EXPECT_TRUE(graph.ok()) << graph.status();
    graph_ = std::make_unique<ir::Graph>(*std::move(graph));
    model_ = std::make_unique<estimate::Model>(graph_.get(), "");
  }

  estimate::Model* model() { return model_.get(); }
  estimate::Estimate Of(const estimate::Configuration& configuration) {
    auto estimate =
        estimate::Evaluate(model_.get(), configuration, {.allocators = false});
    EXPECT_TRUE(estimate.ok()) << estimate.status();
    return estimate.ok() ? *std::move(estimate) : estimate::Estimate{};
  }
  // Of one GPU that runs the whole model.
  int64_t Saved(const estimate::Configuration& configuration) {
    return Of(configuration).worst().saved_bytes;
  }

 private:
  std::unique_ptr<ir::Graph> graph_;
  std::unique_ptr<estimate::Model> model_;
};

}  // namespace onnx_memopt::testing

#endif  // ONNX_MEMOPT_TEST_UNIT_ESTIMATE_TRANSFORMER_ESTIMATE_H_
