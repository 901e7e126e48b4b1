#include "onnx-memopt-plan/offsets_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "onnx_memopt/plan/offsets.h"
#include "onnx_memopt/support/atomic_file.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::cli {
namespace {

constexpr std::array<const char*, 4> kColumns = {"id", "lower", "upper",
                                                 "size"};

struct Row {
  std::string id;
  int64_t lower = 0;
  int64_t upper = 0;
  int64_t size = 0;
};

std::vector<absl::string_view> Fields(const std::string& line) {
  std::vector<absl::string_view> fields =
      absl::StrSplit(absl::StripSuffix(line, "\r"), ',');
  for (absl::string_view& field : fields) {
    field = absl::StripAsciiWhitespace(field);
  }
  return fields;
}

// Where each of kColumns is.
absl::StatusOr<std::array<size_t, 4>> ReadHeader(const std::string& line) {
  const std::vector<absl::string_view> fields = Fields(line);
  std::array<size_t, 4> where{};
  for (size_t c = 0; c < kColumns.size(); ++c) {
    const auto it = std::find(fields.begin(), fields.end(), kColumns[c]);
    if (it == fields.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the header has no column \"", kColumns[c],
                       "\"; expected id, lower, upper, size"));
    }
    if (std::find(it + 1, fields.end(), kColumns[c]) != fields.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the header names \"", kColumns[c], "\" twice"));
    }
    where[c] = static_cast<size_t>(it - fields.begin());
  }
  return where;
}

absl::StatusOr<Row> ReadRow(const std::string& line, size_t num_columns,
                            const std::array<size_t, 4>& where) {
  const std::vector<absl::string_view> fields = Fields(line);
  if (fields.size() != num_columns) {
    return absl::InvalidArgumentError(absl::StrCat(
        fields.size(), " fields, expected ", num_columns, " as in the header"));
  }
  Row row{.id = std::string(fields[where[0]])};
  const std::array<int64_t*, 4> numbers = {nullptr, &row.lower, &row.upper,
                                           &row.size};
  for (size_t c = 1; c < numbers.size(); ++c) {
    if (!absl::SimpleAtoi(fields[where[c]], numbers[c])) {
      return absl::InvalidArgumentError(
          absl::StrCat(kColumns[c], " is \"", Printable(fields[where[c]]),
                       "\", expected an integer below 2^63"));
    }
  }
  if (row.size < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a negative size: ", row.size));
  }
  if (row.upper < row.lower) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the life ends at ", row.upper, ", before it begins at ", row.lower));
  }
  return row;
}

void AddBuffers(const std::vector<Row>& rows, OffsetsFile& file) {
  std::vector<int64_t> times;
  for (const Row& row : rows) {
    times.push_back(row.lower);
    times.push_back(row.upper);
  }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  auto rank = [&](int64_t time) {
    return static_cast<int32_t>(
        std::lower_bound(times.begin(), times.end(), time) - times.begin());
  };
  for (const Row& row : rows) {
    file.rows.push_back(
        absl::StrCat(row.id, ",", row.lower, ",", row.upper, ",", row.size));
    if (row.lower == row.upper) {
      file.buffer_of_row.push_back(-1);
      continue;
    }
    file.buffer_of_row.push_back(static_cast<int>(file.buffers.size()));
    file.buffers.push_back({.begin = rank(row.lower),
                            .end = rank(row.upper),
                            .size_bytes = row.size});
  }
}

}  // namespace

absl::StatusOr<OffsetsFile> ReadOffsetsFile(const std::string& path) {
  std::ifstream in(path);
  if (!in) {
    return absl::NotFoundError(
        absl::StrCat(path, ": cannot open: ", std::strerror(errno)));
  }
  auto located = [&](size_t line, const absl::Status& status) {
    return absl::Status(status.code(),
                        absl::StrCat(path, ":", line, ": ", status.message()));
  };
  std::string line;
  if (!std::getline(in, line)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ":1: no header; expected id,lower,upper,size"));
  }
  absl::StatusOr<std::array<size_t, 4>> where = ReadHeader(line);
  if (!where.ok()) return located(1, where.status());
  const size_t num_columns = Fields(line).size();

  std::vector<Row> rows;
  absl::flat_hash_set<std::string> ids;
  for (size_t number = 2; std::getline(in, line); ++number) {
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    absl::StatusOr<Row> row = ReadRow(line, num_columns, *where);
    if (!row.ok()) return located(number, row.status());
    if (!ids.insert(row->id).second) {
      return located(number, absl::InvalidArgumentError(
                                 absl::StrCat("a second buffer with the id \"",
                                              Printable(row->id), "\"")));
    }
    rows.push_back(*std::move(row));
  }
  if (in.bad()) {
    return absl::DataLossError(absl::StrCat(path, ": cannot be read"));
  }
  OffsetsFile file;
  AddBuffers(rows, file);
  return file;
}

absl::Status WriteOffsetsFile(const std::string& path, const OffsetsFile& file,
                              const plan::OffsetPlan& plan) {
  std::string text = "id,lower,upper,size,offset\n";
  for (size_t i = 0; i < file.rows.size(); ++i) {
    const int buffer = file.buffer_of_row[i];
    absl::StrAppend(&text, file.rows[i], ",",
                    buffer < 0 ? 0 : plan.offset_bytes[buffer], "\n");
  }
  absl::StatusOr<AtomicFile> out = AtomicFile::Create(path);
  absl::Status status = out.status();
  if (status.ok()) status = out->writer().Append(text);
  if (status.ok()) status = out->Commit();
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(path, ": ", status.message()));
}

}  // namespace onnx_memopt::cli
