// The threads every kernel shares, torch's own where there are any: safe across fork, stoppable, not linked with OpenMP.
#pragma once
#include <cstdint>

namespace regard {

// Asks the outside world whether to stop (Ctrl-C); called on the calling thread only, a few times a second.
using Interrupted = bool (*)();

// One call's view of the pool. Tasks are handed out in order to whoever is free, so a kernel whose tasks do not share
// output gives the same result for any number of threads.
class Crew {
  public:
    Crew(int threads, Interrupted interrupted);
    int threads() const { return threads_; }
    // Runs body(context, task, worker) for every task; worker < threads() names a private scratch slot.
    void run(int64_t tasks, void (*body)(void* context, int64_t task, int worker), void* context);
    // Kernels call this once per tile and return early when it says so.
    bool stopped(int worker);
    bool stopped() const { return __atomic_load_n(&stop_, __ATOMIC_RELAXED); }

  private:
    int threads_;
    Interrupted interrupted_;
    bool stop_ = false;
    int64_t last_ask_;
};

}  // namespace regard
