#include "interruptible.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "text.h"

namespace onnx_memopt::python {
namespace {

namespace nb = nanobind;

constexpr std::chrono::milliseconds kPollInterval(50);
constexpr int kExitInterrupted = 130;  // as shells have it: 128 + SIGINT

// Thrown through the library, which holds nothing but what its destructors
// free.
struct Interrupted {};

struct Job {
  std::atomic<bool> interrupted = false;
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::string> phases;  // that Python was not told yet
  bool done = false;
  std::exception_ptr error;
};

// How many threads there are. It is never freed: threads may outlive the rest.
std::atomic<int>& RunningThreads() {
  static auto* const count = new std::atomic<int>(0);
  return *count;
}

void RunJob(const std::shared_ptr<Job>& job,
            const std::function<void(const ReportPhase&)>& work) {
  std::exception_ptr error;
  try {
    work([&](const std::string& phase) {
      if (job->interrupted) throw Interrupted();
      const std::lock_guard<std::mutex> lock(job->mutex);
      job->phases.push_back(phase);
      job->wake.notify_one();
    });
  } catch (const Interrupted&) {
    // Nobody waits for the result.
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard<std::mutex> lock(job->mutex);
  job->error = error;
  job->done = true;
  job->wake.notify_one();
}

}  // namespace

void RunInThread(const nb::object& progress,
                 std::function<void(const ReportPhase&)> work) {
  auto job = std::make_shared<Job>();
  ++RunningThreads();
  try {
    std::thread([job, work = std::move(work)]() mutable {
      RunJob(job, work);
      work = nullptr;  // frees what it owns before the thread counts as ended
      --RunningThreads();
    }).detach();
  } catch (...) {
    --RunningThreads();
    throw;
  }
  bool done = false;
  while (!done) {
    std::deque<std::string> phases;
    {
      const nb::gil_scoped_release release;
      std::unique_lock<std::mutex> lock(job->mutex);
      job->wake.wait_for(lock, kPollInterval,
                         [&] { return job->done || !job->phases.empty(); });
      phases.swap(job->phases);
      done = job->done;
    }
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (!progress.is_none()) {
        for (const std::string& phase : phases) progress(ToPython(phase));
      }
    } catch (...) {
      job->interrupted = true;
      throw;
    }
  }
  if (job->error) std::rethrow_exception(job->error);
}

void WaitForInterrupted() {
  while (RunningThreads() > 0) {
    {
      const nb::gil_scoped_release release;
      std::this_thread::sleep_for(kPollInterval / 5);
    }
    if (PyErr_CheckSignals() != 0) std::_Exit(kExitInterrupted);
  }
}

}  // namespace onnx_memopt::python
