/* OpenBLAS reads its environment when it is loaded. Left alone it takes all cores, and picks its
 * kernels by a table of processors: one that is newer than the library gets a kernel of 2004, five
 * times slower. Both can only be changed before the process starts, so the program starts itself
 * again. */
#ifndef CS_WORKER_DEVICE_BLAS_H
#define CS_WORKER_DEVICE_BLAS_H

#include <stdbool.h>

/* Set OPENBLAS_NUM_THREADS (1) and OPENBLAS_CORETYPE where nobody has set them and the choice is
 * bad. true: something was set, the program must be executed again for it to count. Call it before
 * any thread is started. */
bool cs_blas_set_environment(void);

#endif
