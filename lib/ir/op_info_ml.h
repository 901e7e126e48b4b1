// Op table: ai.onnx.ml, ai.onnx.preview and ai.onnx.preview.training. See
// op_row.h. Models and maps are not recomputed; scalings and look-ups may be.
#ifndef ONNX_MEMOPT_LIB_IR_OP_INFO_ML_H_
#define ONNX_MEMOPT_LIB_IR_OP_INFO_ML_H_

#include "ir/op_row.h"

namespace onnx_memopt::ir::op_table {

// Results are float32 by these ops' schemas, as is what optimisers update.
constexpr Row Ml(absl::string_view name) {
  return Row(kMl, name).Float16Since(0).Bfloat16Since(0);
}
constexpr Row Training(absl::string_view name) {
  return Row(kTraining, name).Float16Since(0).Bfloat16Since(0);
}

inline constexpr OpInfo kMlRows[] = {
    // Elementwise, and moves.
    Ml("ArrayFeatureExtractor").Cheap().Flops(flops::Zero).Gradient(At(1)),
    Ml("Binarizer")
        .Cheap()
        .Flops(flops::PerResult<1>)
        .Shape(shape_rules::SameAsFirst)
        .NoGradient(),
    Ml("FeatureVectorizer").Cheap().Flops(flops::Zero).Gradient(kNone),
    Ml("Imputer")
        .Cheap()
        .Flops(flops::PerResult<1>)
        .Shape(shape_rules::SameAsFirst)
        .Gradient(At(0)),
    Ml("Normalizer")
        .Moderate()
        .Flops(flops::PerResult<3>)
        .Gradient(At(0), At(0)),
    Ml("Scaler").Cheap().Flops(flops::PerResult<2>).Gradient(kNone),

    // Look-ups: cost no arithmetic, but a search for each element.
    Ml("CategoryMapper").Moderate().Flops(flops::Zero).NoGradient(),
    Ml("LabelEncoder").Moderate().Flops(flops::Zero).NoGradient(),
    Ml("OneHotEncoder").Moderate().Flops(flops::Zero).NoGradient(),

    // Maps: neither sized nor recomputed.
    Ml("CastMap").NoGradient(),
    Ml("DictVectorizer").NoGradient(),
    Ml("ZipMap").NoGradient(),

    // Models whose coefficients are attributes.
    Ml("LinearClassifier").Expensive().GradientUnknown(),
    Ml("LinearRegressor").Expensive().GradientUnknown(),
    Ml("SVMClassifier").Expensive().GradientUnknown(),
    Ml("SVMRegressor").Expensive().GradientUnknown(),
    // Constant between their thresholds.
    Ml("TreeEnsemble").Expensive().NoGradient(),
    Ml("TreeEnsembleClassifier").Expensive().NoGradient(),
    Ml("TreeEnsembleRegressor").Expensive().NoGradient(),

    // Its score and probability functions are blocks.
    Row(kPreview, "FlexAttention").Bfloat16Since(1).GradientUnknown(),

    // Optimiser steps are elementwise, but read state that the same step
    // replaces: kept out of recomputation.
    Training("Adagrad").NoGradient(),
    Training("Adam").NoGradient(),
    Training("Momentum").NoGradient(),
    Training("Gradient").GradientUnknown(),
};

}  // namespace onnx_memopt::ir::op_table

#endif  // ONNX_MEMOPT_LIB_IR_OP_INFO_ML_H_
