/* Faults for a process that is started with LD_PRELOAD: its disk fails, its wall clock is wrong.
 *
 * FAULT_CONTROL names a file of two 64-bit numbers that the test changes at any time: the errno that writes get (0: none),
 * and the seconds by which the wall clock is ahead. FAULT_PATHS lists, separated by colons, beginnings of paths whose writes fail.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *control;
static const char *paths;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("FAULT_CONTROL");
    paths = getenv("FAULT_PATHS");
    if (name == NULL) return;
    int file = open(name, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    void *place = mmap(NULL, 16, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (place != MAP_FAILED) control = place;
}

/* Return the errno that a write to a file gets now, 0 if it goes through. */
static int wrong(int file) {
    if (control == NULL || control[0] == 0 || paths == NULL) return 0;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    for (const char *start = paths; *start;) {
        size_t length = strcspn(start, ":");
        if (length && strncmp(path, start, length) == 0) return (int)control[0];
        start += length + (start[length] == ':');
    }
    return 0;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAIL(file) do { int code = wrong(file); if (code) { errno = code; return -1; } } while (0)

ssize_t write(int file, const void *data, size_t size) {
    FAIL(file);
    static ssize_t (*real)(int, const void *, size_t);
    if (real == NULL) real = REAL(write);
    return real(file, data, size);
}

ssize_t writev(int file, const struct iovec *data, int count) {
    FAIL(file);
    static ssize_t (*real)(int, const struct iovec *, int);
    if (real == NULL) real = REAL(writev);
    return real(file, data, count);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t place) {
    FAIL(file);
    static ssize_t (*real)(int, const void *, size_t, off_t);
    if (real == NULL) real = REAL(pwrite);
    return real(file, data, size, place);
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t place) {
    FAIL(file);
    static ssize_t (*real)(int, const void *, size_t, off64_t);
    if (real == NULL) real = REAL(pwrite64);
    return real(file, data, size, place);
}

int fsync(int file) {
    FAIL(file);
    static int (*real)(int);
    if (real == NULL) real = REAL(fsync);
    return real(file);
}

int fdatasync(int file) {
    FAIL(file);
    static int (*real)(int);
    if (real == NULL) real = REAL(fdatasync);
    return real(file);
}

/* A full disk can still make a file longer without data. */
static int wrong_size(int file) { return wrong(file) == ENOSPC ? 0 : wrong(file); }

int ftruncate(int file, off_t size) {
    int code = wrong_size(file);
    if (code) { errno = code; return -1; }
    static int (*real)(int, off_t);
    if (real == NULL) real = REAL(ftruncate);
    return real(file, size);
}

int ftruncate64(int file, off64_t size) {
    int code = wrong_size(file);
    if (code) { errno = code; return -1; }
    static int (*real)(int, off64_t);
    if (real == NULL) real = REAL(ftruncate64);
    return real(file, size);
}

static int64_t ahead(void) { return control == NULL ? 0 : control[1]; }

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (real == NULL) real = REAL(clock_gettime);
    int status = real(clock, now);
    if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += ahead();
    return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    static int (*real)(struct timeval *, void *);
    if (real == NULL) real = (int (*)(struct timeval *, void *))dlsym(RTLD_NEXT, "gettimeofday");
    int status = real(now, zone);
    if (status == 0) now->tv_sec += ahead();
    return status;
}

time_t time(time_t *place) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (place != NULL) *place = now.tv_sec;
    return now.tv_sec;
}
