/* Makes every library of a process believe that its CPU is an older one.
 *
 * Loaded by LD_PRELOAD, it lets CPUID fault (Linux arch_prctl ARCH_SET_CPUID; the CPU must have the flag cpuid_fault), carries each
 * faulting CPUID out in the signal handler, and clears the bits of the instruction sets above the cap. What runs after that picks
 * its kernels by these bits. The cap is named by the environment variable CPUID_CAP: sse42, avx, avx2 or avx512.
 *
 * The dynamic linker asked before this was loaded, so the C library's own string functions stay uncapped. Code that asks the kernel
 * (/proc/cpuinfo, AT_HWCAP2) instead of CPUID sees the real CPU.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define ARCH_SET_CPUID 0x1012
#define BIT(n) (1u << (n))

enum cap { SSE42, AVX, AVX2, AVX512, NO_CAP };

static const char *const NAMES[] = {"sse42", "avx", "avx2", "avx512"};
static enum cap cap = NO_CAP;
static struct sigaction before;

struct registers {
    uint32_t a, b, c, d;
};

static void allow_cpuid(int allowed) {
    syscall(SYS_arch_prctl, ARCH_SET_CPUID, allowed);
}

static struct registers real_cpuid(uint32_t leaf, uint32_t subleaf) {
    struct registers r;
    allow_cpuid(1);
    __asm__ volatile("cpuid" : "=a"(r.a), "=b"(r.b), "=c"(r.c), "=d"(r.d) : "0"(leaf), "2"(subleaf));
    allow_cpuid(0);
    return r;
}

/* Clears what an older CPU lacks. Bits as in Intel's Software Developer's Manual, volume 2, CPUID. */
static void mask(uint32_t leaf, uint32_t subleaf, struct registers *r) {
    if (leaf == 1) {
        if (cap < AVX2) r->c &= ~(BIT(12) | BIT(29)); /* FMA, F16C */
        if (cap < AVX) r->c &= ~BIT(28);              /* AVX */
    } else if (leaf == 7 && subleaf == 0) {
        if (cap < AVX) r->c &= ~(BIT(9) | BIT(10));            /* VAES, VPCLMULQDQ */
        if (cap < AVX2) r->b &= ~(BIT(3) | BIT(5) | BIT(8));   /* BMI1, AVX2, BMI2 */
        if (cap < AVX512) {
            r->b &= ~(BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) | BIT(30) | BIT(31)); /* F, DQ, IFMA, PF, ER, CD, BW, VL */
            r->c &= ~(BIT(1) | BIT(6) | BIT(12) | BIT(14));                                           /* VBMI, VBMI2, BITALG, VPOPCNTDQ */
            r->d &= ~(BIT(2) | BIT(3) | BIT(8));                                                      /* 4VNNIW, 4FMAPS, VP2INTERSECT */
        }
        r->c &= ~BIT(11);                                   /* AVX512-VNNI */
        r->d &= ~(BIT(22) | BIT(23) | BIT(24) | BIT(25));   /* AMX-BF16, AVX512-FP16, AMX-TILE, AMX-INT8 */
    } else if (leaf == 7 && subleaf == 1) {
        r->a &= ~(BIT(5) | BIT(21) | BIT(22));              /* AVX512-BF16, AMX-FP16, HRESET */
        if (cap < AVX512) {
            r->a &= ~(BIT(4) | BIT(23));                    /* AVX-VNNI, AVX-IFMA */
            r->d &= ~(BIT(4) | BIT(5) | BIT(10) | BIT(19)); /* AVX-VNNI-INT8, AVX-NE-CONVERT, AVX-VNNI-INT16, AVX10 */
        }
    } else if (leaf == 0x80000001u) {
        if (cap < AVX2) r->c &= ~BIT(5); /* LZCNT */
    } else if (leaf == 0xd && subleaf == 0 && cap < AVX512) {
        r->a &= cap < AVX ? 3u : 7u; /* state that XSAVE keeps: x87, SSE, AVX */
    }
}

static void on_fault(int number, siginfo_t *info, void *raw) {
    greg_t *g = ((ucontext_t *)raw)->uc_mcontext.gregs;
    const uint8_t *instruction = (const uint8_t *)g[REG_RIP];
    /* SI_KERNEL tells a protection fault, whose instruction can be read, from a bad address. */
    if (info->si_code == SI_KERNEL && instruction && instruction[0] == 0x0f && instruction[1] == 0xa2) {
        uint32_t leaf = (uint32_t)g[REG_RAX], subleaf = (uint32_t)g[REG_RCX];
        struct registers r = real_cpuid(leaf, subleaf);
        mask(leaf, subleaf, &r);
        g[REG_RAX] = r.a, g[REG_RBX] = r.b, g[REG_RCX] = r.c, g[REG_RDX] = r.d;
        g[REG_RIP] += 2;
        return;
    }
    if ((before.sa_flags & SA_SIGINFO) && before.sa_sigaction) {
        before.sa_sigaction(number, info, raw);
        return;
    }
    signal(SIGSEGV, SIG_DFL); /* the instruction faults again, and the process ends as it would have */
}

__attribute__((constructor)) static void cap_cpuid(void) {
    const char *wanted = getenv("CPUID_CAP");
    if (!wanted) return;
    for (int i = SSE42; i < NO_CAP; i++)
        if (!strcmp(wanted, NAMES[i])) cap = (enum cap)i;
    if (cap == NO_CAP) {
        fprintf(stderr, "CPUID_CAP=%s is none of sse42, avx, avx2, avx512\n", wanted);
        _exit(2);
    }
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, &before);
    if (syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0)) {
        perror("CPUID cannot be made to fault here");
        _exit(2);
    }
}
