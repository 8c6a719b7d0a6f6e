/*
 * What a process does to the files below one folder, seen, counted, ended or refused: to be loaded by LD_PRELOAD.
 *
 * Every call that alters a file, a name or a folder, or has it reach the disk, is one operation. Which ones there are
 * is counted; at a chosen one the process is killed, the call fails, or only half of a write is done; or all of them
 * are logged with their bytes, for a replay. Syncs wait for no disk. Not seen: what is written through maps of memory
 * and by the C library's own streams (fopen).
 *
 *     cc -shared -fPIC -O1 -o shim.so shim.c
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define PATH 1024
#define EXCHANGE 2

/* What is done at an operation; the same numbers as in shim.py. */
enum mode { OFF, COUNT, KILL, TEAR, FAIL, FAIL_FROM, SHORT, SHORT_FROM, LOG };
/* Which operations are counted: all, those that need room on the disk, writes alone. */
enum kind { ANY, ROOM, WRITES, KINDS };
/* What a logged operation is; the same numbers as in replay.py. */
enum op { WRITE = 1, WRITE_DURABLE, TRUNCATE, CREATE, RENAME, SWAP, UNLINK, MKDIR, RMDIR, SYNC, LINK, MARK };
enum decision { GO, FAILS, HALF, HALF_AND_DIE };

static volatile int mode = OFF;
static int kind = ANY, failure = EIO, log_file = -1;
static long at = 0;
static volatile long counts[KINDS];
static char folder[PATH];
static pthread_mutex_t one_by_one = PTHREAD_MUTEX_INITIALIZER;

struct entry { uint32_t magic, op; int64_t inode, offset, length; uint32_t path, other; };

void shim_arm(int what, int of, long number, int code, const char *below, const char *log)
{
    mode = OFF;
    kind = of, at = number, failure = code;
    memset((void *)counts, 0, sizeof counts);
    snprintf(folder, sizeof folder, "%s", below);
    if (log_file >= 0) syscall(SYS_close, log_file);
    log_file = *log ? syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
    mode = what;
}

long shim_count(int of) { return counts[of]; }

/* Which files are meant. */

static int is_below(const char *path)
{
    size_t length = strlen(folder);
    return !strncmp(path, folder, length) && (path[length] == '/' || !path[length]);
}

static void path_of(int file, char *path)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH - 1);
    path[length < 0 ? 0 : length] = 0;
}

static int file_is_meant(int file, char *path)
{
    if (mode == OFF || file == log_file) return 0;
    path_of(file, path);
    return is_below(path);
}

static int name_is_meant(int directory, const char *name, char *path)
{
    if (mode == OFF || !name) return 0;
    if (name[0] == '/') {
        snprintf(path, PATH, "%s", name);
    } else {
        char base[PATH];
        if (directory == AT_FDCWD) {
            ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/cwd", base, PATH - 1);
            base[length < 0 ? 0 : length] = 0;
        } else {
            path_of(directory, base);
        }
        if (snprintf(path, PATH, "%s/%s", base, name) >= PATH) path[PATH - 1] = 0;
    }
    return is_below(path);
}

/* What happens at the next operation. */

static void die(void)
{
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

static enum decision decide(int needs_room, int is_write)
{
    long any = __sync_add_and_fetch(&counts[ANY], 1), number = any;
    long room = needs_room ? __sync_add_and_fetch(&counts[ROOM], 1) : 0;
    long writes = is_write ? __sync_add_and_fetch(&counts[WRITES], 1) : 0;
    if (kind == ROOM) number = room;
    if (kind == WRITES) number = writes;
    int here = number == at, from_here = number && number >= at;
    switch (mode) {
    case KILL: if (here) die(); break;
    case TEAR: if (here && is_write) return HALF_AND_DIE; if (here) die(); break;
    case FAIL: return here ? FAILS : GO;
    case FAIL_FROM: return from_here ? FAILS : GO;
    case SHORT: return here && is_write ? HALF : GO;
    case SHORT_FROM: return from_here && is_write ? HALF : GO;
    }
    return GO;
}

static int refused(int needs_room)
{
    if (decide(needs_room, 0) != FAILS) return 0;
    errno = failure;
    return 1;
}

/* The log. */

static void entry(enum op op, int64_t inode, int64_t offset, const char *path, const char *other, const void *data,
                  int64_t length)
{
    struct entry head = {0x4d524543, op, inode, offset, length, path ? strlen(path) : 0, other ? strlen(other) : 0};
    struct iovec parts[4] = {
        {&head, sizeof head}, {(void *)path, head.path}, {(void *)other, head.other}, {(void *)data, length}};
    syscall(SYS_writev, log_file, parts, data ? 4 : 3);
}

void shim_mark(const char *text)
{
    pthread_mutex_lock(&one_by_one);
    if (mode == LOG) entry(MARK, 0, 0, text, 0, 0, 0);
    pthread_mutex_unlock(&one_by_one);
}

static int64_t inode_of(int file)
{
    struct stat status;
    return fstat(file, &status) ? -1 : (int64_t)status.st_ino;
}

/* A system call that alters names, logged where it was done. */
#define LOGGED(call, ...)                                  \
    do {                                                   \
        if (mode != LOG) return call;                      \
        pthread_mutex_lock(&one_by_one);                   \
        int done = call, code = errno;                     \
        if (done >= 0) entry(__VA_ARGS__);                 \
        pthread_mutex_unlock(&one_by_one);                 \
        errno = code;                                      \
        return done;                                       \
    } while (0)

/* Writing. */

static ssize_t put(int file, const struct iovec *parts, int n, off_t offset, int positioned)
{
    return positioned ? syscall(SYS_pwritev, file, parts, n, offset, 0) : syscall(SYS_writev, file, parts, n);
}

static char *joined(const struct iovec *parts, int n, size_t most)
{
    char *all = malloc(most + 1);
    size_t filled = 0;
    for (int i = 0; i < n && filled < most; i++) {
        size_t length = parts[i].iov_len < most - filled ? parts[i].iov_len : most - filled;
        memcpy(all + filled, parts[i].iov_base, length);
        filled += length;
    }
    return all;
}

static ssize_t put_half(int file, const struct iovec *parts, int n, off_t offset, int positioned)
{
    size_t total = 0;
    for (int i = 0; i < n; i++) total += parts[i].iov_len;
    size_t half = total > 1 ? total / 2 : total;
    char *all = joined(parts, n, half);
    struct iovec one = {all, half};
    ssize_t done = put(file, &one, 1, offset, positioned);
    free(all);
    return done;
}

static ssize_t put_logged(int file, const struct iovec *parts, int n, off_t offset, int positioned, const char *path)
{
    pthread_mutex_lock(&one_by_one);
    int flags = fcntl(file, F_GETFL);
    if (!positioned) {
        struct stat status;
        offset = flags & O_APPEND && !fstat(file, &status) ? status.st_size : syscall(SYS_lseek, file, 0, SEEK_CUR);
    }
    ssize_t done = put(file, parts, n, offset, positioned);
    int code = errno;
    if (done > 0) {
        char *all = joined(parts, n, done);
        entry(flags & O_DSYNC ? WRITE_DURABLE : WRITE, inode_of(file), offset, path, 0, all, done);
        free(all);
    }
    pthread_mutex_unlock(&one_by_one);
    errno = code;
    return done;
}

static ssize_t do_write(int file, const struct iovec *parts, int n, off_t offset, int positioned)
{
    char path[PATH];
    if (!file_is_meant(file, path)) return put(file, parts, n, offset, positioned);
    switch (decide(1, 1)) {
    case FAILS: errno = failure; return -1;
    case HALF: return put_half(file, parts, n, offset, positioned);
    case HALF_AND_DIE: put_half(file, parts, n, offset, positioned); die();
    case GO: break;
    }
    if (mode == LOG) return put_logged(file, parts, n, offset, positioned, path);
    return put(file, parts, n, offset, positioned);
}

ssize_t write(int file, const void *data, size_t n)
{
    struct iovec one = {(void *)data, n};
    return do_write(file, &one, 1, 0, 0);
}
ssize_t writev(int file, const struct iovec *parts, int n) { return do_write(file, parts, n, 0, 0); }
ssize_t pwrite64(int file, const void *data, size_t n, off_t offset)
{
    struct iovec one = {(void *)data, n};
    return do_write(file, &one, 1, offset, 1);
}
ssize_t pwrite(int file, const void *data, size_t n, off_t offset) { return pwrite64(file, data, n, offset); }
ssize_t pwritev64(int file, const struct iovec *parts, int n, off_t offset) { return do_write(file, parts, n, offset, 1); }
ssize_t pwritev(int file, const struct iovec *parts, int n, off_t offset) { return do_write(file, parts, n, offset, 1); }
ssize_t pwritev64v2(int file, const struct iovec *parts, int n, off_t offset, int flags)
{
    (void)flags;
    return offset == -1 ? do_write(file, parts, n, 0, 0) : do_write(file, parts, n, offset, 1);
}
ssize_t pwritev2(int file, const struct iovec *parts, int n, off_t offset, int flags)
{
    return pwritev64v2(file, parts, n, offset, flags);
}

/* Copies inside the kernel are not there, so that every byte comes by a write. */

ssize_t copy_file_range(int from, off_t *a, int to, off_t *b, size_t n, unsigned flags)
{
    char path[PATH];
    if (!file_is_meant(to, path)) return syscall(SYS_copy_file_range, from, a, to, b, n, flags);
    errno = ENOSYS;
    return -1;
}
ssize_t sendfile64(int to, int from, off_t *offset, size_t n)
{
    char path[PATH];
    if (!file_is_meant(to, path)) return syscall(SYS_sendfile, to, from, offset, n);
    errno = ENOTSOCK;
    return -1;
}
ssize_t sendfile(int to, int from, off_t *offset, size_t n) { return sendfile64(to, from, offset, n); }
int fallocate64(int file, int how, off_t offset, off_t n)
{
    char path[PATH];
    if (!file_is_meant(file, path)) return syscall(SYS_fallocate, file, how, offset, n);
    errno = EOPNOTSUPP;
    return -1;
}
int fallocate(int file, int how, off_t offset, off_t n) { return fallocate64(file, how, offset, n); }
int posix_fallocate64(int file, off_t offset, off_t n)
{
    (void)file, (void)offset, (void)n;
    return EOPNOTSUPP;
}
int posix_fallocate(int file, off_t offset, off_t n) { return posix_fallocate64(file, offset, n); }

/* Lengths, syncs. */

int ftruncate64(int file, off_t length)
{
    char path[PATH];
    struct stat status;
    if (!file_is_meant(file, path)) return syscall(SYS_ftruncate, file, length);
    if (refused(!fstat(file, &status) && length > status.st_size)) return -1;
    LOGGED(syscall(SYS_ftruncate, file, length), TRUNCATE, inode_of(file), length, path, 0, 0, 0);
}
int ftruncate(int file, off_t length) { return ftruncate64(file, length); }

static int nothing(void) { return 0; }
static int do_sync(int call, int file)
{
    char path[PATH];
    if (!file_is_meant(file, path)) return syscall(call, file);
    if (refused(0)) return -1;
    LOGGED(nothing(), SYNC, inode_of(file), 0, path, 0, 0, 0);
}
int fsync(int file) { return do_sync(SYS_fsync, file); }
int fdatasync(int file) { return do_sync(SYS_fdatasync, file); }

/* Names. */

int renameat2(int from, const char *name, int to, const char *other, unsigned flags)
{
    char path[PATH], target[PATH];
    int meant = name_is_meant(from, name, path);
    if (!name_is_meant(to, other, target) && !meant) return syscall(SYS_renameat2, from, name, to, other, flags);
    if (refused(0)) return -1;
    LOGGED(syscall(SYS_renameat2, from, name, to, other, flags), flags & EXCHANGE ? SWAP : RENAME, 0, 0, path, target, 0, 0);
}
int renameat(int from, const char *name, int to, const char *other) { return renameat2(from, name, to, other, 0); }
int rename(const char *name, const char *other) { return renameat2(AT_FDCWD, name, AT_FDCWD, other, 0); }

int unlinkat(int directory, const char *name, int flags)
{
    char path[PATH];
    if (!name_is_meant(directory, name, path)) return syscall(SYS_unlinkat, directory, name, flags);
    if (refused(0)) return -1;
    LOGGED(syscall(SYS_unlinkat, directory, name, flags), flags & AT_REMOVEDIR ? RMDIR : UNLINK, 0, 0, path, 0, 0, 0);
}
int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
int rmdir(const char *name) { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }

int mkdirat(int directory, const char *name, mode_t rights)
{
    char path[PATH];
    if (!name_is_meant(directory, name, path)) return syscall(SYS_mkdirat, directory, name, rights);
    if (refused(1)) return -1;
    LOGGED(syscall(SYS_mkdirat, directory, name, rights), MKDIR, 0, 0, path, 0, 0, 0);
}
int mkdir(const char *name, mode_t rights) { return mkdirat(AT_FDCWD, name, rights); }

int linkat(int from, const char *name, int to, const char *other, int flags)
{
    char path[PATH], target[PATH];
    int meant = name_is_meant(from, name, path);
    if (!name_is_meant(to, other, target) && !meant) return syscall(SYS_linkat, from, name, to, other, flags);
    if (refused(1)) return -1;
    LOGGED(syscall(SYS_linkat, from, name, to, other, flags), LINK, 0, 0, path, target, 0, 0);
}
int link(const char *name, const char *other) { return linkat(AT_FDCWD, name, AT_FDCWD, other, 0); }

static int opened(int directory, const char *name, int flags, mode_t rights)
{
    char path[PATH];
    struct stat status;
    int file, code, there;
    if (!(flags & (O_CREAT | O_TRUNC)) || !name_is_meant(directory, name, path))
        return syscall(SYS_openat, directory, name, flags, rights);
    there = !syscall(SYS_newfstatat, directory, name, &status, 0);
    if (there ? !(flags & O_TRUNC) || !S_ISREG(status.st_mode) || !status.st_size : !(flags & O_CREAT))
        return syscall(SYS_openat, directory, name, flags, rights);
    if (refused(!there)) return -1;
    if (mode != LOG) return syscall(SYS_openat, directory, name, flags, rights);
    pthread_mutex_lock(&one_by_one);
    file = syscall(SYS_openat, directory, name, flags, rights), code = errno;
    if (file >= 0) entry(there ? TRUNCATE : CREATE, inode_of(file), 0, path, 0, 0, 0);
    pthread_mutex_unlock(&one_by_one);
    errno = code;
    return file;
}

#define OPEN(directory)                                   \
    mode_t rights = 0;                                    \
    if (flags & (O_CREAT | __O_TMPFILE)) {                \
        va_list rest;                                     \
        va_start(rest, flags);                            \
        rights = va_arg(rest, mode_t);                    \
        va_end(rest);                                     \
    }                                                     \
    return opened(directory, name, flags, rights);
int open(const char *name, int flags, ...) { OPEN(AT_FDCWD) }
int open64(const char *name, int flags, ...) { OPEN(AT_FDCWD) }
int openat(int directory, const char *name, int flags, ...) { OPEN(directory) }
int openat64(int directory, const char *name, int flags, ...) { OPEN(directory) }
