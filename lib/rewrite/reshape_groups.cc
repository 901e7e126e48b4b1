#include "rewrite/reshape_groups.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "onnx_memopt/support/checked_math.h"

namespace onnx_memopt::rewrite {
namespace {

using Axes = std::deque<size_t>;  // those that are in no group yet

Axes LargeAxes(const ir::Shape& shape) {
  Axes axes;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != ir::Dim(1)) axes.push_back(i);
  }
  return axes;
}

// Takes axes from one end of a side.
class End {
 public:
  End(const ir::Shape& shape, Axes* axes, bool left)
      : shape_(shape), axes_(*axes), left_(left) {}

  size_t next() const { return left_ ? axes_.front() : axes_.back(); }
  const std::optional<ir::Dim>& dim() const { return shape_[next()]; }
  bool empty() const { return axes_.empty(); }
  bool is_number() const {
    return !empty() && dim() && dim()->is_constant() && dim()->constant() > 0;
  }

  void Take(std::vector<size_t>* group) {
    group->insert(left_ ? group->end() : group->begin(), next());
    left_ ? axes_.pop_front() : axes_.pop_back();
  }

 private:
  const ir::Shape& shape_;
  Axes& axes_;
  const bool left_;
};

// The next group, or nothing: the sides are as they were then.
std::optional<ReshapeGroup> TakeGroup(End from, End to) {
  ReshapeGroup group;
  if (from.empty() || to.empty()) return std::nullopt;
  if (from.dim() && from.dim() == to.dim()) {
    from.Take(&group.from);
    to.Take(&group.to);
    return group;
  }
  int64_t a = 1;
  int64_t b = 1;
  do {
    End& smaller = a <= b ? from : to;
    if (!smaller.is_number()) return std::nullopt;
    int64_t& product = a <= b ? a : b;
    const std::optional<int64_t> grown =
        CheckedMul(product, smaller.dim()->constant());
    if (!grown) return std::nullopt;
    smaller.Take(a <= b ? &group.from : &group.to);
    product = *grown;
  } while (a != b);
  return group;
}

void TakeGroups(const ir::Shape& from, const ir::Shape& to, bool left,
                Axes* from_axes, Axes* to_axes,
                std::vector<ReshapeGroup>* groups) {
  while (true) {
    Axes a = *from_axes;
    Axes b = *to_axes;
    std::optional<ReshapeGroup> group =
        TakeGroup(End(from, &a, left), End(to, &b, left));
    if (!group) return;
    *from_axes = std::move(a);
    *to_axes = std::move(b);
    groups->push_back(*std::move(group));
  }
}

}  // namespace

std::vector<ReshapeGroup> GroupReshape(const ir::Shape& from,
                                       const ir::Shape& to) {
  std::vector<ReshapeGroup> groups;
  Axes a = LargeAxes(from);
  Axes b = LargeAxes(to);
  TakeGroups(from, to, /*left=*/true, &a, &b, &groups);
  TakeGroups(from, to, /*left=*/false, &a, &b, &groups);
  return groups;
}

}  // namespace onnx_memopt::rewrite
