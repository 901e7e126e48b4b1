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

#include "absl/container/flat_hash_map.h"
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

// The columns that may be absent.
constexpr const char* kPool = "pool";
constexpr const char* kOver = "over";

constexpr size_t kAbsent = static_cast<size_t>(-1);

struct Columns {
  std::array<size_t, 4> number{};  // where each of kColumns is
  size_t pool = kAbsent;
  size_t over = kAbsent;
  size_t count = 0;
};

struct Row {
  size_t line = 0;
  std::string id;
  std::string pool;
  std::string over;
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

// Where the column is; kAbsent if there is none.
absl::StatusOr<size_t> FindColumn(const std::vector<absl::string_view>& fields,
                                  const char* name) {
  const auto it = std::find(fields.begin(), fields.end(), name);
  if (it == fields.end()) return kAbsent;
  if (std::find(it + 1, fields.end(), name) != fields.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the header names \"", name, "\" twice"));
  }
  return static_cast<size_t>(it - fields.begin());
}

absl::StatusOr<Columns> ReadHeader(const std::string& line) {
  const std::vector<absl::string_view> fields = Fields(line);
  Columns columns{.count = fields.size()};
  for (size_t c = 0; c < kColumns.size(); ++c) {
    ASSIGN_OR_RETURN(columns.number[c], FindColumn(fields, kColumns[c]));
    if (columns.number[c] == kAbsent) {
      return absl::InvalidArgumentError(
          absl::StrCat("the header has no column \"", kColumns[c],
                       "\"; expected id, lower, upper, size"));
    }
  }
  ASSIGN_OR_RETURN(columns.pool, FindColumn(fields, kPool));
  ASSIGN_OR_RETURN(columns.over, FindColumn(fields, kOver));
  return columns;
}

absl::StatusOr<Row> ReadRow(const std::string& line, const Columns& columns) {
  const std::vector<absl::string_view> fields = Fields(line);
  const std::array<size_t, 4>& where = columns.number;
  if (fields.size() != columns.count) {
    return absl::InvalidArgumentError(
        absl::StrCat(fields.size(), " fields, expected ", columns.count,
                     " as in the header"));
  }
  Row row{.id = std::string(fields[where[0]])};
  if (columns.pool != kAbsent) row.pool = std::string(fields[columns.pool]);
  if (columns.over != kAbsent) row.over = std::string(fields[columns.over]);
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
  absl::flat_hash_map<std::string, int32_t> pools;
  for (const Row& row : rows) {
    file.rows.push_back(
        absl::StrCat(row.id, ",", row.lower, ",", row.upper, ",", row.size));
    if (file.has_pools) absl::StrAppend(&file.rows.back(), ",", row.pool);
    const auto [pool, fresh] =
        pools.try_emplace(row.pool, static_cast<int32_t>(file.pools.size()));
    if (fresh) file.pools.push_back(row.pool);
    if (row.lower == row.upper) {
      file.buffer_of_row.push_back(-1);
      continue;
    }
    file.buffer_of_row.push_back(static_cast<int>(file.buffers.size()));
    file.buffers.push_back({.begin = rank(row.lower),
                            .end = rank(row.upper),
                            .size_bytes = row.size});
    file.pool_of_buffer.push_back(pool->second);
  }
}

// Whether `result` may be computed in place over `operand`.
absl::Status CheckInPlace(const Row& operand, const Row& result) {
  if (operand.pool != result.pool) {
    return absl::InvalidArgumentError(
        absl::StrCat("is in pool \"", Printable(result.pool), "\", but \"",
                     Printable(operand.id), "\", which it lies over, is in \"",
                     Printable(operand.pool), "\""));
  }
  if (result.lower == result.upper || operand.lower >= result.lower ||
      operand.upper - 1 != result.lower) {
    return absl::InvalidArgumentError(absl::StrCat(
        "begins at ", result.lower, ", not in the last step of \"",
        Printable(operand.id), "\", which it lies over, and after its first"));
  }
  if (result.size > operand.size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "has ", result.size, " bytes, more than the ", operand.size, " of \"",
        Printable(operand.id), "\", which it lies over"));
  }
  return absl::OkStatus();
}

// The pairs of buffers of the column `over`.
absl::Status AddInPlace(
    const std::vector<Row>& rows,
    const absl::flat_hash_map<std::string, size_t>& row_of_id,
    const std::string& path, OffsetsFile& file) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    if (row.over.empty()) continue;
    const auto it = row_of_id.find(row.over);
    const absl::Status status =
        it == row_of_id.end()
            ? absl::InvalidArgumentError(absl::StrCat(
                  "over names \"", Printable(row.over), "\", no such buffer"))
            : CheckInPlace(rows[it->second], row);
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ":", row.line, ": buffer \"", Printable(row.id),
                       "\": ", status.message()));
    }
    file.in_place.push_back({.operand = file.buffer_of_row[it->second],
                             .result = file.buffer_of_row[i]});
  }
  return absl::OkStatus();
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
  const absl::StatusOr<Columns> columns = ReadHeader(line);
  if (!columns.ok()) return located(1, columns.status());

  std::vector<Row> rows;
  absl::flat_hash_map<std::string, size_t> ids;
  for (size_t number = 2; std::getline(in, line); ++number) {
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    absl::StatusOr<Row> row = ReadRow(line, *columns);
    if (!row.ok()) return located(number, row.status());
    row->line = number;
    if (!ids.try_emplace(row->id, rows.size()).second) {
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
  file.has_pools = columns->pool != kAbsent;
  AddBuffers(rows, file);
  RETURN_IF_ERROR(AddInPlace(rows, ids, path, file));
  return file;
}

absl::Status WriteOffsetsFile(const std::string& path, const OffsetsFile& file,
                              const plan::OffsetPlan& plan) {
  std::string text = file.has_pools ? "id,lower,upper,size,pool,offset\n"
                                    : "id,lower,upper,size,offset\n";
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
