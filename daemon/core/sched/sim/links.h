/* Messages that share links: processor sharing on ports. A message is on the out side of one port
 * and on the in side of another; n messages on a side each get an n-th of it, and a message goes at
 * the pace of its fuller side. Private to core/sched.
 *
 * Two devices of a node meet on the ports of the devices, two nodes on the ports of their NICs. */
#ifndef CS_SCHED_SIM_LINKS_H
#define CS_SCHED_SIM_LINKS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"

#define CS_LINKS_NONE UINT32_MAX

/* The transfer will end at `at` unless it is told again; stamp says which telling is the last. */
typedef void (*cs_links_tell)(void *user, uint32_t transfer, uint32_t stamp, double at);

struct cs_links_transfer {
    double left, since; /* work left, in time it takes alone, when its share last changed */
    uint32_t share;     /* messages on its fuller side, 0: not under way */
    uint32_t stamp;
    int32_t port[2];
    uint32_t next[2], before[2]; /* on the same side of the same port */
};

struct cs_links {
    const int32_t *node, *nic;
    int32_t n_ranks;
    bool is_whole; /* ends are rounded up to whole numbers */
    cs_links_tell tell;
    void *user;
    struct cs_links_transfer *transfer;
    uint32_t *first[2]; /* (2 * n_ranks) by side: ports of devices, then of NICs */
    uint32_t *count[2];
};

/* node, nic: (n_ranks), nic below n_ranks. tell and user are for the caller to set. */
void cs_links_init(struct cs_links *links, const int32_t *node, const int32_t *nic, int32_t n_ranks,
                   uint32_t n_transfers, bool is_whole, struct cs_arena *arena);
/* work > 0: its time alone */
void cs_links_join(struct cs_links *links, uint32_t transfer, int32_t from, int32_t to, double work,
                   double now);
/* false: the stamp is not the last one told */
bool cs_links_leave(struct cs_links *links, uint32_t transfer, uint32_t stamp, double now);

#endif
