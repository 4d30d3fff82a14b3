/* The policies that give samples replicas and slots. */
#include "core/spread/slot_policies.h"

#include <math.h>
#include <string.h>

#include "core/base/philox.h"
#include "core/base/units.h"
#include "core/spread/assign_list.h"
#include "core/spread/assign_order.h"

enum { MAX_CELLS = 1 << 20 };

/* What every policy works on. */
struct job {
    const struct cs_assign_samples *in;
    const struct cs_assign_options *options;
    struct cs_assign_result *out;
    const double *both; /* (n) enc + llm */
    struct cs_arena *arena;
};

/* Samples (of one replica), ascending. */
struct subset {
    int32_t n, *index;
};

static struct subset everything(const struct job *job)
{
    struct subset all = {job->in->n, CS_NEW_ARRAY(job->arena, int32_t, job->in->n)};
    for (int32_t i = 0; i < all.n; i++)
        all.index[i] = i;
    return all;
}

static struct cs_list list_of(const struct subset *set, const double *cost, int32_t bins,
                              int32_t *bin)
{
    return (struct cs_list){
        .n = set->n, .index = set->index, .n_dims = 1, .dim = {cost}, .bins = bins, .bin = bin};
}

static void balance_into(const struct job *job, const struct subset *set, int32_t bins,
                         int32_t *bin)
{
    struct cs_list list = list_of(set, job->in->enc, bins, bin);
    if (job->options->n_enc_parts > 0) {
        list.n_dims = job->options->n_enc_parts;
        for (int32_t d = 0; d < list.n_dims; d++)
            list.dim[d] = job->options->enc_part[d];
    }
    list.dim[list.n_dims++] = job->in->llm;
    if (job->in->tokens)
        list.dim[list.n_dims++] = job->in->tokens;
    list.room = bin == job->out->slot ? job->options->room : NULL;
    (void)cs_list_balance(&list, job->arena);
}

static void replicas_list2d(const struct job *job)
{
    const struct subset all = everything(job);
    balance_into(job, &all, job->options->replicas, job->out->replica);
}

static void slots_list2d(const struct job *job, const struct subset *replica)
{
    balance_into(job, replica, job->options->slots, job->out->slot);
}

static void replicas_random(const struct job *job)
{
    const int32_t n = job->in->n, replicas = job->options->replicas, slots = job->options->slots;
    int32_t *order = CS_NEW_ARRAY(job->arena, int32_t, n);
    for (int32_t i = 0; i < n; i++) {
        const int32_t j =
            (int32_t)(cs_philox_uniform(job->options->seed, 1, (uint64_t)i) * (i + 1));
        order[i] = order[j];
        order[j] = i;
    }
    const struct cs_list_fill fill = cs_list_fill_make(job->options->room, slots, job->arena);
    for (int32_t i = 0; i < n; i++) { /* dealt; a full slot is passed over */
        int32_t slot = i / replicas % slots, tries = 0;
        while (tries < slots && !cs_list_fits(&fill, order[i], slot)) {
            slot = (slot + 1) % slots;
            tries++;
        }
        job->out->replica[order[i]] = i % replicas;
        job->out->slot[order[i]] = tries < slots ? slot : -1;
        if (tries < slots)
            cs_list_put(&fill, order[i], slot);
    }
}

static void lpt_into(const struct job *job, const struct subset *set, const double *cost,
                     int32_t bins, int32_t *bin)
{
    struct cs_list list = list_of(set, cost, bins, bin);
    list.room = bin == job->out->slot ? job->options->room : NULL;
    (void)cs_list_lpt(&list, job->arena);
}

static void replicas_lpt(const struct job *job)
{
    const struct subset all = everything(job);
    lpt_into(job, &all, job->both, job->options->replicas, job->out->replica);
}

static void slots_lpt(const struct job *job, const struct subset *replica)
{
    lpt_into(job, replica, job->both, job->options->slots, job->out->slot);
}

static void slots_lpt_enc(const struct job *job, const struct subset *replica)
{
    lpt_into(job, replica, job->in->enc, job->options->slots, job->out->slot);
}

/* equal counts: a replica holds at most ceil(n / replicas) samples */
static void replicas_lpt_counted(const struct job *job)
{
    const struct subset all = everything(job);
    struct cs_list list = list_of(&all, job->both, job->options->replicas, job->out->replica);
    list.cap = all.n > 0 ? (all.n - 1) / job->options->replicas + 1 : 0;
    (void)cs_list_lpt(&list, job->arena);
}

/* equal counts; a slot that is full ends before */
static void slots_by_arrival(const struct job *job, const struct subset *replica)
{
    const int32_t slots = job->options->slots;
    const struct cs_list_fill fill = cs_list_fill_make(job->options->room, slots, job->arena);
    int32_t slot = 0;
    for (int32_t i = 0; i < replica->n; i++) {
        const int32_t sample = replica->index[i], due = (int32_t)((int64_t)i * slots / replica->n);
        slot = slot > due ? slot : due;
        while (slot < slots && !cs_list_fits(&fill, sample, slot))
            slot++;
        job->out->slot[sample] = slot < slots ? slot : -1;
        if (slot < slots)
            cs_list_put(&fill, sample, slot);
    }
}

/* Sums of the slots of one replica, before the result has its own. */
static void slots_disttrain(const struct job *job, const struct subset *replica)
{
    const int32_t k = job->options->slots, e = job->options->enc_stages,
                  l = job->options->llm_stages;
    double *enc = CS_NEW_ARRAY(job->arena, double, k), *llm = CS_NEW_ARRAY(job->arena, double, k);
    int32_t *order = CS_NEW_ARRAY(job->arena, int32_t, k),
            *place = CS_NEW_ARRAY(job->arena, int32_t, k);
    const struct cs_pipe pipe = {e > 0 ? e : 1, l > 0 ? l : 1, 2, 2};
    const struct cs_pipe_slots slots = {k, enc, NULL, llm};
    slots_by_arrival(job, replica);
    for (int32_t i = 0; i < replica->n; i++) {
        const int32_t slot = job->out->slot[replica->index[i]];
        if (slot < 0)
            continue;
        enc[slot] += job->in->enc[replica->index[i]];
        llm[slot] += job->in->llm[replica->index[i]];
    }
    cs_order_disttrain(&pipe, &slots, job->arena, order);
    for (int32_t i = 0; i < k; i++)
        place[order[i]] = i;
    for (int32_t i = 0; i < replica->n; i++) {
        int32_t *slot = &job->out->slot[replica->index[i]];
        *slot = *slot < 0 ? -1 : place[*slot];
    }
}

/* Entrain: by encoder work, each to the replica with the least LLM work so far. */
static void replicas_entrain(const struct job *job)
{
    struct subset all = everything(job);
    double *load = CS_NEW_ARRAY(job->arena, double, job->options->replicas);
    cs_list_sort(all.index, all.n, job->in->enc, job->in->llm, job->arena);
    for (int32_t i = 0; i < all.n; i++) {
        int32_t least = 0;
        for (int32_t l = 1; l < job->options->replicas; l++)
            least = load[l] < load[least] ? l : least;
        job->out->replica[all.index[i]] = least;
        load[least] += job->in->llm[all.index[i]];
    }
}

struct strata {
    int32_t slots;
    double *enc, *llm; /* (slots) loads so far */
    struct cs_list_fill fill;
    bool is_literal;
};

/* Is slot a better than b? Least encoder load. Text-only samples do not change it, so that all of
 * them would end in one slot: they go to the least LLM load, and so do ties. */
static bool is_emptier(const struct strata *s, int32_t a, int32_t b, bool has_enc)
{
    if (s->is_literal || (has_enc && s->enc[a] != s->enc[b]))
        return s->enc[a] < s->enc[b];
    return s->llm[a] < s->llm[b];
}

/* -1: no slot has room */
static int32_t stratum_slot(const struct strata *s, int32_t sample, bool has_enc)
{
    int32_t best = -1;
    for (int32_t b = 0; b < s->slots; b++)
        if ((best < 0 || is_emptier(s, b, best, has_enc)) && cs_list_fits(&s->fill, sample, b))
            best = b;
    return best;
}

static int32_t limited_slots(const struct job *job, const struct subset *replica)
{
    double sum = 0, max = 0;
    for (int32_t i = 0; i < replica->n; i++) {
        sum += job->in->enc[replica->index[i]];
        max = fmax(max, job->in->enc[replica->index[i]]);
    }
    if (!job->options->is_slots_limited || max == 0 || sum / max >= job->options->slots)
        return job->options->slots;
    return (int32_t)(sum / max); /* >= 1 */
}

static void slots_entrain(const struct job *job, const struct subset *replica)
{
    struct strata s = {.slots = limited_slots(job, replica),
                       .is_literal = job->options->how == CS_ASSIGN_ENTRAIN_LITERAL};
    int32_t *order = CS_NEW_ARRAY(job->arena, int32_t, replica->n);
    const int32_t half = (replica->n + 1) / 2;
    s.enc = CS_NEW_ARRAY(job->arena, double, s.slots);
    s.llm = CS_NEW_ARRAY(job->arena, double, s.slots);
    s.fill = cs_list_fill_make(job->options->room, s.slots, job->arena);
    memcpy(order, replica->index, (size_t)replica->n * sizeof *order);
    cs_list_sort(order, replica->n, job->in->llm, NULL, job->arena); /* upper half: much LLM work */
    cs_list_sort(order, half, job->in->enc, s.is_literal ? NULL : job->in->llm, job->arena);
    cs_list_sort(order + half, replica->n - half, job->in->enc, s.is_literal ? NULL : job->in->llm,
                 job->arena);
    for (int32_t i = 0; i < replica->n; i++) {
        const int32_t sample = order[i], slot = stratum_slot(&s, sample, job->in->enc[sample] > 0);
        job->out->slot[sample] = slot;
        if (slot < 0)
            continue;
        cs_list_put(&s.fill, sample, slot);
        s.enc[slot] += job->in->enc[sample];
        s.llm[slot] += job->in->llm[sample];
    }
}

/* clang-format off */
static const struct {
    const char *name;
    void (*replicas)(const struct job *job);
    /* of one replica; NULL: done with the replicas */
    void (*slots)(const struct job *job, const struct subset *replica);
} policies[CS_ASSIGN_HOWS] = {
    [CS_ASSIGN_LIST2D] =          {"list2d",          replicas_list2d,      slots_list2d    },
    [CS_ASSIGN_RANDOM] =          {"random",          replicas_random,      NULL            },
    [CS_ASSIGN_LPT] =             {"lpt",             replicas_lpt,         slots_lpt       },
    [CS_ASSIGN_LPT_ENC] =         {"lpt_enc",         replicas_entrain,     slots_lpt_enc   },
    [CS_ASSIGN_LPT_REPLICAS] =    {"lpt_lanes",       replicas_lpt_counted, slots_by_arrival},
    [CS_ASSIGN_DISTTRAIN] =       {"disttrain",       replicas_lpt_counted, slots_disttrain },
    [CS_ASSIGN_ENTRAIN] =         {"entrain",         replicas_entrain,     slots_entrain   },
    [CS_ASSIGN_ENTRAIN_LITERAL] = {"entrain_literal", replicas_entrain,     slots_entrain   },
};

/* clang-format on */

const char *cs_assign_how_name(enum cs_assign_how how)
{
    return how < CS_ASSIGN_HOWS ? policies[how].name : "unknown";
}

bool cs_assign_how_from_name(const char *name, enum cs_assign_how *how)
{
    for (int i = 0; i < CS_ASSIGN_HOWS; i++)
        if (strcmp(name, policies[i].name) == 0) {
            *how = (enum cs_assign_how)i;
            return true;
        }
    return false;
}

static bool is_cost(double value)
{
    return value >= 0 && value < INFINITY;
}

static enum cs_status check(const struct cs_assign_samples *in,
                            const struct cs_assign_options *options, struct cs_err *err)
{
    if (in->n < 0 || options->replicas < 1 || options->slots < 1 ||
        options->how >= CS_ASSIGN_HOWS || (int64_t)options->replicas * options->slots > MAX_CELLS)
        return cs_fail(
            err, CS_INVALID,
            "%d sample%s on %d lane%s of %d slot%s; lanes and slots must be at least 1 and "
            "their product at most %d",
            (int)in->n, CS_PLURAL(in->n), (int)options->replicas, CS_PLURAL(options->replicas),
            (int)options->slots, CS_PLURAL(options->slots), MAX_CELLS);
    if ((options->room && options->replicas != 1) || options->n_enc_parts > CS_LIST_DIMS - 2)
        return cs_fail(err, CS_INVALID,
                       "room is limited with one lane only, and at most %d encoders are apart",
                       CS_LIST_DIMS - 2);
    for (int32_t i = 0; i < in->n; i++)
        if (!is_cost(in->enc[i]) || !is_cost(in->llm[i]) || (in->tokens && !is_cost(in->tokens[i])))
            return cs_fail(err, CS_INVALID,
                           "sample %d costs enc %g, llm %g; costs must be 0 or more", (int)i,
                           in->enc[i], in->llm[i]);
    return CS_OK;
}

static void assign_slots(const struct job *job)
{
    const int32_t n = job->in->n, replicas = job->options->replicas;
    int32_t *first = CS_NEW_ARRAY(job->arena, int32_t, replicas + 1),
            *index = CS_NEW_ARRAY(job->arena, int32_t, n);
    for (int32_t i = 0; i < n; i++)
        first[job->out->replica[i] + 1]++;
    for (int32_t l = 0; l < replicas; l++)
        first[l + 1] += first[l];
    for (int32_t i = 0; i < n; i++) /* first[l] moves to the end of replica l ... */
        index[first[job->out->replica[i]]++] = i;
    for (int32_t l = 0; l < replicas; l++) { /* ... which is where replica l + 1 begins */
        const int32_t begin = l > 0 ? first[l - 1] : 0;
        const struct subset replica = {first[l] - begin, index + begin};
        if (replica.n > 0)
            policies[job->options->how].slots(job, &replica);
    }
}

enum cs_status cs_assign(const struct cs_assign_samples *samples,
                         const struct cs_assign_options *options, struct cs_arena *arena,
                         struct cs_assign_result *out, struct cs_err *err)
{
    CS_TRY(check(samples, options, err));
    const int32_t n = samples->n, cells = options->replicas * options->slots;
    double *both = CS_NEW_ARRAY(arena, double, n);
    const struct job job = {samples, options, out, both, arena};
    *out = (struct cs_assign_result){
        .replicas = options->replicas,
        .slots = options->slots,
        .replica = CS_NEW_ARRAY(arena, int32_t, n),
        .slot = CS_NEW_ARRAY(arena, int32_t, n),
        .llm_slot = CS_NEW_ARRAY(arena, int32_t, n),
        .enc = CS_NEW_ARRAY(arena, double, cells),
        .llm = CS_NEW_ARRAY(arena, double, cells),
        .enc_back = CS_NEW_ARRAY(arena, double, cells),
    };
    for (int32_t i = 0; i < n; i++)
        both[i] = samples->enc[i] + samples->llm[i];
    policies[options->how].replicas(&job);
    if (policies[options->how].slots)
        assign_slots(&job);
    for (int32_t i = 0; i < n; i++) {
        out->llm_slot[i] = out->slot[i];
        out->n_unplaced += out->slot[i] < 0;
    }
    cs_assign_sum(samples, out);
    return CS_OK;
}

void cs_assign_sum(const struct cs_assign_samples *samples, struct cs_assign_result *result)
{
    const size_t bytes = (size_t)result->replicas * (size_t)result->slots * sizeof(double);
    memset(result->enc, 0, bytes);
    memset(result->llm, 0, bytes);
    memset(result->enc_back, 0, bytes);
    for (int32_t i = 0; i < samples->n; i++) {
        const int32_t row = result->replica[i] * result->slots;
        if (result->slot[i] < 0)
            continue;
        result->enc[row + result->slot[i]] += samples->enc[i];
        result->llm[row + result->llm_slot[i]] += samples->llm[i];
        result->enc_back[row + result->llm_slot[i]] += samples->enc[i];
    }
}

void cs_assign_renumber(const struct cs_assign_samples *samples, struct cs_arena *arena,
                        int32_t replica, const int32_t *order, struct cs_assign_result *result)
{
    int32_t *place = CS_NEW_ARRAY(arena, int32_t, result->slots);
    for (int32_t i = 0; i < result->slots; i++)
        place[order[i]] = i;
    for (int32_t i = 0; i < samples->n; i++)
        if (result->replica[i] == replica && result->slot[i] >= 0) {
            result->slot[i] = place[result->slot[i]];
            result->llm_slot[i] = place[result->llm_slot[i]];
        }
    cs_assign_sum(samples, result);
}
