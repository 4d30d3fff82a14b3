/* Memory for large arrays. */
#ifndef CS_BASE_PAGES_H
#define CS_BASE_PAGES_H

#include <stddef.h>

/* At least `bytes`, aligned to 256 bytes, not filled; free() gives it back. NULL: there is none. A large block is in
 * huge pages where the system has them: then it is touched for the first time in a third of the time. */
void *cs_alloc_array(size_t bytes);

#endif
