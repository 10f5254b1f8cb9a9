// The thread pool of every kernel: torch's OpenMP threads where the process has them, else our own. Safe across fork, interruptible, not
// linked with OpenMP.
#pragma once
#include <cstdint>

namespace regard {

// Returns whether to stop (Ctrl-C was pressed); called on the calling thread only, a few times a second.
using Interrupted = bool (*)();

// The threads of one call. Tasks are started in order by whichever thread is free, so a kernel whose tasks do not share output gives the
// same result for any number of threads.
class ThreadTeam {
  public:
    ThreadTeam(int threads, Interrupted interrupted);
    int threads() const { return threads_; }
    // Runs body(context, task, worker) for every task; worker < threads() names a private scratch slot.
    void run(int64_t tasks, void (*body)(void* context, int64_t task, int worker), void* context);
    // Whether the call was interrupted: kernels check it once per tile and return early.
    bool stopped(int worker);
    bool stopped() const { return __atomic_load_n(&stop_, __ATOMIC_RELAXED); }

  private:
    int threads_;
    Interrupted interrupted_;
    bool stop_ = false;
    int64_t last_check_;
};

}  // namespace regard
