#include "driver/module_names.h"

#include "gtest/gtest.h"

namespace onnx_memopt {
namespace {

TEST(ModuleNamesTest, TakesTheScopeAroundTheOp) {
  EXPECT_EQ(ModuleOfScopes("['', 'layer1', 'layer1.0', 'conv2d_1']"),
            "layer1.0");
  EXPECT_EQ(ModuleOfScopes("['', 'relu']"), "");
  EXPECT_EQ(ModuleOfScopes("['relu']"), "");
  EXPECT_EQ(ModuleOfScopes(""), "");
  EXPECT_EQ(ModuleOfScopes("'"), "");
}

TEST(ModuleNamesTest, ReadsScopesInNamesOfNodes) {
  EXPECT_EQ(ModuleOfNodeName("/r1/b2/BatchNormalization"), "r1.b2");
  EXPECT_EQ(ModuleOfNodeName("/layer1/layer1.0/Conv"), "layer1.0");
  EXPECT_EQ(ModuleOfNodeName("/h.0/attn/Add"), "h.0.attn");
  EXPECT_EQ(ModuleOfNodeName("/Gemm"), "");
  EXPECT_EQ(ModuleOfNodeName("node_conv2d"), "");
  EXPECT_EQ(ModuleOfNodeName("/"), "");
}

}  // namespace
}  // namespace onnx_memopt
