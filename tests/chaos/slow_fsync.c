/* For LD_PRELOAD: every sync takes SLOW_FSYNC_MS longer while the file SLOW_FSYNC_SWITCH exists. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static void wait_if_slow(void)
{
    const char *path = getenv("SLOW_FSYNC_SWITCH"), *milliseconds = getenv("SLOW_FSYNC_MS");
    if (path && milliseconds && access(path, F_OK) == 0)
        usleep(1000u * (useconds_t) atoi(milliseconds));
}

int fsync(int handle)
{
    int (*real)(int) = (int (*)(int)) dlsym(RTLD_NEXT, "fsync");
    wait_if_slow();
    return real(handle);
}

int fdatasync(int handle)
{
    int (*real)(int) = (int (*)(int)) dlsym(RTLD_NEXT, "fdatasync");
    wait_if_slow();
    return real(handle);
}
