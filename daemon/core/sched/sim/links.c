/* Shares the ports of links between messages. Products and sums stand in statements of their own, so
 * that no compiler fuses them: the same numbers on every machine. */
#include "core/sched/sim/links.h"

#include <math.h>

enum { OUT, IN };

void cs_links_init(struct cs_links *links, const int32_t *node, const int32_t *nic, int32_t n_ranks,
                   uint32_t n_transfers, bool is_whole, struct cs_arena *arena)
{
    int32_t n = 2 * n_ranks;
    *links = (struct cs_links){.node = node, .nic = nic, .n_ranks = n_ranks, .is_whole = is_whole};
    links->transfer = CS_NEW_ARRAY(arena, struct cs_links_transfer, (size_t)n_transfers + 1);
    for (int side = OUT; side <= IN; side++) {
        links->first[side] = CS_NEW_ARRAY(arena, uint32_t, n + 1);
        links->count[side] = CS_NEW_ARRAY(arena, uint32_t, n + 1);
        for (int32_t p = 0; p < n; p++)
            links->first[side][p] = CS_LINKS_NONE;
    }
}

static void update(struct cs_links *l, uint32_t id, double now)
{
    struct cs_links_transfer *t = &l->transfer[id];
    uint32_t out = l->count[OUT][t->port[OUT]], in = l->count[IN][t->port[IN]];
    uint32_t share = out > in ? out : in;
    if (share == t->share)
        return;
    if (t->share > 0) {
        double passed = now - t->since;
        double done = passed / t->share;
        t->left -= done;
    }
    t->left = t->left > 0 ? t->left : 0;
    t->since = now;
    t->share = share;
    double need = t->left * share;
    double at = now + need;
    l->tell(l->user, id, ++t->stamp, l->is_whole ? ceil(at) : at);
}

static void update_ports(struct cs_links *l, const int32_t port[2], double now)
{
    for (int side = OUT; side <= IN; side++)
        for (uint32_t id = l->first[side][port[side]]; id != CS_LINKS_NONE;
             id = l->transfer[id].next[side])
            update(l, id, now);
}

void cs_links_join(struct cs_links *l, uint32_t id, int32_t from, int32_t to, double work,
                   double now)
{
    struct cs_links_transfer *t = &l->transfer[id];
    bool leaves = l->node[from] != l->node[to];
    t->port[OUT] = leaves ? l->n_ranks + l->nic[from] : from;
    t->port[IN] = leaves ? l->n_ranks + l->nic[to] : to;
    t->left = work;
    for (int side = OUT; side <= IN; side++) {
        uint32_t *first = &l->first[side][t->port[side]];
        t->next[side] = *first;
        t->before[side] = CS_LINKS_NONE;
        if (*first != CS_LINKS_NONE)
            l->transfer[*first].before[side] = id;
        *first = id;
        l->count[side][t->port[side]]++;
    }
    update_ports(l, t->port, now);
}

bool cs_links_leave(struct cs_links *l, uint32_t id, uint32_t stamp, double now)
{
    struct cs_links_transfer *t = &l->transfer[id];
    if (stamp != t->stamp)
        return false;
    for (int side = OUT; side <= IN; side++) {
        uint32_t next = t->next[side], before = t->before[side];
        if (next != CS_LINKS_NONE)
            l->transfer[next].before[side] = before;
        if (before != CS_LINKS_NONE)
            l->transfer[before].next[side] = next;
        else
            l->first[side][t->port[side]] = next;
        l->count[side][t->port[side]]--;
    }
    update_ports(l, t->port, now);
    return true;
}
