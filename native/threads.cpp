#include "threads.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace regard {
namespace {

constexpr int64_t kSignalInterval = 20'000'000;  // ns between two checks for signals
constexpr int64_t kSpinTime = 30'000;            // ns a worker stays awake after a job: the next phase is usually close
constexpr int64_t kYieldTime = 2'000'000;        // ns the caller waits for its helpers without sleeping
constexpr int64_t kSleep = 200'000;              // ns it sleeps at a time

int64_t now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return int64_t(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

#if defined(__x86_64__)
constexpr unsigned kSubnormalsAreZero = 0x8040;  // of results and of operands
unsigned float_mode() { return _mm_getcsr(); }
void set_float_mode(unsigned mode) { _mm_setcsr(mode); }
#else
constexpr unsigned kSubnormalsAreZero = 0;
unsigned float_mode() { return 0; }
void set_float_mode(unsigned) {}
#endif

// While it lives, subnormal numbers (below 1.2e-38) are zero on this thread. Weights far below the largest are subnormal, and Intel's
// processors take over a hundred cycles for an operation with one.
struct WithoutSubnormals {
    const unsigned before = float_mode();
    WithoutSubnormals() { set_float_mode(before | kSubnormalsAreZero); }
    ~WithoutSubnormals() { set_float_mode(before); }
};

struct Job {
    void (*body)(void*, int64_t, int);
    void* context;
    int64_t tasks;
    int vacancies;  // helpers that may still join
    ThreadTeam* team;
    std::atomic<int64_t> next{0};
    std::atomic<int> joined{0}, running{0};
    pthread_t caller{};
};

void work(Job& job, int worker) {
    const WithoutSubnormals mode;
    while (!job.team->stopped()) {
        int64_t task = job.next.fetch_add(1, std::memory_order_relaxed);
        if (task >= job.tasks) return;
        job.body(job.context, task, worker);
    }
}

// Waits on the calling thread until `running` is zero, checking for signals meanwhile: first spinning, then yielding, then
// sleeping.
void wait_for(const std::atomic<int>& running, ThreadTeam& team) {
    const int64_t start = now();
    for (int64_t waited = 0; running.load(std::memory_order_acquire); waited = now() - start) {
        if (waited < kSpinTime) {
            for (int i = 0; i < 32; ++i) pause();
        } else if (waited < kYieldTime) {
            sched_yield();
        } else {
            const timespec sleep{0, kSleep};
            nanosleep(&sleep, nullptr);
            team.stopped(0);
        }
    }
}

// OpenMP's threads, where the process has them, as torch does: between its own calls they wait for work by spinning, which
// would take the cores from any other threads. GOMP_parallel is how compiled code calls the runtime; nothing is linked.
using Parallel = void (*)(void (*body)(void*), void* context, unsigned threads, unsigned flags);

void join_job(void* opaque) {
    Job& job = *(Job*)opaque;
    const bool caller = pthread_equal(pthread_self(), job.caller);
    if (caller) {
        work(job, 0);
        return wait_for(job.running, *job.team);  // here, because OpenMP waits without checking for signals
    }
    job.running.fetch_add(1);
    work(job, 1 + job.joined.fetch_add(1));
    job.running.fetch_sub(1);
}

// Our own threads, where there are none to share.
struct Pool {
    std::mutex busy;  // held by the call that owns the helpers
    std::mutex mutex;
    std::condition_variable wake;
    std::atomic<uint64_t> epoch{0};
    std::atomic<int> running{0};
    Job* job = nullptr;
    int size = 0;

    void serve() {
        uint64_t last_epoch = 0;
        for (;;) {
            for (int64_t until = now() + kSpinTime; epoch.load(std::memory_order_acquire) == last_epoch && now() < until;)
                for (int i = 0; i < 32; ++i) pause();
            std::unique_lock<std::mutex> lock(mutex);
            wake.wait(lock, [&] { return epoch.load(std::memory_order_relaxed) != last_epoch; });
            last_epoch = epoch.load(std::memory_order_relaxed);
            if (!job || job->vacancies == 0) continue;
            Job& joined = *job;
            int worker = joined.vacancies--;
            running.fetch_add(1, std::memory_order_relaxed);
            lock.unlock();
            work(joined, worker);
            running.fetch_sub(1, std::memory_order_release);
        }
    }

    // Returns how many helpers exist; a machine that refuses threads leaves us with fewer, never with a failure.
    int grow(int helpers) {
        while (size < helpers) {
            try {
                std::thread([this] { serve(); }).detach();
            } catch (...) {
                break;
            }
            ++size;
        }
        return size < helpers ? size : helpers;
    }

    void run(Job& job_, int helpers) {
        {
            std::lock_guard<std::mutex> lock(mutex);
            job_.vacancies = grow(helpers);
            job = &job_;
            epoch.fetch_add(1, std::memory_order_release);
        }
        wake.notify_all();
        work(job_, 0);
        {
            std::lock_guard<std::mutex> lock(mutex);
            job = nullptr;  // no helper may join from here on
        }
        wait_for(running, *job_.team);
    }
};

// The pool is never destroyed (its threads may outlive static destructors) and is forgotten in a forked child, whose
// copies of the threads, OpenMP's too, do not exist.
std::mutex guard;
Pool* pool = nullptr;
Parallel parallel = nullptr;  // null: none to share

Pool* shared_pool() {
    std::lock_guard<std::mutex> lock(guard);
    static bool registered = false;
    if (!registered) {
        parallel = (Parallel)dlsym(RTLD_DEFAULT, "GOMP_parallel");
        pthread_atfork([] { guard.lock(); }, [] { guard.unlock(); },
                       [] {
                           pool = nullptr;
                           parallel = nullptr;
                           guard.unlock();
                       });
        registered = true;
    }
    if (!pool) pool = new Pool;
    return pool;
}

}  // namespace

ThreadTeam::ThreadTeam(int threads, Interrupted interrupted)
    : threads_(threads < 1 ? 1 : threads), interrupted_(interrupted), last_check_(now()) {}

bool ThreadTeam::stopped(int worker) {
    if (stopped()) return true;
    if (worker == 0 && interrupted_) {
        int64_t time = now();
        if (time - last_check_ > kSignalInterval) {
            last_check_ = time;
            if (interrupted_()) __atomic_store_n(&stop_, true, __ATOMIC_RELAXED);
        }
    }
    return stopped();
}

void ThreadTeam::run(int64_t tasks, void (*body)(void*, int64_t, int), void* context) {
    if (tasks <= 0) return;
    Job job;
    job.body = body;
    job.context = context;
    job.tasks = tasks;
    job.vacancies = 0;
    job.team = this;
    job.caller = pthread_self();
    int helpers = int(tasks - 1 < threads_ - 1 ? tasks - 1 : threads_ - 1);
    if (helpers > 0) {
        Pool* shared = shared_pool();
        if (shared->busy.try_lock()) {
            if (parallel)
                parallel(join_job, &job, unsigned(threads_), 0);  // always as many: a team that changes its size starts threads
            else
                shared->run(job, helpers);
            shared->busy.unlock();
            return;
        }
    }
    work(job, 0);  // another thread's call has the helpers: do it alone
}

}  // namespace regard
