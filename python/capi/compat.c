// A library built on a new system, for old ones too. With glibc 2.34, libpthread
// and libdl moved into libc.so.6 under new versions of their symbols. build.sh
// has the linker send what comes from C and from Go through here (--wrap), bound
// to the old versions: these are there in every glibc from 2.17 on, and Python
// has loaded both libraries where they are separate.
#ifdef PINION_OLD_GLIBC
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#ifdef __x86_64__
#define FIRST "GLIBC_2.2.5"
#define SECOND "GLIBC_2.3.2"
#else
#define FIRST "GLIBC_2.17"
#define SECOND "GLIBC_2.17"
#endif
#define OLD(version, type, f, params, args)      \
  __asm__(".symver old_" #f "," #f "@" version); \
  extern type old_##f params;                    \
  type __wrap_##f params { return old_##f args; }
OLD(FIRST, void *, dlopen, (const char *a, int b), (a, b))
OLD(FIRST, void *, dlsym, (void *a, const char *b), (a, b))
OLD(FIRST, int, dlclose, (void *a), (a))
OLD(FIRST, char *, dlerror, (void), ())
OLD(FIRST, int, pthread_create, (pthread_t *a, const pthread_attr_t *b, void *(*c)(void *), void *d), (a, b, c, d))
OLD(FIRST, int, pthread_key_create, (pthread_key_t *a, void (*b)(void *)), (a, b))
OLD(FIRST, int, pthread_setspecific, (pthread_key_t a, const void *b), (a, b))
OLD(FIRST, int, pthread_sigmask, (int a, const sigset_t *b, sigset_t *c), (a, b, c))
OLD(FIRST, int, pthread_detach, (pthread_t a), (a))
OLD(FIRST, int, pthread_attr_getstacksize, (const pthread_attr_t *a, size_t *b), (a, b))
OLD(FIRST, int, pthread_attr_getstack, (const pthread_attr_t *a, void **b, size_t *c), (a, b, c))
OLD(FIRST, int, pthread_getattr_np, (pthread_t a, pthread_attr_t *b), (a, b))
#endif
