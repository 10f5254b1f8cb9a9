// Linked into wheels for other machines (REGARD_MANYLINUX) together with a static C++ runtime: asks for the versions of these functions
// that glibc 2.28 has. The linker's --wrap sends every call here. Newer versions differ only in errno (exp2, log) or in the library that
// holds them (the rest). Precondition: x86-64, whose oldest version of each function is 2.2.5.
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REGARD_OLD(Result, function, parameters, arguments)         \
    extern "C" Result old_##function parameters;                    \
    __asm__(".symver old_" #function "," #function "@GLIBC_2.2.5"); \
    extern "C" __attribute__((visibility("hidden"))) Result __wrap_##function parameters { return old_##function arguments; }

REGARD_OLD(void*, dlsym, (void* library, const char* name), (library, name))
REGARD_OLD(double, exp2, (double x), (x))
REGARD_OLD(double, log, (double x), (x))
REGARD_OLD(int, pthread_create, (pthread_t * thread, const pthread_attr_t* how, void* (*run)(void*), void* with), (thread, how, run, with))
REGARD_OLD(int, pthread_detach, (pthread_t thread), (thread))
REGARD_OLD(void*, pthread_getspecific, (pthread_key_t key), (key))
REGARD_OLD(int, pthread_join, (pthread_t thread, void** result), (thread, result))
REGARD_OLD(int, pthread_key_create, (pthread_key_t * key, void (*end)(void*)), (key, end))
REGARD_OLD(int, pthread_key_delete, (pthread_key_t key), (key))
REGARD_OLD(int, pthread_mutex_trylock, (pthread_mutex_t * mutex), (mutex))
REGARD_OLD(int, pthread_once, (pthread_once_t * once, void (*run)()), (once, run))
REGARD_OLD(int, pthread_setspecific, (pthread_key_t key, const void* value), (key, value))

// Two things that glibc 2.28 does not have, for the static C++ runtime.
extern "C" __attribute__((visibility("hidden"))) unsigned __wrap_arc4random() {
    unsigned number = 0;
    while (syscall(SYS_getrandom, &number, sizeof number, 0) != sizeof number) {
    }
    return number;
}
extern "C" __attribute__((visibility("hidden"))) char __libc_single_threaded = 0;
