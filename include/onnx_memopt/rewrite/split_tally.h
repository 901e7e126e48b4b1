// Why a search for regions found none: how many it looked at, and which rule
// refused how many of them.
//
//   SplitTally tally = search.tally();
//   context.Remark(tally.ToString());
#ifndef ONNX_MEMOPT_REWRITE_SPLIT_TALLY_H_
#define ONNX_MEMOPT_REWRITE_SPLIT_TALLY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace onnx_memopt::rewrite {

enum class SplitRefusal : uint8_t {
  // It would cut a convolution off from its activation, sum or layout.
  kCutsConvolution,
  kNoProduct,  // neither a matrix product nor a convolution is in it
  // What it makes is needed as a whole by statistics outside.
  kLeavesStatistics,
  kUnpackedWeights,  // two subgraphs deep, with weights
  kNoSmallerPart,    // nothing divides it, or its halos are as large as parts
  kTooSlow,
  kMissesPeak,  // the highest step of the graph is not in it
  kGainsLittle,
};

class SplitTally {
 public:
  // A region that the rules were asked about.
  void Look() { ++regions_; }
  void Refuse(SplitRefusal why) { ++refused_[static_cast<size_t>(why)]; }
  // Refuses one whose fastest parts take this much longer, as part of a run.
  void RefuseTooSlow(double added_share);
  // Refuses one that was measured: what it saves, as part of its peak, and adds
  // to a run.
  void RefuseGain(double saved_share, double added_share);

  int regions() const { return regions_; }
  int refused(SplitRefusal why) const {
    return refused_[static_cast<size_t>(why)];
  }

  // "12 regions looked at: 7 would ..., 3 ..."
  std::string ToString() const;

 private:
  static constexpr size_t kRefusals =
      static_cast<size_t>(SplitRefusal::kGainsLittle) + 1;

  struct Gain {
    double saved_share = 0;
    double added_share = 0;
  };

  int regions_ = 0;
  std::array<int, kRefusals> refused_ = {};
  std::optional<double> least_added_share_;  // of those that are too slow
  std::optional<Gain> best_;                 // of those that were measured
};

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_SPLIT_TALLY_H_
