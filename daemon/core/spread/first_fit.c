/* Takes samples for a step in order, first fit: which of them the step holds, and their slots where
 * no policy spreads them by their work (evaluation, balance = "stream"). */
#include "core/spread/first_fit.h"

#include <stdlib.h>

/* what a slot holds so far */
struct load {
    int64_t tokens;
    int32_t samples;
    int64_t items[CS_MAX_ENCODERS], rows[CS_MAX_ENCODERS], patches[CS_MAX_ENCODERS];
    int64_t bytes[CS_MAX_ENCODERS];
};

static bool has_room(const struct cs_slot_budget *budget, const struct load *load,
                     const struct cs_pack_sample *sample)
{
    if (load->samples >= CS_SLOT_MAX_SAMPLES)
        return false;
    if (load->tokens + sample->tokens > budget->seq_tokens)
        return false;
    for (int e = 0; e < budget->n_encoders; e++)
        if (load->items[e] + sample->items[e] > budget->enc[e].items ||
            load->rows[e] + sample->rows[e] > budget->enc[e].rows ||
            load->patches[e] + sample->patches[e] > budget->enc[e].patches ||
            load->bytes[e] + sample->bytes[e] > budget->enc[e].bytes)
            return false;
    return true;
}

static void add(const struct cs_slot_budget *budget, struct load *load,
                const struct cs_pack_sample *sample)
{
    load->samples++;
    load->tokens += sample->tokens;
    for (int e = 0; e < budget->n_encoders; e++) {
        load->items[e] += sample->items[e];
        load->rows[e] += sample->rows[e];
        load->patches[e] += sample->patches[e];
        load->bytes[e] += sample->bytes[e];
    }
}

static int32_t shortest_of(const struct cs_pack_sample *sample, int n)
{
    int32_t shortest = INT32_MAX;
    for (int i = 0; i < n; i++)
        shortest = sample[i].tokens < shortest ? sample[i].tokens : shortest;
    return shortest;
}

/* No sample of the step has room there. */
static bool is_full(const struct cs_slot_budget *budget, const struct load *load, int32_t shortest)
{
    return load->samples >= CS_SLOT_MAX_SAMPLES || load->tokens + shortest > budget->seq_tokens;
}

int cs_pack(const struct cs_slot_budget *budget, int max_slots, struct cs_pack_sample *sample,
            int n)
{
    const int most = max_slots < n ? max_slots : n;
    struct load *load = calloc((size_t)most + 1, sizeof *load);
    const int32_t shortest = shortest_of(sample, n);
    int open = 0, full = 0;
    CS_ASSERT(load != NULL);
    for (int i = 0; i < n; i++) {
        while (full < open && is_full(budget, &load[full], shortest))
            full++;
        int s = full;
        while (s < open && !has_room(budget, &load[s], &sample[i]))
            s++;
        if (s == open) {
            sample[i].slot = -1;
            if (open == most || !has_room(budget, &load[open], &sample[i]))
                continue;
            open++;
        }
        sample[i].slot = s;
        add(budget, &load[s], &sample[i]);
    }
    free(load);
    return open;
}

int cs_pack_most(int64_t n_samples, int replicas)
{
    const int64_t room = (CS_STEP_PACK_SLOTS + replicas - 1) / replicas * replicas;
    const int64_t whole = (n_samples + replicas - 1) / replicas * replicas;
    const int64_t most = whole < room ? whole : room;
    return (int)(most > replicas ? most : replicas);
}
