/* One copy of a function per vector width, chosen at load time. All copies give the same bits: the
 * tree is compiled with -ffp-contract=off (no fused multiply-add) and every sum of floating point has
 * an explicit order of lanes. Sanitizers cannot run the resolvers, they get the portable copy. */
#ifndef CS_BASE_CLONES_H
#define CS_BASE_CLONES_H

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__OPTIMIZE__) &&    \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CS_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CS_CLONES
#endif

#endif
