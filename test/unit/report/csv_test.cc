#include "onnx_memopt/report/csv.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace onnx_memopt {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

Report OneTensor(const std::string& name) {
  Report report;
  report.tensors = {{.name = name,
                     .producer = "conv",
                     .kind = "activation",
                     .dtype = "float",
                     .shape = "[1, 8]",
                     .bytes = 32,
                     .begin = 2,
                     .end = 5,
                     .storage = 7,
                     .graph = 1}};
  return report;
}

TEST(CsvTest, ARowForEachTensor) {
  EXPECT_EQ(TensorsToCsv(OneTensor("x")),
            "graph,name,producer,kind,dtype,shape,bytes,begin,end,storage,"
            "bytes_formula\r\n"
            "1,x,conv,activation,float,\"[1, 8]\",32,2,5,7,\r\n");
}

TEST(CsvTest, AnUnknownSizeIsAnEmptyCell) {
  Report report = OneTensor("x");
  report.tensors[0].bytes.reset();
  report.tensors[0].bytes_formula = "4*n + 8";
  EXPECT_THAT(TensorsToCsv(report), EndsWith("\"[1, 8]\",,2,5,7,4*n + 8\r\n"));
}

TEST(CsvTest, WhatSeparatesCellsIsQuoted) {
  EXPECT_THAT(TensorsToCsv(OneTensor("a,b")), HasSubstr("1,\"a,b\",conv"));
  EXPECT_THAT(TensorsToCsv(OneTensor("a\"b")), HasSubstr("1,\"a\"\"b\",conv"));
  EXPECT_THAT(TensorsToCsv(OneTensor("a\r\nb")),
              HasSubstr("1,\"a\r\nb\",conv"));
}

// A spreadsheet runs what looks like a formula.
TEST(CsvTest, ANameIsNoFormula) {
  for (const std::string start : {"=", "+", "-", "@", "\t=", " @"}) {
    EXPECT_THAT(TensorsToCsv(OneTensor(start + "SUM(A1)")),
                HasSubstr("1,'" + start + "SUM(A1),conv"));
  }
  EXPECT_THAT(TensorsToCsv(OneTensor("=A1,B1")), HasSubstr("\"'=A1,B1\""));
  EXPECT_THAT(TensorsToCsv(OneTensor("x=1")), HasSubstr("1,x=1,conv"));
}

}  // namespace
}  // namespace onnx_memopt
