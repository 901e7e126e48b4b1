#include "onnx_memopt/rewrite/split_tally.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace onnx_memopt::rewrite {
namespace {

std::string Percent(double share) {
  return absl::StrFormat("%.0f %%", 100 * share);
}

absl::string_view Reason(SplitRefusal why, bool one) {
  switch (why) {
    case SplitRefusal::kCutsConvolution:
      return one ? "cuts a convolution off from what ONNX Runtime runs with "
                   "it or from its layout"
                 : "cut a convolution off from what ONNX Runtime runs with it "
                   "or from its layout";
    case SplitRefusal::kNoProduct:
      return one ? "has no matrix product or convolution"
                 : "have no matrix product or convolution";
    case SplitRefusal::kLeavesStatistics:
      return one ? "leaves the statistics of a norm outside"
                 : "leave the statistics of a norm outside";
    case SplitRefusal::kUnpackedWeights:
      return one ? "would have weights two subgraphs deep"
                 : "would have weights two subgraphs deep";
    case SplitRefusal::kNoSmallerPart:
      return one ? "has no parts that are smaller with their halos"
                 : "have no parts that are smaller with their halos";
    case SplitRefusal::kTooSlow:
      return one ? "would take longer than it may"
                 : "would take longer than they may";
    case SplitRefusal::kMissesPeak:
      return one ? "does not hold the peak" : "do not hold the peak";
    case SplitRefusal::kGainsLittle:
      return "would save too little";
  }
  return "";
}

}  // namespace

void SplitTally::RefuseTooSlow(double added_share) {
  Refuse(SplitRefusal::kTooSlow);
  least_added_share_ =
      std::min(added_share, least_added_share_.value_or(added_share));
}

void SplitTally::RefuseGain(double saved_share, double added_share) {
  Refuse(SplitRefusal::kGainsLittle);
  if (best_.has_value() && best_->saved_share >= saved_share) return;
  best_ = {.saved_share = saved_share, .added_share = added_share};
}

std::string SplitTally::ToString() const {
  if (regions_ == 0) {
    return "no region: what is at the peak does not run in parts along any "
           "dimension";
  }
  std::vector<std::string> reasons;
  for (size_t i = 0; i < kRefusals; ++i) {
    if (refused_[i] == 0) continue;
    const auto why = static_cast<SplitRefusal>(i);
    std::string text =
        absl::StrCat(refused_[i], " ", Reason(why, refused_[i] == 1));
    if (why == SplitRefusal::kTooSlow) {
      absl::StrAppend(&text, " (at least ", Percent(*least_added_share_),
                      " of a run more)");
    }
    if (why == SplitRefusal::kGainsLittle) {
      // A change of no bytes or for the worse is no gain.
      absl::StrAppend(
          &text, " (the best ", Percent(std::max(best_->saved_share, 0.0)),
          " of its peak, for ", Percent(std::max(best_->added_share, 0.0)),
          " more time)");
    }
    reasons.push_back(std::move(text));
  }
  return absl::StrCat(
      regions_, regions_ == 1 ? " region" : " regions",
      " looked at, none worth it: ", absl::StrJoin(reasons, ", "));
}

}  // namespace onnx_memopt::rewrite
