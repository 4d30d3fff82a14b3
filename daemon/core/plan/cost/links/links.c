/* From measured exchanges, or the link of a class of devices, to times. */
#include "core/plan/cost/links/links.h"

#include <math.h>
#include <string.h>

#include "core/plan/cost/basis/round.h"

int64_t cs_link_ns(const struct cs_device_class *device, int64_t bytes)
{
    if (bytes == 0 || device->link_bytes_per_s <= 0)
        return 0;
    return device->link_latency_ns +
           cs_divide_up((cs_u128)bytes * 1000000000u, device->link_bytes_per_s);
}

/* steps of latency, and what a rank sends over its link as a share of the vector: num / n */
struct ring {
    int64_t steps, num;
};

static struct ring ring_of(enum cs_link_op op, int64_t n)
{
    if (op == CS_LINK_SEND || op == CS_LINK_SHIFT)
        return (struct ring){1, n};
    if (op == CS_LINK_ALL_TO_ALL)
        return (struct ring){1, n - 1};
    const int64_t times = op == CS_LINK_ALL_REDUCE ? 2 : 1;
    return (struct ring){times * (n - 1), times * (n - 1)};
}

/* the group of at least n ranks, else the largest, of those that were measured; -1: none */
static int group_of(const struct cs_link_curves *measured, enum cs_link_op op, int64_t n)
{
    int best = -1;
    for (int g = 0; measured != NULL && g < CS_LINK_GROUPS; g++)
        if (measured->curve[op][g].bytes_per_s > 0 && (best < 0 || (int64_t)2 << best < n))
            best = g;
    return best;
}

/* An exchange, as what was measured in its place: between two ranks a shift is what an all-to-all of twice the bytes is. */
struct exchange {
    enum cs_link_op op;
    int64_t n, bytes;
};

static struct exchange as_measured(const struct cs_link_curves *measured, struct exchange x)
{
    const bool has_other = group_of(measured, CS_LINK_ALL_TO_ALL, 2) >= 0;
    if (x.op != CS_LINK_SHIFT || !has_other || group_of(measured, x.op, x.n) >= 0)
        return x;
    return (struct exchange){CS_LINK_ALL_TO_ALL, 2, 2 * x.bytes};
}

static int64_t over_ring(const struct ring *ring, int64_t n, int64_t bytes, int64_t latency_ns,
                         int64_t bytes_per_s)
{
    if (bytes_per_s <= 0)
        return 0;
    return ring->steps * latency_ns +
           cs_divide_up((cs_u128)bytes * (cs_u128)ring->num * 1000000000u / (cs_u128)n,
                        bytes_per_s);
}

/* ns of the group that was measured; beyond its sizes their line */
static double on_curve(const struct cs_link_curve *m, double bytes)
{
    for (int32_t k = 1; k < m->n_points; k++) {
        const struct cs_link_point *a = &m->point[k - 1], *b = &m->point[k];
        if (bytes >= (double)a->bytes && bytes <= (double)b->bytes)
            return (double)a->ns + (bytes - (double)a->bytes) * (double)(b->ns - a->ns) /
                                       (double)(b->bytes - a->bytes);
    }
    return (double)m->latency_ns + bytes * 1e9 / (double)m->bytes_per_s;
}

int64_t cs_exchange_ns(const struct cs_device_class *device, enum cs_link_op op, int64_t n,
                       int64_t bytes)
{
    if (n < 2 || bytes <= 0)
        return 0;
    const struct exchange x = as_measured(device->measured, (struct exchange){op, n, bytes});
    const struct ring ring = ring_of(x.op, x.n);
    const int group = group_of(device->measured, x.op, x.n);
    if (group < 0)
        return over_ring(&ring, x.n, x.bytes, device->link_latency_ns, device->link_bytes_per_s);
    const struct cs_link_curve *m = &device->measured->curve[x.op][group];
    const int64_t measured_n = (int64_t)2 << group;
    const struct ring of = ring_of(x.op, measured_n);
    const double more = (double)ring.num * (double)measured_n / ((double)of.num * (double)x.n),
                 latency = (double)m->latency_ns, moves = on_curve(m, (double)x.bytes) - latency;
    return (int64_t)(latency * (double)ring.steps / (double)of.steps + fmax(moves, 0) * more);
}

const struct cs_link_beside *cs_link_beside_of(const struct cs_device_class *device,
                                               enum cs_link_op op, int64_t n)
{
    const int group = group_of(device->measured, op, n);
    const struct cs_link_beside *beside = group >= 0 ? &device->measured->beside[op][group] : NULL;
    return beside != NULL && beside->times > 0 ? beside : NULL;
}

int64_t cs_exchange_latency_ns(const struct cs_device_class *device, enum cs_link_op op, int64_t n)
{
    struct cs_link_curves links = {0};
    struct cs_device_class instant = *device;
    instant.link_bytes_per_s = INT64_MAX;
    if (device->measured != NULL) {
        links = *device->measured;
        instant.measured = &links;
    }
    const enum cs_link_op as = as_measured(device->measured, (struct exchange){op, n, 1}).op;
    for (int g = 0; g < CS_LINK_GROUPS; g++)
        if (links.curve[as][g].bytes_per_s > 0)
            links.curve[as][g] = (struct cs_link_curve){.latency_ns = links.curve[as][g].latency_ns,
                                                        .bytes_per_s = INT64_MAX};
    return cs_exchange_ns(&instant, op, n, 1);
}

static struct cs_link_beside beside_of(const struct cs_profile_link *link)
{
    if (link->beside_bytes_per_s <= 0)
        return (struct cs_link_beside){0};
    return (struct cs_link_beside){(double)link->bytes_per_s / (double)link->beside_bytes_per_s,
                                   link->slows};
}

static struct cs_link_curve curve_of(const struct cs_profile_link *link)
{
    struct cs_link_curve curve = {.latency_ns = link->latency_ns,
                                  .bytes_per_s = link->bytes_per_s,
                                  .n_points = link->n_points};
    memcpy(curve.point, link->point, sizeof curve.point);
    return curve;
}

static const struct cs_link_curves *curves_of(const struct cs_profile *profile,
                                              struct cs_arena *arena)
{
    struct cs_link_curves *links = CS_NEW(arena, struct cs_link_curves);
    for (int32_t i = 0; i < profile->n_links; i++)
        for (int op = 0; op < CS_LINK_OPS; op++)
            for (int g = 0; g < CS_LINK_GROUPS; g++)
                if (strcmp(profile->link[i].op, cs_link_op_names[op]) == 0 &&
                    profile->link[i].ranks == 2 << g) {
                    links->curve[op][g] = curve_of(&profile->link[i]);
                    links->beside[op][g] = beside_of(&profile->link[i]);
                }
    return links;
}

/* A ring of n sums n parts in n - 1 steps and sends them around in as many: 2 (n - 1) latencies, and
 * 2 (n - 1) / n of the bytes over each link. */
bool cs_profile_ring(const struct cs_profile *profile, int64_t *latency_ns, int64_t *bytes_per_s)
{
    const struct cs_profile_link *best = NULL;
    for (int32_t i = 0; profile != NULL && i < profile->n_links; i++) {
        const struct cs_profile_link *l = &profile->link[i];
        const bool is_ring = strcmp(l->op, "all-reduce") == 0;
        if (is_ring ? best == NULL || strcmp(best->op, l->op) != 0 || l->ranks > best->ranks
                    : best == NULL && strcmp(l->op, "send") == 0)
            best = l;
    }
    if (best == NULL)
        return false;
    const bool is_ring = strcmp(best->op, "all-reduce") == 0;
    const int64_t steps = is_ring ? 2 * ((int64_t)best->ranks - 1) : 1;
    const double times = is_ring ? (double)steps / best->ranks : 1;
    *latency_ns = best->latency_ns / steps;
    *bytes_per_s = (int64_t)((double)best->bytes_per_s * times);
    return *bytes_per_s > 0;
}

void cs_profile_cluster(const struct cs_profile *profile, struct cs_arena *arena,
                        struct cs_cluster *cluster)
{
    int64_t latency_ns, bytes_per_s;
    if (!cs_profile_ring(profile, &latency_ns, &bytes_per_s))
        return;
    struct cs_device_class *own = CS_NEW(arena, struct cs_device_class);
    *own = *cluster->device;
    own->link_latency_ns = latency_ns;
    own->link_bytes_per_s = bytes_per_s;
    own->measured = curves_of(profile, arena);
    cluster->device = own;
}

enum cs_status cs_spec_cluster(const struct cs_spec *spec, const struct cs_here *here,
                               struct cs_arena *arena, struct cs_cluster *out, struct cs_err *err)
{
    struct cs_profile *profile = NULL;
    json_t *this_node = json_string("here");
    enum cs_status status =
        cs_cluster_read_here(spec->cluster != NULL ? spec->cluster : this_node, here, out, err);
    json_decref(this_node);
    if (status == CS_OK)
        status = cs_spec_profile(spec, arena, &profile, err);
    if (status == CS_OK)
        cs_profile_cluster(profile, arena, out);
    return status;
}
