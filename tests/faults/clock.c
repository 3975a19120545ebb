/* A wall clock that is wrong: CLOCK_SHIFTS lists seconds to add, each of them for one second. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

static int right(clockid_t clock, struct timespec *now) {
    static int (*call)(clockid_t, struct timespec *);
    if (!call) call = dlsym(RTLD_NEXT, "clock_gettime");
    return call(clock, now);
}

static long shift(void) {
    const char *text = getenv("CLOCK_SHIFTS");
    struct timespec now;
    long count = 1;
    if (!text) return 0;
    for (const char *at = text; (at = strchr(at, ',')); at++) count++;
    right(CLOCK_MONOTONIC, &now);
    for (long skip = now.tv_sec % count; skip > 0; skip--) text = strchr(text, ',') + 1;
    return atol(text);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = right(clock, now);
    if (!failed && clock == CLOCK_REALTIME) now->tv_sec += shift();
    return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
