/* OpenBLAS picks its kernels when it is loaded, by a table of processors: one that is newer than
 * the library gets a kernel of 2004, five times slower. The choice can only be changed by the
 * environment before the process starts. */
#ifndef CS_WORKER_BLAS_H
#define CS_WORKER_BLAS_H

/* What OPENBLAS_CORETYPE should be for this processor; NULL: OpenBLAS chose well, or somebody else
 * has pinned it. */
const char *cs_blas_better_core(void);

#endif
