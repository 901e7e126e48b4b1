// Allocators that keep free blocks by size and put neighbours together, as
// addresses alone: no memory is taken.
//
//   BestFitArena arena({.alignment = 256, .first_region = int64_t{1} << 20,
//                       .most_dead = int64_t{128} << 20});
//   int64_t address = arena.Allocate(1000);   // 1024 B of a region of 1 MiB
//   arena.Free(address);
//
//   region | used | free     | used |   free |
//                   ^ a request takes the smallest block that fits, and leaves
//                     the rest free if it is worth it
//
// BestFitArena is TensorFlow's and ONNX Runtime's BFC arena. BestFitPool is
// what it has in common with other allocators, PyTorch's among them.
#ifndef ONNX_MEMOPT_SUPPORT_BEST_FIT_ARENA_H_
#define ONNX_MEMOPT_SUPPORT_BEST_FIT_ARENA_H_

#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace onnx_memopt {

// Free and used blocks in regions. Regions must not touch: only neighbours in
// one region are put together.
class BestFitPool {
 public:
  void AddRegion(int64_t address, int64_t size) { AddFree(address, size); }
  // More of the region that ends at the address.
  void GrowRegion(int64_t address, int64_t size);
  // The address of the smallest free block that fits, the lowest of equals; -1:
  // none does. What remains of it is split off if it is `least_remainder` or
  // more.
  int64_t Take(int64_t size, int64_t least_remainder);
  // Returns the bytes that the block had; 0 if there is none at the address.
  int64_t Give(int64_t address);
  int64_t size_of(int64_t address) const { return blocks_.at(address).size; }
  // Of the free block that ends at the address; 0: there is none.
  int64_t FreeBefore(int64_t address) const;
  // Whether all of it is one free block.
  bool IsFree(int64_t address, int64_t size) const {
    return free_.contains({size, address});
  }

 private:
  struct Block {
    int64_t size = 0;
    bool free = false;
  };

  void AddFree(int64_t address, int64_t size);

  std::map<int64_t, Block> blocks_;             // by address
  std::set<std::pair<int64_t, int64_t>> free_;  // size, address
};

struct BestFitRules {
  int64_t alignment = 256;
  // Later regions are twice as large as the last, and at least as the request.
  int64_t first_region = int64_t{1} << 20;
  bool doubles = true;  // else each region is as large as the request
  // A remainder stays with the block unless it is as large as the request, or
  // this large.
  int64_t most_dead = int64_t{128} << 20;
};

// Regions are never given back. Later ones lie lower, as Linux maps them.
class BestFitArena {
 public:
  explicit BestFitArena(const BestFitRules& rules)
      : rules_(rules), next_region_(rules.first_region) {}

  int64_t Allocate(int64_t size);  // the address
  void Free(int64_t address) { allocated_ -= pool_.Give(address); }

  int64_t region_bytes() const { return region_bytes_; }
  int64_t regions() const { return regions_; }
  // Of blocks in use, with what is lost inside them.
  int64_t allocated_bytes() const { return allocated_; }

 private:
  void Extend(int64_t size);

  BestFitRules rules_;
  BestFitPool pool_;
  int64_t next_region_;
  int64_t region_bytes_ = 0;
  int64_t regions_ = 0;
  int64_t allocated_ = 0;
  int64_t lowest_address_ = 0;  // of a region
};

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_SUPPORT_BEST_FIT_ARENA_H_
