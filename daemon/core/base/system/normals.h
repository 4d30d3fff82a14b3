/* Random normals on several threads. */
#ifndef CS_BASE_NORMALS_H
#define CS_BASE_NORMALS_H

#include <stdint.h>

/* cs_philox_fill_normal from 0 on: the values do not depend on how many threads there are. */
void cs_philox_fill_normal_on(int threads, uint64_t seed, uint64_t name_hash, int64_t n, double std,
                              float *out);

#endif
