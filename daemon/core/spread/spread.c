/* Samples under budgets to slots by a policy, in more slots where they do not fit. */
#include "core/spread/spread.h"

#include <string.h>

/* The samples of the step, without those that are carried. */
struct held {
    int32_t n;
    int32_t *at; /* (n) index among the samples given */
    double *part[CS_MAX_ENCODERS], *enc, *llm;
    int32_t *tokens, *items[CS_MAX_ENCODERS], *rows[CS_MAX_ENCODERS], *patches[CS_MAX_ENCODERS];
    int32_t *kibibytes[CS_MAX_ENCODERS]; /* of items, rounded up */
};

static struct held hold(const struct cs_spread *spread, const struct cs_pack_sample *sample, int n,
                        struct cs_arena *arena)
{
    struct held h = {.at = CS_NEW_ARRAY(arena, int32_t, n),
                     .enc = CS_NEW_ARRAY(arena, double, n),
                     .llm = CS_NEW_ARRAY(arena, double, n),
                     .tokens = CS_NEW_ARRAY(arena, int32_t, n)};
    for (int e = 0; e < spread->n_encoders; e++) {
        h.part[e] = CS_NEW_ARRAY(arena, double, n);
        h.items[e] = CS_NEW_ARRAY(arena, int32_t, n);
        h.rows[e] = CS_NEW_ARRAY(arena, int32_t, n);
        h.patches[e] = CS_NEW_ARRAY(arena, int32_t, n);
        h.kibibytes[e] = CS_NEW_ARRAY(arena, int32_t, n);
    }
    for (int i = 0; i < n; i++) {
        if (sample[i].slot < 0)
            continue;
        const int32_t k = h.n++;
        h.at[k] = i;
        h.tokens[k] = sample[i].tokens;
        h.llm[k] = spread->llm[i];
        for (int e = 0; e < spread->n_encoders; e++) {
            h.items[e][k] = sample[i].items[e];
            h.rows[e][k] = sample[i].rows[e];
            h.patches[e][k] = sample[i].patches[e];
            h.kibibytes[e][k] = (int32_t)((sample[i].bytes[e] + 1023) / 1024);
            h.part[e][k] = spread->enc[e][i];
            h.enc[k] += spread->enc[e][i];
        }
    }
    return h;
}

/* The same limits as cs_pack's, bytes in whole KiB. Where all items are alike their number says it all. */
static struct cs_list_room room_of(const struct cs_slot_budget *budget, const struct held *h)
{
    struct cs_list_room room = {
        .n = 2, .size = {h->tokens,          NULL               },
             .limit = {budget->seq_tokens, CS_SLOT_MAX_SAMPLES}
    };
    for (int e = 0; e < budget->n_encoders; e++) {
        room.size[room.n] = h->items[e];
        room.limit[room.n++] = budget->enc[e].items;
        room.size[room.n] = h->rows[e];
        room.limit[room.n++] = budget->enc[e].rows;
        if (budget->enc[e].height > 0)
            continue;
        room.size[room.n] = h->patches[e];
        room.limit[room.n++] = budget->enc[e].patches;
        room.size[room.n] = h->kibibytes[e];
        room.limit[room.n++] = (int32_t)(budget->enc[e].bytes / 1024);
    }
    return room;
}

/* Numbers without gaps, in order: a policy may leave a slot empty. Returns how many. */
static int close_gaps(int32_t *slot, int32_t n, int32_t slots, struct cs_arena *arena)
{
    int32_t *name = CS_NEW_ARRAY(arena, int32_t, slots), used = 0;
    for (int32_t i = 0; i < n; i++)
        name[slot[i]] = 1;
    for (int32_t s = 0; s < slots; s++)
        name[s] = name[s] ? used++ : -1;
    for (int32_t i = 0; i < n; i++)
        slot[i] = name[slot[i]];
    return used;
}

static int at_most(int a, int b)
{
    return a < b ? a : b;
}

enum cs_status cs_spread(const struct cs_slot_budget *budget, const struct cs_spread *spread,
                         int max_slots, struct cs_pack_sample *sample, int n, int *n_slots,
                         bool *is_spread, struct cs_err *err)
{
    enum cs_status status = CS_OK;
    bool is_done = false;
    CS_ASSERT(spread->n_encoders == budget->n_encoders && budget->n_encoders <= CS_LIST_DIMS - 2 &&
              4 * budget->n_encoders <= CS_LIST_ROOMS - 2);
    if (is_spread)
        *is_spread = false;
    if (spread->is_kept || *n_slots == 0)
        return CS_OK;
    struct cs_arena *arena = cs_arena_new(0);
    const struct held h = hold(spread, sample, n, arena);
    const struct cs_list_room room = room_of(budget, &h);
    const struct cs_assign_samples samples = {h.n, h.enc, h.llm, NULL};
    const double *parts[CS_MAX_ENCODERS];
    for (int e = 0; e < spread->n_encoders; e++)
        parts[e] = h.part[e];
    max_slots = at_most(at_most(max_slots, CS_STEP_MAX_SLOTS), h.n);
    int slots = at_most(*n_slots > spread->slots ? *n_slots : spread->slots, max_slots);
    for (int i = 0; i < CS_SPREAD_TRIES && !is_done && slots <= max_slots; i++) {
        const struct cs_assign_options options = {.how = spread->how,
                                                  .replicas = 1,
                                                  .slots = slots,
                                                  .seed = spread->key,
                                                  .room = &room,
                                                  .enc_part = parts,
                                                  .n_enc_parts = spread->n_encoders};
        struct cs_assign_result r;
        status = cs_assign(&samples, &options, arena, &r, err);
        if (status != CS_OK)
            break;
        is_done = r.n_unplaced == 0;
        if (is_done) {
            *n_slots = close_gaps(r.slot, h.n, slots, arena);
            for (int32_t k = 0; k < h.n; k++)
                sample[h.at[k]].slot = r.slot[k];
        }
        slots += slots < 8 ? 1 : slots / 8;
    }
    if (is_spread)
        *is_spread = is_done;
    cs_arena_free(arena);
    return status;
}

double cs_spread_largest(const struct cs_pack_sample *sample, int n, const double *work)
{
    double sum = 0, most = 0;
    int32_t n_slots = 0;
    for (int i = 0; i < n; i++)
        n_slots = sample[i].slot >= n_slots ? sample[i].slot + 1 : n_slots;
    struct cs_arena *arena = cs_arena_new(0);
    double *load = CS_NEW_ARRAY(arena, double, n_slots);
    for (int i = 0; i < n; i++)
        if (sample[i].slot >= 0) {
            load[sample[i].slot] += work[i];
            sum += work[i];
        }
    for (int32_t s = 0; s < n_slots; s++)
        most = load[s] > most ? load[s] : most;
    cs_arena_free(arena);
    return sum > 0 ? most / sum : 0;
}

void cs_spread_reorder(struct cs_pack_sample *sample, int n, const int32_t *order, int n_slots)
{
    struct cs_arena *arena = cs_arena_new(0);
    int32_t *place = CS_NEW_ARRAY(arena, int32_t, n_slots);
    for (int i = 0; i < n_slots; i++)
        place[order[i]] = i;
    for (int i = 0; i < n; i++)
        if (sample[i].slot >= 0)
            sample[i].slot = place[sample[i].slot];
    cs_arena_free(arena);
}

bool cs_spread_from_name(const char *name, struct cs_spread *spread)
{
    spread->is_kept = strcmp(name, "stream") == 0;
    return spread->is_kept ||
           (cs_assign_how_from_name(name, &spread->how) &&
            (spread->how == CS_ASSIGN_LIST2D || spread->how == CS_ASSIGN_LPT ||
             spread->how == CS_ASSIGN_ENTRAIN || spread->how == CS_ASSIGN_RANDOM));
}
