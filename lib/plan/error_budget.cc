#include "onnx_memopt/plan/error_budget.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <numeric>

namespace onnx_memopt::plan {
namespace {

// From one saving of an item to the next on its hull.
struct Step {
  double slope = 0;  // error per byte
  size_t item = 0;
  int to = 0;
};

Saving At(const std::vector<Saving>& savings, int index) {
  return index < 0 ? Saving{} : savings[static_cast<size_t>(index)];
}

double Slope(const Saving& from, const Saving& to) {
  return (to.error - from.error) / static_cast<double>(to.bytes - from.bytes);
}

// Indices on the lower hull that begins with no saving, by bytes.
std::vector<int> Hull(const std::vector<Saving>& savings) {
  std::vector<int> order(savings.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    const Saving& x = At(savings, a);
    const Saving& y = At(savings, b);
    if (x.bytes != y.bytes) return x.bytes < y.bytes;
    return x.error != y.error ? x.error < y.error : a < b;
  });
  std::vector<int> hull{-1};
  for (const int next : order) {
    const Saving& saving = At(savings, next);
    assert(saving.bytes > 0 && saving.error >= 0 && "a saving");
    if (saving.bytes == At(savings, hull.back()).bytes) continue;
    // What saves less for no smaller error per byte is no corner.
    while (hull.size() > 1 && Slope(At(savings, hull[hull.size() - 2]),
                                    At(savings, hull.back())) >=
                                  Slope(At(savings, hull.back()), saving)) {
      hull.pop_back();
    }
    hull.push_back(next);
  }
  return hull;
}

}  // namespace

std::vector<int> SpendError(const std::vector<std::vector<Saving>>& items,
                            double budget) {
  std::vector<Step> steps;
  for (size_t item = 0; item < items.size(); ++item) {
    const std::vector<int> hull = Hull(items[item]);
    for (size_t i = 1; i < hull.size(); ++i) {
      steps.push_back(
          {Slope(At(items[item], hull[i - 1]), At(items[item], hull[i])), item,
           hull[i]});
    }
  }
  // Steps of one item are in this order already.
  std::stable_sort(
      steps.begin(), steps.end(),
      [](const Step& a, const Step& b) { return a.slope < b.slope; });
  std::vector<int> chosen(items.size(), -1);
  std::vector<bool> is_closed(items.size());
  double left = budget;
  for (const Step& step : steps) {
    if (is_closed[step.item]) continue;
    const std::vector<Saving>& savings = items[step.item];
    const Saving now = At(savings, chosen[step.item]);
    int to = step.to;
    if (At(savings, to).error - now.error > left) {
      // Not all of the step: the saving that is the most and fits.
      is_closed[step.item] = true;
      to = chosen[step.item];
      for (size_t i = 0; i < savings.size(); ++i) {
        if (savings[i].error - now.error <= left &&
            savings[i].bytes > At(savings, to).bytes) {
          to = static_cast<int>(i);
        }
      }
    }
    left -= At(savings, to).error - now.error;
    chosen[step.item] = to;
  }
  return chosen;
}

}  // namespace onnx_memopt::plan
