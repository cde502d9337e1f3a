/* Loaded with LD_PRELOAD: notes every block of the heap that is allocated while `recording` is set, and whether it lives.
   Python reads `records` and `count` through ctypes. glibc only. */

#include <errno.h>
#include <stddef.h>

struct record {
    size_t size_bytes;
    void *block;
    int live;
};

#define MOST_RECORDS 262144
#define LEAST_BYTES 256

struct record records[MOST_RECORDS];
int count = 0;
int recording = 0;

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static void *noted(void *block, size_t size_bytes) {
    if (recording && block && size_bytes >= LEAST_BYTES && count < MOST_RECORDS) {
        int place = __sync_fetch_and_add(&count, 1);
        records[place] = (struct record){size_bytes, block, 1};
    }
    return block;
}

static void freed(void *block) {
    if (!recording || !block) return;
    for (int place = count - 1; place >= 0; place--)
        if (records[place].live && records[place].block == block) {
            records[place].live = 0;
            return;
        }
}

void *malloc(size_t size_bytes) { return noted(__libc_malloc(size_bytes), size_bytes); }

void *calloc(size_t number, size_t each_bytes) { return noted(__libc_calloc(number, each_bytes), number * each_bytes); }

void *realloc(void *block, size_t size_bytes) {
    freed(block);
    return noted(__libc_realloc(block, size_bytes), size_bytes);
}

void *memalign(size_t alignment, size_t size_bytes) { return noted(__libc_memalign(alignment, size_bytes), size_bytes); }

void *aligned_alloc(size_t alignment, size_t size_bytes) { return memalign(alignment, size_bytes); }

int posix_memalign(void **block, size_t alignment, size_t size_bytes) {
    *block = memalign(alignment, size_bytes);
    return *block ? 0 : ENOMEM;
}

void free(void *block) {
    freed(block);
    __libc_free(block);
}
