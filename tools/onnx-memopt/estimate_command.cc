#include "onnx-memopt/estimate_command.h"

#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "onnx-memopt/arguments.h"
#include "onnx-memopt/command_line.h"
#include "onnx-memopt/write_text.h"
#include "onnx_memopt/estimate.h"
#include "onnx_memopt/report/html.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::cli {
namespace {

constexpr char kHelp[] =
    R"(Says how much GPU memory a model takes in training or serving, on which GPU
it fits, and what to change. Reads the ONNX file alone: no weights, no run.

Usage: onnx-memopt estimate [OPTIONS] MODEL

The model and its sizes:
  --batch N                samples that one GPU works on at a time; if not
                           given, the batch that the model is for
  --dim NAME=N             size of a named dimension of the inputs
  --batch-dim NAME         the named dimension that is the batch, if it is not
                           the first of the inputs
  --external-dir FOLDER    where weights outside the model file are

Training:
  --optimizer NAME         sgd, momentum, adam (the default), adamw, adafactor,
                           adam8bit, lion
  --precision NAME         fp32 (the default); fp16, bf16 with float32 master
                           weights; autocast-fp16, autocast-bf16 with float32
                           weights, as torch.autocast; bf16-pure; fp8
  --loss NAME              cross-entropy, mse, none; if not given, mse for
                           outputs of four dimensions, else cross-entropy
  --checkpoint WHAT        none (the default)
                           selective  compute attention scores again
                           full       keep the input of each block alone
                           sqrt       of groups of blocks
                           N          of groups of N blocks
                           SIZE       as little as takes no more than SIZE, for
                                      example 20GiB
                           fit        as little as fits --gpu or --memory
  --attention NAME         graph  as the model has it written out (the default)
                           fused  as one operator that keeps no scores
  --accumulate K           steps whose gradients are added up
  --inference              serving: forward alone, no gradients

Several GPUs:
  --dp N                   data parallel: N copies
  --zero 0|1|2|3           what the copies share: optimizer state, gradients
                           too, parameters too
  --offload WHAT           optimizer,parameters in the host's memory
  --tp N                   tensor parallel: products divided among N GPUs
  --sequence-parallel      with --tp: what is not divided is, by tokens
  --pp N                   pipeline of N stages
  --micro-batches M        in one step of the pipeline
  --schedule NAME          1f1b (the default), gpipe

Hardware:
  --gpu NAME               for example A100-80GB; all: every GPU of the table
  --memory SIZE            in place of a GPU, for example 24GiB
  --max-batch              the largest batch and length that fit, and batches by
                           length

Output:
  --json FILE              the estimate as JSON; - for stdout, without the text
  --html FILE              the estimate as a page that needs no network
  --emit-deepspeed FILE    a configuration for DeepSpeed
  --emit-accelerate FILE   a configuration for Accelerate
  -q, --quiet              no text

  -h, --help               this text

Examples:
  onnx-memopt estimate gpt2.onnx --batch 8 --precision bf16 --gpu RTX-4090
  onnx-memopt estimate gpt2.onnx --batch 8 --gpu all
  onnx-memopt estimate bert.onnx --dim seq=512 --memory 24GiB --max-batch
  onnx-memopt estimate gpt2.onnx --batch 16 --gpu RTX-4090 --checkpoint fit
  onnx-memopt estimate gpt2.onnx --dp 4 --zero 2 --emit-deepspeed ds.json

Exit codes: 0 all went well, 1 the model or a file, 2 usage.
)";

struct EstimateArguments {
  std::string model;
  EstimateOptions options;
  std::string json;
  std::string html;
  std::string deepspeed;
  std::string accelerate;
  bool quiet = false;
};

class EstimateParser {
 public:
  EstimateParser() : app_("", "onnx-memopt estimate") {
    EstimateOptions& o = args_.options;
    app_.add_option("MODEL", args_.model);
    app_.add_option("--batch", batch_);
    app_.add_option("--dim", dims_)->allow_extra_args(false);
    app_.add_option("--batch-dim", o.batch_dim);
    app_.add_option("--external-dir", o.external_dir);
    app_.add_option("--optimizer", o.optimizer);
    app_.add_option("--precision", o.precision);
    app_.add_option("--loss", o.loss);
    app_.add_option("--checkpoint", o.checkpoint);
    app_.add_option("--attention", o.attention);
    app_.add_option("--accumulate", o.accumulate);
    app_.add_flag("--inference", inference_);
    app_.add_option("--dp", o.data_parallel);
    app_.add_option("--zero", o.zero);
    app_.add_option("--offload", offload_);
    app_.add_option("--tp", o.tensor_parallel);
    app_.add_flag("--sequence-parallel", o.sequence_parallel);
    app_.add_option("--pp", o.pipeline_parallel);
    app_.add_option("--micro-batches", o.micro_batches);
    app_.add_option("--schedule", o.schedule);
    app_.add_option("--gpu", o.gpu);
    app_.add_option("--memory", memory_);
    app_.add_flag("--max-batch", o.max_batch);
    app_.add_option("--json", args_.json);
    app_.add_option("--html", args_.html);
    app_.add_option("--emit-deepspeed", args_.deepspeed);
    app_.add_option("--emit-accelerate", args_.accelerate);
    app_.add_flag("-q,--quiet", args_.quiet);
  }

  // Set: the program is to end here.
  std::optional<int> Parse(int argc, char** argv) {
    if (const auto code = ParseCommand(app_, kHelp, argc, argv)) return code;
    const absl::Status status = Finish();
    if (!status.ok())
      return UsageError("onnx-memopt estimate", status.message());
    return std::nullopt;
  }

  const EstimateArguments& arguments() const { return args_; }

 private:
  absl::Status Finish() {
    if (args_.model.empty()) {
      return absl::InvalidArgumentError("no model is given");
    }
    args_.options.training = !inference_;
    if (!batch_.empty()) {
      ASSIGN_OR_RETURN(args_.options.batch, ParseCount("--batch", batch_));
    }
    for (const std::string& dim : dims_) {
      RETURN_IF_ERROR(AddNamedSize(dim, &args_.options.dims));
    }
    if (!offload_.empty()) {
      for (absl::string_view what : absl::StrSplit(offload_, ',')) {
        if (what == "optimizer") {
          args_.options.offload_optimizer = true;
        } else if (what == "parameters") {
          args_.options.offload_parameters = true;
        } else {
          return absl::InvalidArgumentError(absl::StrCat(
              "--offload: expected optimizer or parameters, not \"", what,
              "\""));
        }
      }
    }
    if (!memory_.empty()) {
      ASSIGN_OR_RETURN(args_.options.memory_bytes, ParseBytes(memory_));
    }
    return absl::OkStatus();
  }

  CLI::App app_;
  EstimateArguments args_;
  std::string batch_;
  std::vector<std::string> dims_;
  std::string offload_;
  std::string memory_;
  bool inference_ = false;
};

absl::Status WriteOutputs(const EstimateArguments& arguments,
                          const EstimateReport& report) {
  const std::string json = EstimateToJson(report, ONNX_MEMOPT_VERSION);
  if (!arguments.json.empty()) RETURN_IF_ERROR(WriteText(arguments.json, json));
  if (!arguments.html.empty()) {
    ASSIGN_OR_RETURN(const std::string page, JsonToHtml(json));
    RETURN_IF_ERROR(WriteText(arguments.html, page));
  }
  if (!arguments.deepspeed.empty()) {
    RETURN_IF_ERROR(WriteText(arguments.deepspeed, report.deepspeed_json));
  }
  if (!arguments.accelerate.empty()) {
    RETURN_IF_ERROR(WriteText(arguments.accelerate, report.accelerate_yaml));
  }
  return absl::OkStatus();
}

int Fail(const absl::Status& status) {
  std::cerr << "error: " << Printable(status.message()) << "\n";
  return status.code() == absl::StatusCode::kOutOfRange ? kExitUsage
                                                        : kExitModelError;
}

}  // namespace

int RunEstimate(int argc, char** argv) {
  EstimateParser parser;
  if (const std::optional<int> code = parser.Parse(argc, argv)) return *code;
  const EstimateArguments& arguments = parser.arguments();
  if (!arguments.html.empty()) {
    const absl::Status page = CheckPage();
    if (!page.ok()) return Fail(page);
  }
  const absl::StatusOr<EstimateReport> report =
      Estimate(arguments.model, arguments.options);
  if (!report.ok()) return Fail(report.status());
  const absl::Status status = WriteOutputs(arguments, *report);
  if (!status.ok()) return Fail(status);
  if (!arguments.quiet && arguments.json != "-") {
    std::cout << EstimateToText(*report);
  }
  return kExitOk;
}

}  // namespace onnx_memopt::cli
