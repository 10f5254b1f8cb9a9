#include "threads.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace regard {
namespace {

constexpr int64_t kAskEvery = 20'000'000;  // ns between two looks at the signals
constexpr int64_t kSpin = 30'000;          // ns a worker stays awake after a job: the next phase is usually close
constexpr int64_t kYield = 2'000'000;      // ns the caller waits for its helpers without falling asleep
constexpr int64_t kNap = 200'000;          // ns it sleeps at a time

int64_t now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return int64_t(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

void relax() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

struct Job {
    void (*body)(void*, int64_t, int);
    void* context;
    int64_t tasks;
    int wanted;  // helpers that may still join
    Crew* crew;
    std::atomic<int64_t> next{0};
    std::atomic<int> joined{0}, running{0};
    pthread_t caller{};
};

void work(Job& job, int worker) {
    while (!job.crew->stopped()) {
        int64_t task = job.next.fetch_add(1, std::memory_order_relaxed);
        if (task >= job.tasks) return;
        job.body(job.context, task, worker);
    }
}

// Waits on the calling thread until `running` is zero, looking at the signals meanwhile: first awake, then letting others in,
// then asleep.
void wait_for(const std::atomic<int>& running, Crew& crew) {
    const int64_t start = now();
    for (int64_t waited = 0; running.load(std::memory_order_acquire); waited = now() - start) {
        if (waited < kSpin) {
            for (int i = 0; i < 32; ++i) relax();
        } else if (waited < kYield) {
            sched_yield();
        } else {
            const timespec nap{0, kNap};
            nanosleep(&nap, nullptr);
            crew.stopped(0);
        }
    }
}

// OpenMP's threads, where the process has them, as torch does: between its own calls they wait for work by spinning, and would
// hold the cores against any others. GOMP_parallel is how compiled code calls the runtime; nothing is linked.
using Parallel = void (*)(void (*body)(void*), void* context, unsigned threads, unsigned flags);

void take_part(void* opaque) {
    Job& job = *(Job*)opaque;
    const bool caller = pthread_equal(pthread_self(), job.caller);
    if (caller) {
        work(job, 0);
        return wait_for(job.running, *job.crew);  // here, because OpenMP waits without looking at the signals
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
        uint64_t seen = 0;
        for (;;) {
            for (int64_t until = now() + kSpin; epoch.load(std::memory_order_acquire) == seen && now() < until;)
                for (int i = 0; i < 32; ++i) relax();
            std::unique_lock<std::mutex> lock(mutex);
            wake.wait(lock, [&] { return epoch.load(std::memory_order_relaxed) != seen; });
            seen = epoch.load(std::memory_order_relaxed);
            if (!job || job->wanted == 0) continue;
            Job& mine = *job;
            int worker = mine.wanted--;
            running.fetch_add(1, std::memory_order_relaxed);
            lock.unlock();
            work(mine, worker);
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
            job_.wanted = grow(helpers);
            job = &job_;
            epoch.fetch_add(1, std::memory_order_release);
        }
        wake.notify_all();
        work(job_, 0);
        {
            std::lock_guard<std::mutex> lock(mutex);
            job = nullptr;  // nobody joins from here on
        }
        wait_for(running, *job_.crew);
    }
};

// The pool is never destroyed (its threads may outlive static destructors) and is forgotten in a forked child, whose
// copies of the threads, OpenMP's too, do not exist.
std::mutex guard;
Pool* pool = nullptr;
Parallel parallel = nullptr;  // null: none to share

Pool* the_pool() {
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

Crew::Crew(int threads, Interrupted interrupted) : threads_(threads < 1 ? 1 : threads), interrupted_(interrupted), last_ask_(now()) {}

bool Crew::stopped(int worker) {
    if (stopped()) return true;
    if (worker == 0 && interrupted_) {
        int64_t time = now();
        if (time - last_ask_ > kAskEvery) {
            last_ask_ = time;
            if (interrupted_()) __atomic_store_n(&stop_, true, __ATOMIC_RELAXED);
        }
    }
    return stopped();
}

void Crew::run(int64_t tasks, void (*body)(void*, int64_t, int), void* context) {
    if (tasks <= 0) return;
    Job job;
    job.body = body;
    job.context = context;
    job.tasks = tasks;
    job.wanted = 0;
    job.crew = this;
    job.caller = pthread_self();
    int helpers = int(tasks - 1 < threads_ - 1 ? tasks - 1 : threads_ - 1);
    if (helpers > 0) {
        Pool* shared = the_pool();
        if (shared->busy.try_lock()) {
            if (parallel)
                parallel(take_part, &job, unsigned(threads_), 0);  // always as many: a team that changes its size starts threads
            else
                shared->run(job, helpers);
            shared->busy.unlock();
            return;
        }
    }
    work(job, 0);  // another thread's call has the helpers: do it alone
}

}  // namespace regard
