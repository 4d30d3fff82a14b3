/* Asks for huge pages for large blocks of memory. */
#include "core/base/system/pages.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { ALIGN = 256, HUGE_PAGE = 2 << 20, LARGE = 8 * HUGE_PAGE };

void *cs_alloc_array(size_t bytes)
{
    const size_t align = bytes < LARGE ? ALIGN : HUGE_PAGE;
    if (bytes > SIZE_MAX - align)
        return NULL;
    const size_t room = (bytes / align + 1) * align;
    void *p = aligned_alloc(align, room);
    if (p != NULL && align == HUGE_PAGE)
        (void)madvise(p, room, MADV_HUGEPAGE); /* without it pages are small */
    return p;
}
